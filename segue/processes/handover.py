"""Connections, accepted by the parent and handed to server processes in turn.

If every process accepted for itself, one that wakes first would take all connections of a burst, and streams last long.
"""

import asyncio
import contextlib
import logging
import socket
from collections import deque
from collections.abc import Callable

log = logging.getLogger("segue.processes")

_AT_ONCE = 64  # connections accepted before other work gets its turn
_PAUSE_S = 0.5  # after the system refused to accept one
_FULL_S = 0.01  # while no process takes one


class Acceptor:
    """Accepts while at least one process takes connections; until then they wait in the system's backlog.

    A busy process reads its connections late, and the system holds some hundred for it. When all are that far behind,
    one connection is kept here until one of them takes it.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        listener.setblocking(False)
        self._takers: deque[socket.socket] = deque()  # the next one is first
        self._kept: socket.socket | None = None  # accepted, and taken by none so far
        self._loop = asyncio.get_running_loop()

    def add(self, taker: socket.socket) -> None:
        """`taker`: a Unix domain socket to a process that reads connections from its other end."""
        taker.setblocking(False)
        self._takers.append(taker)
        if len(self._takers) == 1:
            self._resume()

    def remove(self, taker: socket.socket) -> None:
        with contextlib.suppress(ValueError):
            self._takers.remove(taker)
        if not self._takers:
            self._pause()

    def close(self) -> None:
        """Accept nothing any more."""
        self._pause()
        self._listener.close()
        if self._kept is not None:
            self._kept.close()

    def _pause(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection = self._kept or self._listener.accept()[0]
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # too many open files
                log.error("a connection could not be accepted: %s", error)
                return self._rest(_PAUSE_S)
            if not self._is_handed(connection):
                self._kept = connection
                return self._rest(_FULL_S)
            self._kept = None
            connection.close()

    def _rest(self, seconds: float) -> None:
        self._pause()
        self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        if self._takers and self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)
            self._accept()  # the one that was kept

    def _is_handed(self, connection: socket.socket) -> bool:
        """Whether one of the processes took it, the next one first."""
        for _ in range(len(self._takers)):
            taker = self._takers[0]
            self._takers.rotate(-1)
            with contextlib.suppress(OSError):
                socket.send_fds(taker, [b"c"], [connection.fileno()])
                return True
        return False


def receive(source: socket.socket, take: Callable[[socket.socket], None]) -> None:
    """Have `take` called with each connection that the parent hands over."""
    source.setblocking(False)
    loop = asyncio.get_running_loop()

    def read() -> None:
        while True:
            try:
                data, descriptors, _flags, _address = socket.recv_fds(source, 1, 1)
            except (BlockingIOError, InterruptedError):
                return
            if not data:
                loop.remove_reader(source)
                return
            for descriptor in descriptors:
                take(socket.socket(fileno=descriptor))

    loop.add_reader(source, read)
