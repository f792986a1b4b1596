import ctypes
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.bench import step
from segue.engine.seam import Span
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.step import board as on
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

ROWS = 20


def hidden(runner: CpuRunner) -> NDArray[np.float32]:
    """What experts write: the output of their activation, or the first of it."""
    place = int(runner._frames[0].board[on.HIDDEN_FLOATS])
    return np.ctypeslib.as_array((ctypes.c_float * (ROWS * 32)).from_address(place))


@pytest.mark.parametrize("threads", [1, 3])
def test_experts_alone_compute_what_they_do_in_the_whole_program(
    tmp_path: Path, threads: int
) -> None:
    runner = load(write(tmp_path / "x.gguf", MODELS["qwen3moe"]), threads=threads, kv_bytes=4 << 20)
    span = Span(0, list(range(ROWS)), 0, 1)
    runner.decode([span])
    runner.free(0)
    expected = hidden(runner).copy()
    hidden(runner)[:] = np.nan
    runner.run_instead(step._alone(runner.program.copy(), on.EXPERTS))
    runner.decode([span])
    np.testing.assert_array_equal(hidden(runner), expected)
    runner.close()


@pytest.mark.parametrize("name", ["qwen3moe", "qwen35", "granitehybrid", "deepseek2", "gemma4"])
def test_every_phase_of_a_step_has_a_name(tmp_path: Path, name: str) -> None:
    """One without was left out of what `--phases` prints."""
    runner = load(write(tmp_path / "x.gguf", MODELS[name]), threads=1, kv_bytes=4 << 20)
    assert {*map(int, runner.program[:, 0])} <= {*step.NAMES}
    runner.close()
