"""Detects a client that reads nothing. A client that reads slowly is not affected."""

import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import Protocol

if sys.platform == "linux":
    from fcntl import ioctl
    from termios import TIOCOUTQ


class _Later(Protocol):
    def __call__(self, delay: float, callback: Callable[[], None], /) -> asyncio.TimerHandle: ...


class WriteAlarm:
    """While started, calls `on_stalled` once `num_waiting` bytes have not become fewer for `patience_s`."""

    def __init__(
        self,
        call_later: _Later,
        num_waiting: Callable[[], int],
        patience_s: float,
        on_stalled: Callable[[], None],
    ) -> None:
        self._call_later = call_later
        self._num_waiting = num_waiting
        self._patience_s = patience_s
        self._on_stalled = on_stalled
        self._num_before = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._timer is None:
            self._num_before = self._num_waiting()
            self._timer = self._call_later(self._patience_s, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        num_waiting = self._num_waiting()
        if num_waiting and num_waiting >= self._num_before:
            self._on_stalled()
        elif num_waiting:
            self.start()


def num_in_system(transport: asyncio.Transport) -> int:
    """Bytes that the system has and the client has not taken, where the system tells: on Linux.

    It takes more from us only when a third of its buffer, up to 4 MB, is free: a slow reader would look like one that
    reads nothing.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):  # closed by now
            sock = transport.get_extra_info("socket")
            return int.from_bytes(ioctl(sock.fileno(), TIOCOUTQ, bytes(4)), sys.byteorder)
    return 0
