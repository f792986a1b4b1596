"""Files over which llama.cpp would end the process, or compute for ever, are not given to it."""

import hashlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from segue.assembly.runners import runner_obstacle
from segue.engine.seam import Logits, Span
from segue.models.gguf import header
from segue.runners.llama.obstacles.assumptions import assumptions_obstacle
from segue.runners.llama.runner import LlamaRunner
from tests.runners.cpu.architectures.test_architectures import MOST_MEDIAN_KL, TEXT, divergences
from tests.runners.cpu.conftest import load
from tests.support.models.architectures.alibi import NORMED_MPT
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import HEADS, Tiny, Value, write

BITS_OF_NORMED_MPT = "ec097307326a6889446861a95487efbc7a97134873843f51f875834fca00f133"


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("deepseek2-ocr", {"rope__freq_base": 5e4}, "turn by a base of 50000.0, not of 10000.0"),
        ("deepseek2-ocr", {"attention__head_count_kv": 2}, "16 with 2 keys are not 64 wide"),
        ("deepseek2-ocr", {"attention__value_length": 32}, "16 with 4 keys are not 64 wide"),
        ("deci", {"feed_forward_length": [96, 96, 192, 96, 0]}, "last layer has no feed-forward"),
    ],
)
def test_what_it_takes_for_granted(
    tmp_path: Path, name: str, settings: dict[str, Value], reason: str
) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name].with_settings(**settings))
    assert reason in (runner_obstacle("llama", path) or "")
    assert runner_obstacle("llama", write(tmp_path / "y.gguf", MODELS[name])) is None


def test_the_cpu_runner_needs_no_tokens_of_pictures(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", replace(MODELS["chameleon"], more_tokens=100))
    assert runner_obstacle("llama", path) == "its vocabulary has 372 tokens, not 8196"
    assert runner_obstacle("cpu", path) is None
    load(path, threads=1).close()


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("grok", "blk.2.ffn_down.weight"),
        ("hy_v3", "blk.1.ffn_up_shexp.weight"),
        ("mimo2", "blk.0.ffn_up.weight"),
        ("step35", "blk.1.ffn_down_exps.weight"),
    ],
)
def test_a_feed_forward_is_whole(tmp_path: Path, name: str, lacking: str) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS[name]))
    assert assumptions_obstacle(found) is None
    tensors = tuple(tensor for tensor in found.tensors if tensor.name != lacking)
    _, layer, matrix = lacking.split(".", 2)
    assert assumptions_obstacle(replace(found, tensors=tensors)) == f"layer {layer} lacks {matrix}"


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
        logits.append(runner.decode([Span(0, TEXT[:40], 0, 40)]).copy())
        runner.close()
    np.testing.assert_array_equal(logits[0], logits[1])


@pytest.mark.parametrize(
    "tiny", [MODELS["nemotron_h"], MODELS["mamba2"]], ids=lambda it: it.architecture
)
def test_others_turn_nothing_anyway(tmp_path: Path, tiny: Tiny) -> None:
    assert runner_obstacle("llama", write(tmp_path / "x.gguf", tiny)) is None


def test_of_mpt_only_those_that_are_normed_are_kept_from_it(tmp_path: Path) -> None:
    told = "its queries and keys are normed, over which it would end the process"
    for tiny, reason in ((MODELS["mpt"], None), (MODELS["qwen3"], None), (NORMED_MPT, told)):
        path = write(tmp_path / "x.gguf", tiny)
        assert runner_obstacle("llama", path) == reason
        assert runner_obstacle("cpu", path) is None


def test_normed_mpt_agrees_row_by_row_and_bits_are_those_of_every_machine(tmp_path: Path) -> None:
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
    assert hashlib.sha256(mine.tobytes()).hexdigest() == BITS_OF_NORMED_MPT
