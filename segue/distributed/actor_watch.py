"""Notices the end of one of vLLM's engines that are actors of Ray (`data_parallel_backend=ray`).

vLLM's own watch over them stops at the first error that an actor ends with, before it has marked the engine as dead:
requests of that engine would wait for ever.
"""

import threading
from typing import Any

_LOOK_S = 0.2  # also how long the watch may outlive the engine


def watch_actors(llm: Any) -> None:
    """`llm`: vLLM's client. Once an actor has ended, it counts as dead. Other engines are watched by vLLM itself."""
    resources = llm.engine_core.resources
    if hasattr(resources.engine_manager, "get_run_refs"):
        watch = threading.Thread(target=_watch, args=(resources,), name="actor-watch", daemon=True)
        watch.start()


def _watch(resources: Any) -> None:
    import ray

    manager = resources.engine_manager
    while not manager.manager_stopped.is_set():
        runs = list(manager.get_run_refs())
        ended, _ = ray.wait(runs, timeout=_LOOK_S)
        if ended and not manager.manager_stopped.is_set():
            resources.engine_dead = True
            return
