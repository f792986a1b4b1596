"""Ends vLLM's processes when the server dies: a server that was killed can no longer end them itself.

A vLLM plugin (`vllm.general_plugins`): vLLM loads it in each of its processes. Without the variable it does nothing.
"""

import atexit
import multiprocessing
import multiprocessing.util  # its exit handler waits for children; handlers registered later run before it
import os
import threading

_VARIABLE = "SEGUE_PARENT_WATCH"  # inherited by child processes


def tie() -> None:
    """Called in the server before vLLM is started: all processes started from now on end with this one."""
    os.environ[_VARIABLE] = "1"
    atexit.unregister(_end_children)  # so that it is registered only once
    atexit.register(_end_children)


def watch() -> None:
    """Called in a vLLM process: end it when its parent ends, and so with the server."""
    if os.environ.get(_VARIABLE) and multiprocessing.parent_process() is not None:
        threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _end_children() -> None:
    """End children that were still loading a model when the server stopped: Python would wait for them at exit."""
    for child in multiprocessing.active_children():
        child.kill()
