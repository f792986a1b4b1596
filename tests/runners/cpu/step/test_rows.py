from pathlib import Path

import numpy as np
import pytest

from segue.engine.seam import Span
from segue.models.gguf import header
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


@pytest.mark.parametrize("name", ["gemma2", "llama"])
def test_logits_of_activations_that_overflow_are_no_numbers(tmp_path: Path, name: str) -> None:
    """Where they are capped, they were all the same number."""
    path = write(tmp_path / "x.gguf", MODELS[name])
    [norm] = [each for each in header(path).tensors if each.name == "blk.1.ffn_norm.weight"]
    with path.open("r+b") as file:
        file.seek(norm.offset)
        file.write(np.full(norm.shape, 1e25, np.float32).tobytes())
    runner = load(path, threads=1)
    logits = runner.decode([Span(0, [1, 2, 3], 0, 3)])
    assert np.isnan(logits).all()
    runner.close()
