from pathlib import Path

import numpy as np
import pytest

from segue.bench.harness.reference import Reference
from segue.engine.seam import Span
from segue.runners.llama.runner import LlamaRunner
from tests.support.models.tiny_gguf import write_tiny_gguf

TEXT = list(b"the end and then the other one \xc3\xa9 and so on")


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_agrees_with_llama_cpp_in_float32(tmp_path: Path, architecture: str, tied: bool) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", architecture=architecture, tied=tied)
    runner = LlamaRunner(str(path), threads=1, kv_precision="f32")
    theirs = runner.decode([Span(0, TEXT, 0, len(TEXT))])
    np.testing.assert_allclose(Reference(path).logits(TEXT), theirs, atol=1e-4)
    runner.close()
