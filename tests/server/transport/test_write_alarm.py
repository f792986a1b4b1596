"""Without a clock, time passes when the test says so; then over sockets that are not read."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable
from typing import cast
from unittest.mock import Mock

import pytest

from segue.server.transport.connection import Connection
from segue.server.transport.write_alarm import WriteAlarm, num_in_system
from tests.server.conftest import Launch, Live
from tests.support.waiting import PATIENCE_S, wait_until


class Reader:
    """Bytes that wait for a reader, and a timer that rings when told."""

    def __init__(self) -> None:
        self.num_waiting = 1000
        self.num_stalls = 0
        self._ring: Callable[[], None] | None = None
        self.alarm = WriteAlarm(self._later, lambda: self.num_waiting, 30.0, self._stalled)

    def _later(self, delay: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        assert delay == 30.0
        self._ring = callback
        return Mock(asyncio.TimerHandle, cancel=self._cancel)

    def _cancel(self) -> None:
        self._ring = None

    def _stalled(self) -> None:
        self.num_stalls += 1

    def wait(self) -> None:
        ring, self._ring = self._ring, None
        if ring is not None:
            ring()


def test_a_reader_that_takes_something_is_left_alone() -> None:
    """However long the whole takes: it used to be cut once the first 30 seconds were over."""
    reader = Reader()
    reader.alarm.start()
    for _ in range(100):
        reader.num_waiting -= 1
        reader.wait()
    assert reader.num_stalls == 0
    reader.wait()
    assert reader.num_stalls == 1


def test_a_reader_that_has_caught_up_is_forgotten() -> None:
    reader = Reader()
    reader.alarm.start()
    reader.alarm.stop()
    reader.wait()
    assert reader.num_stalls == 0


def test_a_reader_that_has_taken_all_is_forgotten() -> None:
    reader = Reader()
    reader.alarm.start()
    reader.num_waiting = 0
    for _ in range(3):
        reader.wait()
    assert reader.num_stalls == 0


async def unread(live: Live) -> list[int]:
    connections = [cast("Connection", each) for each in live.connections]
    return [each.transport.get_write_buffer_size() for each in connections]


def begin(client: socket.socket, live: Live, num_chars: int, end: bytes = b"\r\n") -> None:
    """Ask for an answer of this length, and wait until it has begun."""
    body = b'{"prompt":"%b","echo":true}' % (b"x" * num_chars)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE_S)
    client.connect((live.host, live.port))
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n" % len(body)
    client.sendall(head + end + body)
    client.recv(1)


@pytest.mark.parametrize("closes", [True, False])
def test_answers_of_any_size_that_nobody_reads_are_not_kept(launch: Launch, closes: bool) -> None:
    """Also where so little is left of one that writing was never paused. Such a connection stayed for ever: it closes
    only when all is read."""
    live = launch(write_timeout_s=0.3)
    live.shrink_send_buffers()
    with contextlib.ExitStack() as clients:
        for size in range(20_000, 400_000, 20_000):
            client = clients.enter_context(socket.socket())
            with contextlib.suppress(ConnectionError):  # it may be dropped by now
                begin(client, live, size, b"connection: close\r\n\r\n" if closes else b"\r\n")
        wait_until(lambda: sum(live.ask(unread(live))) == 0)
        assert live.complete().status_code == 200


async def untaken(live: Live) -> int:
    """Of all connections: the one by which the server was found ready may still be there."""
    transports = [cast("Connection", each).transport for each in live.connections]
    return sum(each.get_write_buffer_size() + num_in_system(each) for each in transports)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_a_reader_that_takes_little_of_much_is_seen(launch: Launch) -> None:
    """The system asks for more only when a third of its buffer is free: such a reader was dropped."""
    live = launch()
    with socket.socket() as client:
        begin(client, live, 2_000_000)
        wait_until(lambda: live.ask(untaken(live)) > 1_000_000)  # all of it is written
        before = live.ask(untaken(live))
        for _ in range(20):
            client.recv(1000)
        wait_until(lambda: live.ask(untaken(live)) < before)
