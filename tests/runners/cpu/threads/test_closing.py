"""Runners end, alone and beside another one, closed or forgotten: no thread is left, none waits for ever."""

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from segue.engine.seam import Draw, Span
from segue.runners.cpu.runner import CpuRunner
from tests.runners.cpu.conftest import NewThreads, load

DRAWS = [Draw(0, 0.5, ())]


def begin_two(runner: CpuRunner) -> None:
    runner.begin([Span(0, [1] * 200, 0, 1)], DRAWS)
    runner.begin([Span(0, [-1], 200, 1)], DRAWS)


def uses(runner: CpuRunner) -> list[Callable[[], object]]:
    """Everything that a closed runner refuses."""
    return [
        lambda: runner.decode([Span(0, [1], 0, 1)]),
        lambda: runner.draw([]),
        lambda: runner.begin([], []),
        lambda: runner.end(),
        lambda: runner.fork(0, 1, 0),
        lambda: runner.trim(0, 0),
        lambda: runner.free(0),
    ]


def is_refused(runner: CpuRunner) -> bool:
    for use in uses(runner):
        with pytest.raises(RuntimeError, match=r"the runner is closed|no step is open"):
            use()
    return True


def test_a_closed_runner_refuses_steps_and_can_be_closed_again(q8_gguf: Path) -> None:
    threads = NewThreads()
    runner = load(q8_gguf, threads=3)
    begin_two(runner)
    runner.close()
    assert is_refused(runner)
    runner.close()
    assert is_refused(runner)
    assert len(threads) == 0


def test_nothing_is_loaded_beside_a_closed_runner(q8_gguf: Path) -> None:
    runner = load(q8_gguf)
    runner.close()
    with pytest.raises(RuntimeError, match="the runner is closed"):
        load(q8_gguf, beside=runner)


def test_a_runner_beside_another_ends_alone(q8_gguf: Path) -> None:
    large = load(q8_gguf, threads=3)
    small = load(q8_gguf, threads=3, beside=large)
    expected = large.decode([Span(1, [1], 0, 1)]).tobytes()
    begin_two(small)
    small.close()
    small.close()
    assert is_refused(small)
    assert large.decode([Span(2, [1], 0, 1)]).tobytes() == expected
    large.close()


def test_a_runner_ends_with_those_beside_it(q8_gguf: Path) -> None:
    threads = NewThreads()
    large = load(q8_gguf, threads=3)
    small = load(q8_gguf, threads=3, beside=large)
    begin_two(small)
    large.close()
    assert len(threads) == 0
    assert is_refused(small)
    small.close()


def test_a_forgotten_runner_ends_its_steps_and_threads(q8_gguf: Path) -> None:
    threads = NewThreads()
    for _ in range(3):
        runner = load(q8_gguf, threads=3)
        begin_two(runner)
        gone = weakref.ref(runner)
        del runner
        gc.collect()
        assert gone() is None
        assert len(threads) == 0


def test_a_forgotten_runner_leaves_the_one_beside_it_its_threads(q8_gguf: Path) -> None:
    threads = NewThreads()
    large = load(q8_gguf, threads=3)
    small = load(q8_gguf, threads=3, beside=large)
    begin_two(small)
    del small
    gc.collect()
    expected = large.decode([Span(0, [1], 0, 1)]).tobytes()
    small = load(q8_gguf, threads=3, beside=large)
    del large
    gc.collect()
    assert small.decode([Span(0, [1], 0, 1)]).tobytes() == expected
    del small
    gc.collect()
    assert len(threads) == 0


SCRIPT = """
import sys
from pathlib import Path
from segue.engine.seam import Span
from tests.runners.cpu.conftest import load
large = load(Path(sys.argv[1]), threads=3)
small = load(Path(sys.argv[1]), threads=3, beside=large)
small.begin([Span(0, [1] * 200, 0, 1)], [])
"""


def test_a_process_may_end_while_a_step_is_open(q8_gguf: Path) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT, q8_gguf], check=True, timeout=300)
