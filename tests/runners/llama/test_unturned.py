"""Files over which llama.cpp computes for ever are not given to it; the CPU runner computes them."""

from pathlib import Path

import numpy as np
import pytest

from segue.assembly.runners import runner_obstacle
from segue.engine.seam import Logits, Span
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import HEADS, Tiny, write

TEXT = [*range(7, 47)]


def test_the_first_layer_of_plamo_2_has_no_heads(tmp_path: Path) -> None:
    """Converted files count those of each layer, others one number for all: what is computed is the same."""
    tiny = MODELS["plamo2"]
    listed = tiny.with_settings(attention__head_count=[0, HEADS, 0, HEADS])
    told = "its first layer has no heads, by which it would turn positions"
    logits: list[Logits] = []
    for each, reason in ((tiny, None), (listed, told)):
        path = write(tmp_path / "x.gguf", each)
        assert runner_obstacle("llama", path) == reason
        assert runner_obstacle("cpu", path) is None
        runner = load(path, threads=1)
        logits.append(runner.decode([Span(0, TEXT, 0, len(TEXT))]).copy())
        runner.close()
    np.testing.assert_array_equal(logits[0], logits[1])


@pytest.mark.parametrize(
    "tiny", [MODELS["nemotron_h"], MODELS["mamba2"]], ids=lambda it: it.architecture
)
def test_others_turn_nothing_anyway(tmp_path: Path, tiny: Tiny) -> None:
    assert runner_obstacle("llama", write(tmp_path / "x.gguf", tiny)) is None
