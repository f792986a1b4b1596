"""Weights of one or two bits, or whose codes are rows of tables, digits in base 3 or floats: beside llama.cpp."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segue.engine.seam import Logits, Span
from segue.errors import ModelUnavailable
from segue.models import gguf
from segue.runners.cpu.architectures.support import supports
from segue.runners.cpu.loader import obstacle
from segue.runners.cpu.runner import CpuRunner
from segue.runners.llama.runner import LlamaRunner
from tests.runners.cpu.architectures.test_architectures import MOST_KL, divergences
from tests.runners.cpu.conftest import load
from tests.runners.cpu.test_bits import OF_FEW_BITS
from tests.runners.cpu.test_weights import with_number
from tests.support.models.tiny_types import write_types

TEXT = random.Random(1).choices(range(256), k=90)
CASES = [([kind], 0) for kind in OF_FEW_BITS]
SIDE_BY_SIDE = ["Q1_0", "Q2_0"]  # a block has nothing but a scale and codes
OTHERS = [kind for kind in OF_FEW_BITS if kind not in SIDE_BY_SIDE]
MIXED = [  # as files that are made layer by layer have them
    ([*OTHERS, "Q4_K", "Q6_K"], 4),
    (SIDE_BY_SIDE, 4),
]


def logits(runner: CpuRunner | LlamaRunner) -> Logits:
    found = runner.decode([Span(0, TEXT, 0, len(TEXT))]).copy()
    runner.close()
    return found


def check(path: Path) -> None:
    """The file is computed here, nearly as by llama.cpp."""
    assert obstacle(path) is None
    mine = logits(load(path, threads=1, kv_bytes=4 << 20))
    truth = logits(LlamaRunner(str(path), threads=1, kv_precision="f32"))
    assert divergences(truth, mine).mean() <= MOST_KL


@pytest.mark.parametrize("experts", [0, 4])
def test_scales_of_whole_tensors_are_those_of_llama_cpp(tmp_path: Path, experts: int) -> None:
    path = write_types(tmp_path / "x.gguf", ["NVFP4"], experts, is_scaled=True)
    check(path)
    plain = write_types(tmp_path / "y.gguf", ["NVFP4"], experts)
    assert logits(load(path, threads=1)).tolist() != logits(load(plain, threads=1)).tolist()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"type": "Q4_0", "num_bytes": 18 * 2048}, "does not know: blk.N.attn_q.scale"),
        ({"name": "blk.0.attn_q.weight_2"}, "lacks tensors (blk.0.attn_q.weight)"),
    ],
)
def test_scales_of_other_types_are_refused(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    found = gguf.header(write_types(tmp_path / "x.gguf", ["NVFP4"], is_scaled=True))
    tensors = tuple(
        replace(each, **change) if each.name == "blk.0.attn_q.weight" else each
        for each in found.tensors
    )
    assert reason in (supports(replace(found, tensors=tensors)) or "")


@pytest.mark.parametrize("shape", [(2,), (0,), (1, 2)])
def test_scales_of_other_shapes_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    found = gguf.header(write_types(tmp_path / "x.gguf", ["NVFP4"], is_scaled=True))
    tensors = tuple(
        replace(each, shape=shape) if each.name == "blk.1.ffn_up.scale" else each
        for each in found.tensors
    )
    reason = f"tensor blk.1.ffn_up.scale has the shape {shape}, not (1,)"
    assert reason in (supports(replace(found, tensors=tensors)) or "")


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 3e38])
def test_scales_that_are_no_numbers_are_refused(tmp_path: Path, number: float) -> None:
    path = write_types(tmp_path / "x.gguf", ["NVFP4"], is_scaled=True)
    damaged = with_number(path, tmp_path / "y.gguf", "output.scale", number)
    with pytest.raises(ModelUnavailable, match=r"tensor output\.weight has .* not numbers"):
        load(damaged)


@pytest.mark.parametrize(
    ("kinds", "experts"),
    [*CASES, *MIXED],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_logits_agree_with_llama_cpp(tmp_path: Path, kinds: list[str], experts: int) -> None:
    """Embeddings are of the first type."""
    check(write_types(tmp_path / "x.gguf", kinds, experts))
