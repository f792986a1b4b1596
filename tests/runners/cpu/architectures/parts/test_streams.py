"""Gemma 3n: what its files may say, and what its phases do that no other model shows."""

import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from segue.engine.seam import Span
from segue.models.gguf import GgufHeader, header
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import Tiny, write

NAME = "gemma3n"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp(NAME) / "x.gguf", MODELS[NAME])


def with_settings(path: Path, **settings: Any) -> GgufHeader:
    given = header(path)
    own = {f"{NAME}.{key.replace('__', '.')}": value for key, value in settings.items()}
    lists = {key: tuple(value) for key, value in own.items() if isinstance(value, list)}
    plain = {key: value for key, value in own.items() if key not in lists}
    short = {key: value for key, value in given.short_arrays.items() if key not in plain}
    lengths = {key: count for key, count in given.array_lengths.items() if key not in plain}
    return replace(
        given,
        metadata={**given.metadata, **plain},
        short_arrays={**short, **lists},
        array_lengths={**lengths, **{key: len(value) for key, value in lists.items()}},
    )


def test_layers_without_keys_take_those_of_two_before_them(path: Path) -> None:
    layers = hparams_of(header(path)).by_layer
    assert [layer.keys_of for layer in layers] == [-1] * 20 + [18, 19]
    assert [bool(layer.window) for layer in layers[18:]] == [True, False, True, False]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"altup__num_inputs": 2}, "gemma3n.altup.num_inputs is 2, not 4"),
        ({"altup__active_idx": 1}, "gemma3n.altup.active_idx is 1, not 0"),
        ({"final_logit_softcapping": 20.0}, "final_logit_softcapping is 20.0, not 30.0"),
        ({"attention__shared_kv_layers": 4}, "shared_kv_layers is 4, not 2"),
        ({"activation_sparsity_scale": [1.6448533535] * 22}, "than the first 10 are sparse"),
        ({"activation_sparsity_scale": [0.5] * 10 + [-math.inf] * 12}, "by another measure"),
        ({"activation_sparsity_scale": [1.6448533535] * 10}, "than the first 10 are sparse"),
        ({"attention__sliding_window": 0}, "does not say gemma3n.attention.sliding_window"),
        ({"embedding_length_per_layer_input": 0}, "does not say gemma3n.embedding_length_per"),
        ({"altup__coef_clip": 120.0}, "settings it does not know: altup.coef_clip"),
    ],
)
def test_what_llama_cpp_takes_otherwise_is_refused(
    path: Path, settings: dict[str, Any], reason: str
) -> None:
    assert supports(header(path)) is None
    assert reason in (supports(with_settings(path, **settings)) or "")


def test_what_llama_cpp_takes_may_be_said(path: Path) -> None:
    assert supports(with_settings(path, final_logit_softcapping=30.0)) is None


@pytest.mark.parametrize(
    ("pattern", "is_refused"), [(2, False), (3, True), (5, False), ([True] * 22, False)]
)
def test_layers_with_and_without_a_window_share_no_keys(
    path: Path, pattern: Any, is_refused: bool
) -> None:
    """By a period of 3 the 20th layer has a window; the 21st, which has none, would take its keys."""
    found = with_settings(path, attention__sliding_window_pattern=pattern)
    told = "layers with and without a window would share keys"
    assert (senseless(found) or "None").startswith(told if is_refused else "None")


def test_every_layer_has_values_of_its_own(path: Path) -> None:
    """Gemma 4 takes keys for values where a layer has none."""
    given = header(path)
    left = tuple(tensor for tensor in given.tensors if tensor.name != "blk.3.attn_v.weight")
    lacking = supports(replace(given, tensors=left)) or ""
    assert "the file lacks tensors (blk.3.attn_v.weight)" in lacking


def test_a_row_that_several_threads_share_has_the_bits_of_one_thread(path: Path) -> None:
    """Few columns act: each thread that takes a part of a row computes its mean and deviation."""
    tokens = random.Random(5).choices(range(256), k=12)
    alone, shared = load(path, threads=1), load(path, threads=4)
    whole = alone.decode([Span(0, tokens, 0, len(tokens))]).copy()
    frame = shared._frames[0]
    for i, token in enumerate(tokens):
        shared._team.await_left(frame.board)
        frame.fill([Span(0, [token], i, 1)])
        shared._run(frame, 4)
        np.testing.assert_array_equal(frame.logits[0], whole[i])
    alone.close()
    shared.close()


def test_an_embedding_of_zeros_gives_numbers(tmp_path: Path) -> None:
    """As converted files have for tokens of pictures. llama.cpp divides by its length, and gives no numbers."""
    path = write(tmp_path / "x.gguf", _short(MODELS[NAME]))
    reader = gguf.GGUFReader(path, "r+")
    embeddings = next(each for each in reader.tensors if each.name == "token_embd.weight")
    embeddings.data[7] = 0.0
    reader.data.flush()
    runner = load(path, threads=1)
    assert np.isfinite(runner.decode([Span(0, [7, 8, 7], 0, 3)])).all()
    runner.close()


def _short(tiny: Tiny) -> Tiny:
    return replace(tiny, layers=2).with_settings(
        activation_sparsity_scale=[1.6448533535] * 2,
        attention__shared_kv_layers=0,
        attention__sliding_window_pattern=[True, False],
    )
