"""Threads that come late to a step, or never: nobody waits for them, and they change nothing."""

import random
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from segue.engine.seam import Span
from segue.runners.cpu.memory import address
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.step import board as on
from segue.runners.cpu.threads.tuning import Threads
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write
from tests.support.waiting import wait_until

THREADS = 3


class Held:
    """Steps are sent to all threads but the last, which gets them when `deliver` is called."""

    def __init__(self, runner: CpuRunner) -> None:
        self._team = runner._team
        self._post = self._team._kernels.post_step
        self._steps: deque[int] = deque()
        self._team._kernels = self._team._kernels._replace(post_step=self.post)

    def post(self, team: int, first: int, end: int, board: int) -> int:
        if not board:  # the threads are to end
            return self._post(team, first, end, board)
        assert end == THREADS
        self._steps.append(board)
        return self._post(team, first, end - 1, board)

    def deliver(self) -> None:
        last = THREADS - 1
        if self._post(self._team._address, last, THREADS, self._steps.popleft()):
            self._team._wake[last].release()

    def deliver_when_waited_for(self) -> None:
        wait = self._team._kernels.await_left

        def await_left(board: int) -> int:
            while self._steps:
                self.deliver()
            return wait(board)

        self._team._kernels = self._team._kernels._replace(await_left=await_left)

    @property
    def num_held(self) -> int:
        return len(self._steps)

    def lose(self) -> None:
        """As if the thread had left the step, which it has not seen; the others have, and count no more."""
        place = self._steps.popleft()
        board = next(board for board in self._team._boards if address(board) == place)
        wait_until(lambda: board[on.LEFT] == board[on.POSTED_TO] - 1)
        board[on.LEFT] += 1


@pytest.fixture(params=["llama", "qwen2moe", "deepseek2", "qwen35"])
def runner(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> CpuRunner:
    path = write(tmp_path / "x.gguf", MODELS[request.param])
    runner = load(path, threads=THREADS, kv_bytes=4 << 20)
    monkeypatch.setattr(Threads, "choose", lambda self, rows: THREADS)
    return runner


def prompts(seed: int) -> list[list[int]]:
    """Some of one token, some of many: they differ in how many experts have rows."""
    draw = random.Random(seed)
    return [draw.choices(range(256), k=k) for k in (1, 60, 2, 1, 40, 1)]


@pytest.mark.parametrize("then", [Held.deliver, Held.lose])
def test_nobody_waits_for_a_thread_that_has_no_piece(
    runner: CpuRunner, then: Callable[[Held], None]
) -> None:
    spans = [Span(slot, tokens, 0, len(tokens)) for slot, tokens in enumerate(prompts(1))]
    expected = [runner.decode([span]).copy() for span in spans]
    for span in spans:
        runner.free(span.slot)
    held = Held(runner)
    for span, logits in zip(spans, expected, strict=True):
        np.testing.assert_array_equal(runner.decode([span]), logits)
        then(held)
    runner.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_thread_may_run_through_a_step_while_the_next_is_under_way(
    runner: CpuRunner, seed: int
) -> None:
    spans = [Span(slot, tokens, 0, len(tokens)) for slot, tokens in enumerate(prompts(seed))]
    expected = [runner.decode([span]).copy() for span in spans]
    for span in spans:
        runner.free(span.slot)
    held = Held(runner)
    runner.begin([spans[0]], [])
    for number, logits in enumerate(expected):
        for span in spans[number + 1 : number + 2]:
            runner.begin([span], [])
        np.testing.assert_array_equal(runner.end().logits, logits)
        held.deliver()
    runner.close()


def test_a_program_is_replaced_when_no_thread_reads_it_any_more(runner: CpuRunner) -> None:
    """A phase with more pieces than the one in its place would seem unfinished to a thread that comes late."""
    span = Span(0, [7], 0, 1)
    expected = runner.decode([span]).copy()
    runner.free(0)
    held = Held(runner)
    held.deliver_when_waited_for()
    runner.decode([span])
    whole = runner.program.copy()
    runner.run_instead(whole[1:])
    assert held.num_held == 0
    runner.run_instead(whole)
    runner.free(0)
    np.testing.assert_array_equal(runner.decode([span]), expected)
    runner.close()
