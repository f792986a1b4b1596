"""Weights whose codes are rows of tables, digits in base 3 or floats of 4 bits: models beside llama.cpp."""

import random
from pathlib import Path

import pytest

from segue.engine.seam import Span
from segue.runners.cpu.loader import obstacle
from segue.runners.llama.runner import LlamaRunner
from tests.runners.cpu.conftest import load
from tests.runners.cpu.test_architectures import MOST_KL, divergences
from tests.runners.cpu.test_bits import OF_FEW_BITS
from tests.support.models.tiny_types import write_types

TEXT = random.Random(1).choices(range(256), k=90)
CASES = [([kind], 0) for kind in OF_FEW_BITS]
MIXED = ([*OF_FEW_BITS, "Q4_K", "Q6_K"], 4)  # as files that are made layer by layer have them


@pytest.mark.parametrize(
    ("kinds", "experts"),
    [*CASES, MIXED],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_logits_agree_with_llama_cpp(tmp_path: Path, kinds: list[str], experts: int) -> None:
    """Embeddings are of the first type."""
    path = write_types(tmp_path / "x.gguf", kinds, experts)
    assert obstacle(path) is None
    span = Span(0, TEXT, 0, len(TEXT))
    runner = load(path, threads=1, kv_bytes=4 << 20)
    judge = LlamaRunner(str(path), threads=1, kv_precision="f32")
    assert divergences(judge.decode([span]), runner.decode([span])).mean() <= MOST_KL
    judge.close()
    runner.close()
