import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.engine.seam import Draw, Span
from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import SLEEPS_HERE
from segue.runners.cpu.threads.team import Kernels, Team
from tests.runners.cpu.conftest import NewThreads, load
from tests.support.waiting import wait_until


def asleep(runner: CpuRunner) -> bool:
    words = runner._team.words[on.MAILBOXES + on.ASLEEP :: on.MAILBOX_WORDS]
    return bool(words[1 : runner._team.size].all())


def test_threads_sleep_between_steps_and_are_woken(q8_gguf: Path) -> None:
    runner = load(q8_gguf, threads=3)
    first = runner.decode([Span(0, list(range(40)), 0, 1)]).copy()
    for slot in range(1, 6):
        wait_until(lambda: asleep(runner))
        again = runner.decode([Span(slot, list(range(40)), 0, 1)])
        np.testing.assert_array_equal(again, first)
    runner.close()


def test_all_threads_sleep_between_chains_and_are_woken(q8_gguf: Path) -> None:
    runner = load(q8_gguf, threads=3)
    draws = [Draw(0, 0.5, ())]
    found = []
    for slot in range(4):
        runner.begin([Span(slot, list(range(40)), 0, 1)], draws)
        runner.begin([Span(slot, [-1], 40, 1)], draws)
        found.append([*runner.end().tokens, *runner.end().tokens])
        wait_until(lambda: asleep(runner))
    assert found == [found[0]] * 4
    runner.close()


@pytest.mark.skipif(not SLEEPS_HERE, reason="here nobody sleeps in compiled code")
def test_who_wakes_a_sleeper_leaves_its_flag_alone(q8_gguf: Path) -> None:
    """The flag may already be that of the sleeper's next wait, which nobody would end then."""
    runner = load(q8_gguf, threads=2)
    words: NDArray[np.int64] = zeros(on.NUM_TEAM_WORDS, np.int64)
    mailbox = on.MAILBOXES + on.MAILBOX_WORDS
    words[mailbox + on.ASLEEP] = 1
    runner._team._kernels.post_step(address(words), 1, 2, 0)
    assert words[mailbox + on.POSTED] == words[mailbox + on.ASLEEP] == 1
    runner.close()


def test_closing_ends_the_threads(q8_gguf: Path) -> None:
    threads = NewThreads()
    runner = load(q8_gguf, threads=4)
    assert len(threads) == 3
    wait_until(lambda: asleep(runner))
    runner.close()
    assert len(threads) == 0


def test_models_that_take_turns_share_a_team(q8_gguf: Path) -> None:
    threads = NewThreads()
    large = load(q8_gguf, threads=3)
    small = load(q8_gguf, threads=4, beside=large)
    assert len(threads) == 2
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
    assert len(threads) == 0


def test_more_threads_than_processors_finish_their_steps(q8_gguf: Path) -> None:
    runner, few = load(q8_gguf, threads=24), load(q8_gguf, threads=1)
    span = Span(0, list(range(100)), 0, 100)
    np.testing.assert_array_equal(runner.decode([span]), few.decode([span]))
    runner.close()
    few.close()


class WithoutWaiting:
    """The kernels as a system without a way to wait for a word runs them: an idle thread returns at once."""

    def __init__(self, threads: int) -> None:
        self.boards = [np.zeros(on.NUM_WORDS, np.int64) for _ in range(2)]
        self.ran: list[tuple[int, int]] = []  # thread, step
        self._lock = threading.Lock()
        self._posted = [[0] for _ in range(threads)]  # boards, by thread
        self._asleep = [0] * threads
        self._changed = threading.Condition()
        self.team = Team(
            threads, Kernels(self.run, self.serve, self.post, self.wait_left, self.tell)
        )

    def tell(self, place: int, value: int) -> int:
        raise AssertionError("no mask is told here")

    def board(self, place: int) -> NDArray[np.int64]:
        return next(board for board in self.boards if address(board) == place)

    def run(self, thread: int, place: int) -> int:
        self.ran.append((thread, int(self.board(place)[on.NUMBER])))
        return 0

    def serve(self, thread: int, team: int, seen: int) -> int:
        while True:
            with self._lock:
                if len(self._posted[thread]) == seen + 1:
                    self._asleep[thread] = 1
                    return seen
            seen += 1
            place = self._posted[thread][seen]
            if not place:
                return -1
            self.run(thread, place)
            with self._changed:
                self.board(place)[on.LEFT] += 1
                self._changed.notify_all()

    def post(self, team: int, first: int, end: int, place: int) -> int:
        num_asleep = 0
        for i in range(first, end):
            with self._lock:
                self._posted[i].append(place)
                asleep, self._asleep[i] = self._asleep[i], 0
            self.team.words[on.MAILBOXES + on.MAILBOX_WORDS * i + on.TO_WAKE] = asleep
            num_asleep += asleep
        return num_asleep

    def wait_left(self, place: int) -> int:
        board = self.board(place)
        with self._changed:
            self._changed.wait_for(lambda: board[on.LEFT] == board[on.POSTED_TO])
        return 0


def test_threads_sleep_in_python_where_the_system_has_no_way_to_wait_for_a_word() -> None:
    here = WithoutWaiting(3)
    for threads in (3, 1, 2, 3):
        here.team.step(here.boards[0], threads)
    here.team.begin(here.boards[0], 3)
    here.team.begin(here.boards[1], 2)
    here.team.end()
    here.team.begin(here.boards[0], 1)
    here.team.end()
    here.team.end()
    here.team.step(here.boards[0], 2)
    here.team.close()
    steps = {1: 3, 2: 1, 3: 2, 4: 3, 5: 3, 6: 2, 7: 1, 8: 2}
    assert sorted(here.ran) == sorted((i, step) for step in steps for i in range(steps[step]))


def test_steps_begun_and_ended_in_the_wrong_order_are_refused() -> None:
    here = WithoutWaiting(2)
    with pytest.raises(RuntimeError, match="no step is open"):
        here.team.end()
    here.team.begin(here.boards[0], 2)
    with pytest.raises(RuntimeError, match="a step is open"):
        here.team.step(here.boards[1], 1)
    here.team.begin(here.boards[1], 2)
    with pytest.raises(RuntimeError, match="two steps are open"):
        here.team.begin(here.boards[0], 1)
    here.team.end()
    here.team.end()
    here.team.close()
