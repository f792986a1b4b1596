"""Without a clock: time passes when the test says so."""

import asyncio
from collections.abc import Callable
from unittest.mock import Mock

from segue.server.write_alarm import WriteAlarm


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
