import ctypes
from pathlib import Path

import numpy as np
import pytest

from segue.engine.seam import Span
from segue.models.gguf import header
from segue.runners.cpu.runner import CpuRunner
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

USED = 3  # of 8 experts
CHECK = "segue.runners.cpu.products.matrix.check_sound"
NAMES = [
    "qwen2moe",
    "qwen3moe",
    "gpt-oss",
    "llama with experts",
    "dots1",
    "ernie4_5-moe",
    "bailingmoe2",
]
SPOILT, SOUND = 104, [97, 98, 99]


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such weights are refused, but sound ones may overflow in a step: kernels must bear it."""
    monkeypatch.setattr(CHECK, lambda *_: None)


def spoil(path: Path, name: str, row: int, value: float) -> None:
    """Write a value over one row of a matrix of floats."""
    tensor = next(each for each in header(path).tensors if each.name == name)
    data: np.memmap[tuple[int], np.dtype[np.uint8]] = np.memmap(path, np.uint8, "r+")
    floats = data[tensor.offset : tensor.offset + tensor.num_bytes].view(np.float32)
    floats.reshape(tensor.shape[::-1])[row] = value
    data.flush()


def chosen(runner: CpuRunner, rows: int) -> list[list[int]]:
    """The experts of each row, in the last layer of the last step."""
    words = (ctypes.c_int64 * (rows * USED)).from_address(runner._space.mixture.chosen)
    return [list(words[USED * row : USED * (row + 1)]) for row in range(rows)]


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_no_row_has_an_expert_twice_whatever_its_numbers(
    tmp_path: Path, name: str, value: float
) -> None:
    """There is room for one row each: rows of an expert beyond that would be written over other memory."""
    path = write(tmp_path / "model.gguf", MODELS[name])
    spoil(path, "token_embd.weight", SPOILT, value)
    runner = load(path)
    before = runner.decode([Span(0, SOUND, 0, 3)]).copy()
    runner.free(0)
    logits = runner.decode([Span(0, SOUND, 0, 3), Span(1, [SPOILT] * 5, 0, 5)])
    assert logits[:3].tobytes() == before.tobytes()
    assert not np.isfinite(logits[3:]).any()
    assert all(len({*row}) == USED for row in chosen(runner, 8))
    runner.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_score_that_is_not_a_number_spoils_the_row(tmp_path: Path, name: str) -> None:
    """Rather than that its expert is passed over and the answers are wrong."""
    path = write(tmp_path / "model.gguf", MODELS[name])
    spoil(path, "blk.2.ffn_gate_inp.weight", 7, np.nan)
    runner = load(path)
    assert not np.isfinite(runner.decode([Span(0, SOUND, 0, 3)])).any()
    runner.close()
