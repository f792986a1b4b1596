"""Gemma 4: each part of it counts, its heads may be very wide, and what makes no sense is refused."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segue.engine.seam import Logits, Span
from segue.models.gguf import header
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step import heads, rows
from segue.runners.cpu.step.mixture import experts, routing
from segue.runners.llama.runner import LlamaRunner
from tests.runners.cpu.architectures.test_architectures import MOST_KL, compare, divergences
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

DENSE, SMALL, MIXED = "gemma4", "gemma4, embeddings of layers", "gemma4 with experts"
TOKENS = random.Random(3).choices(range(256), k=60)
SPAN = Span(0, TOKENS, 0, len(TOKENS))


@pytest.fixture(scope="module", params=[DENSE, SMALL, MIXED])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, CpuRunner, Logits]]:
    """A model's name, its runner, and llama.cpp's logits of TOKENS."""
    path = write(tmp_path_factory.mktemp("gemma4") / "x.gguf", MODELS[request.param])
    runner = load(path, threads=1)
    judge = LlamaRunner(str(path), threads=1, kv_precision="f32")
    yield request.param, runner, judge.decode([SPAN]).copy()
    judge.close()
    runner.close()


# (models that have the part, phase, its word or None for the phase as a whole)
PARTS: dict[str, tuple[tuple[str, ...], int, int | None]] = {
    "norm of values": ((DENSE, SMALL, MIXED), on.HEADS, heads.V_NORM),
    "scales of layers": ((DENSE, SMALL, MIXED), on.NORM, rows.SUM_SCALE),
    "windows": ((DENSE, SMALL, MIXED), on.HEADS, heads.WINDOW),
    "cap of logits": ((DENSE, SMALL, MIXED), on.LOGITS, None),
    "what layers take of the product": ((SMALL,), on.LAYER_INPUTS, None),
    "gate of embeddings": ((SMALL,), on.LAYER_GATE, None),
    "scales of experts": ((MIXED,), on.ROUTE, routing.EXPERT_SCALES),
    "norm of experts": ((MIXED,), on.COMBINE, experts.OUT_NORM),
    "norm of the dense feed-forward": ((MIXED,), on.COMBINE, experts.SHARED_NORM),
    "dense feed-forward": ((MIXED,), on.COMBINE, experts.SHARED),
}
BOTH = {on.HEADS: (on.HEADS, on.ATTEND)}  # phases with the same words


@pytest.mark.parametrize("part", PARTS)
def test_each_part_counts(pair: tuple[str, CpuRunner, Logits], part: str) -> None:
    """Without it, logits are not llama.cpp's any more."""
    (model, runner, truth), (models, phase, word) = pair, PARTS[part]
    if model not in models:
        return
    whole = runner.program.copy()
    changed = whole.copy()
    own = np.isin(whole[:, 0], BOTH.get(phase, (phase,)))
    assert own.any()
    assert word is None or changed[own, word].any()
    changed[own, 0 if word is None else word] = on.NOTHING if word is None else 0
    runner.run_instead(changed)
    without = runner.decode([SPAN]).copy()
    runner.free(0)
    runner.run_instead(whole)
    again = runner.decode([SPAN]).copy()
    runner.free(0)
    assert divergences(truth, again).mean() <= MOST_KL
    assert divergences(truth, without).mean() > 2 * MOST_KL


def test_layers_without_keys_read_those_of_a_layer_of_their_kind(tmp_path: Path) -> None:
    found = hparams_of(header(write(tmp_path / "x.gguf", MODELS[SMALL]))).by_layer
    assert [layer.keys_of for layer in found] == [-1, -1, -1, 1, 2]
    assert [layer.head_size for layer in found] == [32, 32, 64, 32, 64]
    assert [layer.window > 0 for layer in found] == [True, True, False, True, False]


def test_keys_that_no_layer_reads_may_be_in_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", replace(MODELS[SMALL], has_unused_keys=True))
    assert "blk.4.attn_v.weight" in {tensor.name for tensor in header(path).tensors}
    each, margin = compare(path, seed=0)
    assert each.mean() <= MOST_KL
    assert margin is None


