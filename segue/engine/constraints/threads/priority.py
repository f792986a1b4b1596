"""How much of the processors a thread gets."""

import contextlib
import os
import sys
import threading

_NICENESS = 10


def step_back(thread_id: int | None = None) -> None:
    """Lower the priority of a thread, the calling one unless told, below the threads that run the model."""
    if sys.platform == "linux":  # where that is a thread's own
        with contextlib.suppress(ProcessLookupError):  # it may have ended
            os.setpriority(os.PRIO_PROCESS, thread_id or threading.get_native_id(), _NICENESS)
