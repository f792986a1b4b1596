import threading
import time
from pathlib import Path

import numpy as np

from segue.engine.seam import Span
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.step import board as on
from segue.runners.cpu.team import Team
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


def test_models_that_take_turns_share_a_team(q8_gguf: Path) -> None:
    before = threading.active_count()
    large = load(q8_gguf, threads=3)
    small = load(q8_gguf, threads=4, beside=large)
    assert threading.active_count() == before + 2
    tokens = list(range(60))
    expected = large.decode([Span(0, tokens, 0, len(tokens))]).copy()
    for i in range(len(tokens)):  # one token of the one, two of the other
        np.testing.assert_array_equal(small.decode([Span(0, [i], i, 1)])[0], expected[i])
        if i % 2:
            span = Span(1, tokens[i - 1 : i + 1], i - 1, 2)
            np.testing.assert_array_equal(large.decode([span]), expected[i - 1 : i + 1])
    small.close()
    large.decode([Span(2, tokens, 0, 1)])
    large.close()
    assert threading.active_count() == before


def test_more_threads_than_processors_finish_their_steps(q8_gguf: Path) -> None:
    runner, few = load(q8_gguf, threads=24), load(q8_gguf, threads=1)
    span = Span(0, list(range(100)), 0, 100)
    np.testing.assert_array_equal(runner.decode([span]), few.decode([span]))
    runner.close()
    few.close()


class WithoutWaiting:
    """The three kernels as a system without a way to wait for a word runs them: an idle thread returns at once."""

    def __init__(self, threads: int) -> None:
        self.board = np.zeros(on.NUM_WORDS, np.int64)
        self.ran: list[tuple[int, int]] = []  # thread, step
        self._lock = threading.Lock()
        self._done = [threading.Semaphore(0) for _ in range(threads)]
        self.team = Team(threads, self.board, 0, self.run, self.serve, self.post)

    def run(self, thread: int, board: int) -> int:
        for i in range(1, int(self.board[on.THREADS])):
            self._done[i].acquire()
        return 0

    def serve(self, thread: int, board: int, seen: int) -> int:
        mailbox = on.MAILBOXES + on.MAILBOX_WORDS * thread
        while True:
            with self._lock:
                step = int(self.board[mailbox])
                if step == seen:
                    self.board[mailbox + on.ASLEEP] = 1
                    return seen
            if step < 0:
                return -1
            seen = step
            self.ran.append((thread, step))
            self._done[thread].release()

    def post(self, address: int, threads: int, number: int) -> int:
        num_asleep = 0
        for i in range(1, threads):
            mailbox = on.MAILBOXES + on.MAILBOX_WORDS * i
            with self._lock:
                asleep = int(self.board[mailbox + on.ASLEEP])
                self.board[mailbox + on.STEP], self.board[mailbox + on.ASLEEP] = number, 0
                self.board[mailbox + on.TO_WAKE] = asleep
            num_asleep += asleep
        return num_asleep


def test_threads_sleep_in_python_where_the_system_has_no_way_to_wait_for_a_word() -> None:
    here = WithoutWaiting(3)
    for threads in (3, 1, 2, 3):
        here.team.step(here.board, 0, threads)
    here.team.close()
    assert sorted(here.ran) == [(1, 1), (1, 3), (1, 4), (2, 1), (2, 4)]