def test_heads_as_wide_as_those_of_real_files(tmp_path: Path) -> None:
    tiny = replace(MODELS[DENSE], head_size=512).with_settings(
        attention__key_length_swa=256, attention__value_length_swa=256,
        rope__dimension_count=512, rope__dimension_count_swa=256,
    )  # fmt: skip
    path = write(tmp_path / "x.gguf", tiny)
    runner, judge = (
        load(path, threads=2, kv_bytes=4 << 20),
        LlamaRunner(str(path), threads=1, kv_precision="f32"),
    )
    tokens = random.Random(4).choices(range(256), k=300)
    truth = judge.decode([Span(0, tokens, 0, len(tokens))])
    mine = [
        runner.decode([Span(0, tokens[start : start + 100], start, 100)]).copy()
        for start in (0, 100, 200)
    ]
    assert divergences(truth, np.concatenate(mine)).mean() <= MOST_KL
    judge.close()
    runner.close()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"attention__shared_kv_layers": 4}, "4 of 5 layers have no keys"),
        ({"attention__shared_kv_layers": 9}, "9 of 5 layers have no keys"),
        ({"attention__shared_kv_layers": 1}, "with and without a window would share keys"),
        (
            {"attention__sliding_window_pattern": [True, False, False, True, False]},
            "with and without a window would share keys",
        ),
        ({"attention__head_count_kv": [1, 1, 1, 1, 4]}, "of 4 key heads would share those of one"),
        ({"rope__dimension_count_swa": 48}, "turn 48 of a head's 32"),
    ],
)
def test_what_makes_no_sense_is_computed_by_no_runner(
    tmp_path: Path, settings: dict[str, Any], reason: str
) -> None:
    """llama.cpp would end the process."""
    given = header(write(tmp_path / "x.gguf", MODELS[SMALL]))
    own = {f"gemma4.{key.replace('__', '.')}": value for key, value in settings.items()}
    lists = {key: tuple(value) for key, value in own.items() if isinstance(value, list)}
    plain = {key: value for key, value in own.items() if key not in lists}
    found = replace(
        given, metadata={**given.metadata, **plain}, short_arrays={**given.short_arrays, **lists}
    )
    assert senseless(given) is None
    assert reason in (senseless(found) or "")


@pytest.mark.parametrize(("width", "is_refused"), [(64, False), (32, True)])
def test_keys_that_are_values_too_are_as_wide(tmp_path: Path, width: int, is_refused: bool) -> None:
    """llama.cpp would end the process."""
    given = header(write(tmp_path / "x.gguf", MODELS[DENSE]))
    found = replace(given, metadata={**given.metadata, "gemma4.attention.value_length": width})
    told = "layer 2 takes its keys, 64 wide, as values, 32 wide"
    assert (senseless(found) or "None").startswith(told if is_refused else "None")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"attention__sliding_window": 0}, "does not say gemma4.attention.sliding_window"),
        ({"attention__value_length_swa": 64}, "not 32 wide (blk.0.attn_v)"),
        ({"attention__sliding_window_pattern": 2}, "pattern is not a list of layers"),
        ({"attention__temperature_scale": 0.5}, "does not know: attention.temperature_scale"),
        ({"embedding_length_per_layer_input": 16}, "embeddings of a layer are 16 wide"),
        ({"embedding_length_per_layer_input": 0}, "tensors it does not know: blk.N.inp_gate"),
        ({"attention__shared_kv_layers": 0}, "lacks tensors (blk.3.attn_k"),
    ],
)
def test_what_the_table_does_not_know_is_refused(
    tmp_path: Path, settings: dict[str, Any], reason: str
) -> None:
    given = header(write(tmp_path / "x.gguf", MODELS[SMALL]))
    own = {f"gemma4.{key.replace('__', '.')}": value for key, value in settings.items()}
    short = {key: value for key, value in given.short_arrays.items() if key not in own}
    lengths = {key: value for key, value in given.array_lengths.items() if key not in own}
    found = replace(
        given, metadata={**given.metadata, **own}, short_arrays=short, array_lengths=lengths
    )
    assert reason in (supports(found) or "")
