"""A command that Ctrl-C, SIGTERM or the end of its terminal stops: it ends in order, and then by that very signal.

In order: what it has begun is undone, and the processes that it started end with it. By the signal: a shell ends the
script or the loop that the command stands in, and has 128 and the signal's number as its status.
"""

import atexit
import os
import signal
import sys
import threading
from types import FrameType


class Stopped(SystemExit):
    """Raised where the signal finds the command; whoever cleans up at the end of the program does so."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def take_signals() -> None:
    """From now on SIGTERM and SIGHUP raise Stopped. A second one ends the process at once."""
    if threading.current_thread() is not threading.main_thread():  # no other may ask for signals
        return
    signal.signal(signal.SIGTERM, _stop)
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    # nohup has it ignored: the command is to outlive its terminal.
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        signal.signal(hangup, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise Stopped(number)


class LastAct:
    """Made before anything else asks to be called at the end of the program: so its turn comes last."""

    def __init__(self) -> None:
        self._number: int | None = None
        atexit.register(self._end)

    def end_by(self, stopped: Stopped) -> None:
        self._number = stopped.number

    def _end(self) -> None:
        if self._number is None or sys.platform == "win32":  # which has exit codes alone
            return
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # nobody reads it any more
                continue
        signal.signal(self._number, signal.SIG_DFL)
        os.kill(os.getpid(), self._number)  # no effect on the first process of a container
