"""vLLM's processes must not outlive the server: killed outright, it can no longer end them.

A plugin of vLLM's (`vllm.general_plugins`), which loads it in each of them. Without the variable it does nothing.
"""

import atexit
import multiprocessing
import multiprocessing.util  # waits for children at exit; what is registered after it runs before it
import os
import threading

_VARIABLE = "SEGUE_TETHER"  # processes inherit it


def tie() -> None:
    """In the server, before vLLM is started: whatever it starts from now on ends with this process."""
    os.environ[_VARIABLE] = "1"
    atexit.unregister(_end_children)  # once is enough
    atexit.register(_end_children)


def watch() -> None:
    """In a process of vLLM's. Each ends with the one that started it, and so all end with the server."""
    if os.environ.get(_VARIABLE) and multiprocessing.parent_process() is not None:
        threading.Thread(target=_end_with_parent, name="tether", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _end_children() -> None:
    """Those of an engine that was still loading when the server was told to stop: Python would wait for them."""
    for child in multiprocessing.active_children():
        child.kill()
