"""The process that coordinates several engines of vLLM (`data_parallel_size`). Only vLLM's own server watches over it.

It loads no plugins: without more, it would stay when the server is killed. And engines that have lost it may wait for
each other for ever.
"""

import threading
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

from segue.distributed.parent_watch import watch

_run: Callable[..., None] | None = None  # vLLM's own, where it was replaced


def tie_coordinator() -> None:
    """Called in the server before vLLM is started: a coordinator that is started from now on ends with this process."""
    from vllm.v1.engine.coordinator import DPCoordinatorProc

    global _run
    if _run is None:
        _run = DPCoordinatorProc.run_coordinator
        DPCoordinatorProc.run_coordinator = staticmethod(coordinate)


def coordinate(**arguments: Any) -> None:
    """What the coordinator's process runs."""
    watch()
    run = _run
    if run is None:  # a new interpreter, in which nothing was replaced
        from vllm.v1.engine.coordinator import DPCoordinatorProc

        run = DPCoordinatorProc.run_coordinator
    run(**arguments)


def watch_coordinator(llm: Any) -> None:
    """`llm`: vLLM's client. Once its coordinator has ended, the engine counts as dead."""
    resources = llm.engine_core.resources
    if getattr(resources, "coordinator", None) is not None:
        name = "coordinator-watch"
        threading.Thread(target=_watch, args=(resources,), name=name, daemon=True).start()


def _watch(resources: Any) -> None:
    connection.wait([resources.coordinator.proc.sentinel])
    resources.engine_dead = True
