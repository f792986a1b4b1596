"""How much of the processors a thread gets."""

import contextlib
import os
import sys
import threading

_FURTHER = 10  # than the process itself, which may have been started with a low priority
_LOWEST = 19


def step_back(thread_id: int | None = None) -> None:
    """Lower the priority of a thread, the calling one unless told, below the threads that run the model.

    It is a courtesy: nothing happens where the thread has ended, or the system refuses.
    """
    if sys.platform == "linux":  # where that is a thread's own
        thread_id = thread_id or threading.get_native_id()
        with contextlib.suppress(OSError):
            niceness = os.getpriority(os.PRIO_PROCESS, os.getpid()) + _FURTHER
            os.setpriority(os.PRIO_PROCESS, thread_id, min(niceness, _LOWEST))
