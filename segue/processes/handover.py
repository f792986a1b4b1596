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


class Dealer:
    """Accepts while at least one process takes connections; until then they wait in the system's backlog."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        listener.setblocking(False)
        self._takers: deque[socket.socket] = deque()  # the next one is first
        self._loop = asyncio.get_running_loop()

    def add(self, taker: socket.socket) -> None:
        """`taker`: a Unix domain socket to a process that reads connections from its other end."""
        taker.setblocking(False)
        self._takers.append(taker)
        if len(self._takers) == 1 and self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def remove(self, taker: socket.socket) -> None:
        with contextlib.suppress(ValueError):
            self._takers.remove(taker)
        if not self._takers:
            self._pause()

    def close(self) -> None:
        """Accept nothing any more."""
        self._pause()
        self._listener.close()

    def _pause(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # too many open files
                log.error("a connection could not be accepted: %s", error)
                self._pause()
                self._loop.call_later(_PAUSE_S, self._resume)
                return
            with connection:
                self._hand(connection)

    def _resume(self) -> None:
        if self._takers and self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _hand(self, connection: socket.socket) -> None:
        """To the next process that takes it; one that does not read is passed over."""
        for _ in range(len(self._takers)):
            taker = self._takers[0]
            self._takers.rotate(-1)
            with contextlib.suppress(OSError):
                socket.send_fds(taker, [b"c"], [connection.fileno()])
                return
        log.error("no server process takes connections: one is closed")


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
