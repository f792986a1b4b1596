import threading
import time
from pathlib import Path

import numpy as np

from segue.engine.seam import Span
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.step import board as on
from tests.runners.cpu.conftest import load


def asleep(runner: CpuRunner) -> bool:
    """Whether every thread but the caller's sleeps."""
    words = runner._space.board[on.MAILBOXES + on.MAILBOX_WORDS + 1 :: on.MAILBOX_WORDS]
    return bool(words[: runner._team.size - 1].all())


def await_sleep(runner: CpuRunner) -> None:
    for _ in range(10_000):
        if asleep(runner):
            return
        time.sleep(0.001)
    raise AssertionError("the threads never sleep")


def test_threads_sleep_between_steps_and_are_woken(q8_gguf: Path) -> None:
    runner = load(q8_gguf, threads=3)
    first = runner.decode([Span(0, list(range(40)), 0, 1)]).copy()
    for slot in range(1, 6):
        await_sleep(runner)
        again = runner.decode([Span(slot, list(range(40)), 0, 1)])
        np.testing.assert_array_equal(again, first)
    runner.close()


def test_closing_ends_the_threads(q8_gguf: Path) -> None:
    before = threading.active_count()
    runner = load(q8_gguf, threads=4)
    assert threading.active_count() == before + 3
    await_sleep(runner)
    runner.close()
    assert threading.active_count() == before


def test_more_threads_than_processors_finish_their_steps(q8_gguf: Path) -> None:
    runner, few = load(q8_gguf, threads=24), load(q8_gguf, threads=1)
    span = Span(0, list(range(100)), 0, 100)
    np.testing.assert_array_equal(runner.decode([span]), few.decode([span]))
    runner.close()
    few.close()
