"""MPT's models with norms of queries and keys are not given to llama.cpp; the CPU runner computes them."""

import hashlib
from itertools import pairwise
from pathlib import Path

import numpy as np

from segue.assembly.runners import runner_obstacle
from segue.engine.seam import Span
from segue.runners.llama.runner import LlamaRunner
from tests.runners.cpu.anatomy.test_architectures import MOST_MEDIAN_KL, TEXT, divergences
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_biased_models import NORMED_MPT
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

BITS = "ec097307326a6889446861a95487efbc7a97134873843f51f875834fca00f133"


def test_only_those_that_are_normed_are_kept_from_it(tmp_path: Path) -> None:
    told = "its queries and keys are normed, over which it would end the process"
    for tiny, reason in ((MODELS["mpt"], None), (MODELS["qwen3"], None), (NORMED_MPT, told)):
        path = write(tmp_path / "x.gguf", tiny)
        assert runner_obstacle("llama", path) == reason
        assert runner_obstacle("cpu", path) is None


def test_it_agrees_row_by_row_and_bits_are_those_of_every_machine(tmp_path: Path) -> None:
    """A single row lies as llama.cpp takes it to lie."""
    path = write(tmp_path / "x.gguf", NORMED_MPT)
    judge = LlamaRunner(str(path), threads=1, kv_precision="f32", num_slots=1, max_rows=1)
    rows = [judge.decode([Span(0, [t], i, 1)]).copy() for i, t in enumerate(TEXT)]
    judge.close()
    runner = load(path, threads=1)
    mine = runner.decode([Span(0, TEXT, 0, len(TEXT))]).copy()
    cuts = [*pairwise([0, 1, 9, 50, len(TEXT)])]
    parts = [runner.decode([Span(1, TEXT[i:j], i, j - i)]).copy() for i, j in cuts]
    runner.close()
    assert divergences(np.concatenate(rows), mine).max() <= MOST_MEDIAN_KL
    np.testing.assert_array_equal(np.concatenate(parts), mine)
    assert hashlib.sha256(mine.tobytes()).hexdigest() == BITS
