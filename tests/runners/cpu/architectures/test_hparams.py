import math
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segue.engine.seam import Span
from segue.errors import Incompatible
from segue.models import gguf
from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.document import markdown
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.positions import rotations
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from segue.runners.cpu.products.processor import this_target
from segue.runners.cpu.weights import Weights
from tests.runners.cpu.architectures.test_architectures import MOST_MEDIAN_KL, compare
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_gguf import (
    DIM,
    FFN,
    HEAD_DIM,
    HEADS,
    KV_HEADS,
    LAYERS,
    write_tiny_gguf,
)
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

DOCUMENT = Path(__file__).parents[4] / "docs" / "models.md"


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> GgufHeader:
    return gguf.header(write_tiny_gguf(tmp_path_factory.mktemp("x") / "x.gguf"))


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_the_tiny_models_are_known(tmp_path: Path, architecture: str) -> None:
    header = gguf.header(write_tiny_gguf(tmp_path / "x.gguf", architecture=architecture))
    assert supports(header) is None
    hparams = hparams_of(header)
    assert (hparams.layers, hparams.width) == (LAYERS, DIM)
    for layer in hparams.by_layer:
        assert (layer.heads, layer.key_heads, layer.head_size) == (HEADS, KV_HEADS, HEAD_DIM)
        assert layer.hidden == FFN


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", architecture="t5")
    assert "the architecture is t5" in (supports(gguf.header(path)) or "")


def with_metadata(**values: Any) -> Callable[[GgufHeader], GgufHeader]:
    known = {f"llama.{key.replace('__', '.')}": value for key, value in values.items()}
    return lambda header: replace(header, metadata={**header.metadata, **known})


def with_heads(size: int, values: int) -> Callable[[GgufHeader], GgufHeader]:
    """Keys of this size, values of that, and matrices that are as wide."""
    widths = {"q": HEADS * size, "k": KV_HEADS * size, "v": KV_HEADS * values}
    changes = [
        with_tensor(f"blk.{layer}.attn_{part}.weight", shape=(DIM, width))
        for layer in range(LAYERS)
        for part, width in widths.items()
    ]
    told = with_metadata(
        attention__key_length=size, attention__value_length=values, rope__dimension_count=size
    )
    return lambda header: reduce(lambda changed, change: change(changed), changes, told(header))


def with_tensor(name: str, **values: Any) -> Callable[[GgufHeader], GgufHeader]:
    def changed(header: GgufHeader) -> GgufHeader:
        return replace(
            header,
            tensors=tuple(
                replace(tensor, **values) if tensor.name == name else tensor
                for tensor in header.tensors
            ),
        )

    return changed


def without(name: str) -> Callable[[GgufHeader], GgufHeader]:
    return lambda header: replace(
        header, tensors=tuple(tensor for tensor in header.tensors if tensor.name != name)
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_metadata(attn_logit_softcapping=30.0), "settings it does not know: attn_logit"),
        (with_metadata(attention__causal=False), "not causal"),
        (with_metadata(rope__scaling__type="su"), "scaling.type is 'su', not one of none"),
        (with_metadata(rope__scaling__yarn_beta_fast=1e-4), "YaRN's betas are (0.0001, 1.0)"),
        (with_metadata(expert_count=4, expert_used_count=5), "5 of 4 experts are used"),
        (with_metadata(expert_count=4, expert_used_count=2), "lacks tensors (blk.0.ffn_down_exps"),
        (with_metadata(attention__head_count_kv=3), "do not share 3 keys evenly"),
        (with_heads(HEAD_DIM, 16), "values are 16 wide"),
        (with_heads(24, 24), "heads are 24 wide"),
        (with_metadata(rope__dimension_count=64), "positions turn 64"),
        (with_metadata(feed_forward_length=250), "not a multiple of 32"),
        (with_metadata(block_count=10**6), "block_count is 1000000, but the file has 21 tensors"),
        (with_metadata(block_count=2**64 - 1), "block_count is 18446744073709551615, not"),
        (with_metadata(block_count=3), "lacks tensors (blk.2."),
        (with_metadata(block_count=1), "tensors it does not know: blk.N."),
        (without("token_embd.weight"), "lacks tensors (token_embd"),
        (with_tensor("blk.0.attn_q.weight", shape=(DIM, DIM + 32)), "160 wide (blk.0.attn_q)"),
        (with_tensor("blk.0.attn_q.weight", shape=(DIM + 32, DIM)), "blk.0.attn_q.weight has the"),
        (with_tensor("blk.1.ffn_down.weight", type="Q8_1"), "of type Q8_1"),
        (with_tensor("output_norm.weight", type="Q8_0"), "of type Q8_0"),
        (with_tensor("output_norm.weight", shape=(DIM - 1,)), "has the shape (127,)"),
    ],
)
def test_what_the_tables_do_not_know_is_refused(
    header: GgufHeader, change: Callable[[GgufHeader], GgufHeader], reason: str
) -> None:
    assert reason in (supports(change(header)) or "")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("attention__layer_norm_rms_epsilon", "1e-5", "epsilon is '1e-5'"),
        ("attention__layer_norm_rms_epsilon", math.nan, "epsilon is nan"),
        ("attention__layer_norm_rms_epsilon", -1e-5, "epsilon is -1e-05"),
        ("attention__head_count_kv", -2, "head_count_kv is -2, not a count"),
        ("attention__head_count_kv", 2.0, "head_count_kv is 2.0, not a count"),
        ("context_length", 0.5, "context_length is 0.5, not a count"),
        ("context_length", True, "context_length is True, not a count"),
        ("context_length", 2**32, "context_length is 4294967296, not a count"),
        ("attention__causal", 0, "attention.causal is 0, not yes or no"),
        ("rope__freq_base", math.inf, "freq_base is inf"),
        ("rope__freq_base", -10000.0, "freq_base is -10000.0"),
        ("rope__freq_base", 1.0, "freq_base is 1.0"),
        ("rope__scaling__factor", 1e300, "factor is 1e+300"),
        ("rope__scaling__factor", 1e-40, "factor is 1e-40"),
        ("rope__scaling__attn_factor", "x" * 99, "attn_factor is 'xxxxxxxxx"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(
    header: GgufHeader, key: str, value: Any, reason: str
) -> None:
    found = supports(with_metadata(**{key: value})(header)) or ""
    assert reason in found
    assert len(found) < 120


@pytest.mark.parametrize(
    ("name", "key", "value", "reason"),
    [
        ("hy_v3", "expert_weights_norm", math.nan, "expert_weights_norm is nan, not yes or no"),
        ("nanbeige", "skip_loop_final_norm", 1, "skip_loop_final_norm is 1, not yes or no"),
        ("spark2_5", "attention.sliding_window", 2**31, "sliding_window is 2147483648, not a"),
    ],
)
def test_what_some_architectures_say_has_its_kind_too(
    tmp_path: Path, name: str, key: str, value: Any, reason: str
) -> None:
    found = gguf.header(write(tmp_path / "x.gguf", MODELS[name]))
    changed = replace(found, metadata={**found.metadata, f"{name}.{key}": value})
    assert reason in (supports(changed) or "")


@pytest.mark.parametrize(
    ("name", "key", "values", "reason"),
    [
        ("mellum", "attention.sliding_window_pattern", (True, False), "told of 2 layers, not of 3"),
        ("qwen3vl", "rope.dimension_sections", (8, 8, 8), "are not four counts"),
        ("qwen3vl", "rope.dimension_sections", (8, 8, -8, 8), "has -8, which is not a count"),
        ("qwen2vl", "rope.dimension_sections", (0, 0, 0, 8), "no pair of dimensions turns"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(
    tmp_path: Path, name: str, key: str, values: tuple[int, ...], reason: str
) -> None:
    header = gguf.header(write(tmp_path / "x.gguf", MODELS[name]))
    lists = {**header.short_arrays, f"{name}.{key}": values}
    assert supports(header) is None
    assert reason in (supports(replace(header, short_arrays=lists)) or "")


@pytest.mark.parametrize(
    ("key", "each", "reason"),
    [
        ("feed_forward_length", (FFN, FFN), ""),
        ("attention.head_count_kv", (KV_HEADS, KV_HEADS), ""),
        ("feed_forward_length", (FFN, 2 * FFN), "tensor blk.1.ffn_"),
        ("feed_forward_length", (FFN,), "feed_forward_length is not a count for each of 2 layers"),
        ("attention.head_count_kv", (KV_HEADS, 0), "with 0 keys are not 64 wide (blk.1.attn_k)"),
        ("attention.head_count_kv", (KV_HEADS, 3), "do not share 3 keys evenly"),
        ("attention.head_count", (HEADS, -HEADS), f"head_count has {-HEADS}, which"),
        ("attention.head_count", (HEADS, 2.0), "head_count has 2.0, which is not a count"),
        ("context_length", (64, 64), "context_length is not one number"),
    ],
)
def test_measures_may_be_given_layer_by_layer(
    header: GgufHeader, key: str, each: tuple[int, ...], reason: str
) -> None:
    name = f"llama.{key}"
    given = {known: value for known, value in header.metadata.items() if known != name}
    lengths = {**header.array_lengths, name: len(each)}
    changed = replace(header, metadata=given, array_lengths=lengths, short_arrays={name: each})
    found = supports(changed)
    assert reason in found if found and reason else found is None and not reason
    if not reason:
        assert hparams_of(changed) == hparams_of(header)


def test_yarn_needs_a_context(header: GgufHeader) -> None:
    changed = with_metadata(context_length=0, rope__scaling__type="yarn")(header)
    assert "YaRN needs the context" in (supports(changed) or "")


def test_queries_of_layers_without_rope_grow_with_every_chunk(tmp_path: Path) -> None:
    """As llama.cpp computes them: by the logarithm of one more than the chunks before the next position."""
    path = write(tmp_path / "x.gguf", MODELS["llama4"])
    weights = Weights(path, this_target(), threads=1)
    factors = weights.rotations(3 * 8192).temperatures
    places = np.array([0, 8190, 8191, 16382, 16383])
    expected = 1 + 0.1 * np.log(1 + (places + 1) // 8192)
    np.testing.assert_array_equal(factors[places], expected.astype(np.float32))


@pytest.mark.parametrize(("layers", "grow"), [(3, False), (4, True)])
def test_only_queries_of_layers_without_rope_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: int, grow: bool
) -> None:
    path = write(tmp_path / "x.gguf", replace(MODELS["llama4"], layers=layers))
    found = []
    for factor in (1, 2):
        factors = np.full(512, factor, np.float32)
        monkeypatch.setattr("segue.runners.cpu.weights.temperatures", lambda *_, f=factors: f)
        runner = load(path, threads=1)
        found.append(runner.decode([Span(0, [*range(20)], 0, 1)]).copy())
        runner.close()
    assert bool((found[0] != found[1]).any()) == grow


@pytest.mark.parametrize("tokens", [277, 279])
def test_a_vocabulary_is_as_large_as_the_embeddings(header: GgufHeader, tokens: int) -> None:
    """A prompt with one token more would end the worker; what is drawn beyond the last one has no text, so that the
    request failed. llama.cpp refuses both.
    """
    lengths = {**header.array_lengths, "tokenizer.ggml.tokens": tokens}
    changed = replace(header, array_lengths=lengths)
    assert supports(changed) == f"its vocabulary has {tokens} tokens, its embeddings 278"


@pytest.mark.parametrize("factor", [math.nan, 0.0, 1e-30])
def test_positions_that_turn_without_end_are_refused(tmp_path: Path, factor: float) -> None:
    """Their sines would be another number on every processor."""
    path = write(tmp_path / "x.gguf", MODELS["llama, factors"])
    tensor = next(t for t in gguf.header(path).tensors if t.name == "rope_freqs.weight")
    with path.open("r+b") as file:
        file.seek(tensor.offset)
        file.write(struct.pack("<f", factor))
    weights = Weights(path, this_target(), threads=1)
    with pytest.raises(Incompatible, match="turn positions without end"), np.errstate(all="ignore"):
        weights.rotations(512)


@pytest.mark.parametrize(
    ("name", "windowed"), [("gemma3", 1.5), ("gemma4", 1.5), ("olmo2 with windows", 1.0)]
)
def test_the_magnitude_of_layers_with_a_window(tmp_path: Path, name: str, windowed: float) -> None:
    """As in llama.cpp, where positions of such layers are not scaled."""
    tiny = MODELS[name].with_settings(rope__scaling__attn_factor=1.5)
    header = gguf.header(write(tmp_path / "x.gguf", tiny))
    assert rotations(header, {}, is_windowed=True).magnitude == windowed


@pytest.mark.parametrize(
    ("name", "factor"),
    [("gemma3", 0.5), ("gemma3", 4.0), ("muse-glimmer", 0.5), ("gpt-oss", 0.5), ("mimo2", 0.5)],
)
def test_yarn_in_layers_with_a_window_is_that_of_llama_cpp(
    tmp_path: Path, name: str, factor: float
) -> None:
    """Where they are not scaled, llama.cpp divides by what it multiplies the others with, if the factor is below 1."""
    tiny = MODELS[name].with_settings(
        rope__scaling__type="yarn",
        rope__scaling__factor=factor,
        rope__scaling__original_context_length=16,
    )
    each, _ = compare(write(tmp_path / "x.gguf", tiny), seed=0, num_drawn=2)
    assert np.median(each) <= MOST_MEDIAN_KL


@pytest.mark.parametrize("name", ["gemma2", "gpt-oss", "llama4"])
def test_a_factor_without_a_scaling_is_left_to_llama_cpp_where_there_are_windows(
    tmp_path: Path, name: str
) -> None:
    """It scales positions of their layers all the same."""
    tiny = MODELS[name].with_settings(rope__scaling__type="none", rope__scaling__factor=4.0)
    found = gguf.header(write(tmp_path / "x.gguf", tiny))
    assert "with a window would be scaled by 4, others not" in (supports(found) or "")
    assert senseless(found) is None


def test_of_two_factors_the_newer_one_counts(header: GgufHeader) -> None:
    """Even if it is 0, for none: as in llama.cpp."""
    told = with_metadata(rope__scaling__factor=0.0, rope__scale_linear=4.0)(header)
    np.testing.assert_array_equal(rotations(told, {}).speeds, rotations(header, {}).speeds)


def test_positions_may_turn_a_part_of_a_head(tmp_path: Path) -> None:
    header = gguf.header(write_tiny_gguf(tmp_path / "x.gguf"))
    changed = with_metadata(rope__dimension_count=16)(header)
    assert supports(changed) is None
    assert {layer.pairs for layer in hparams_of(changed).by_layer} == {8}


def test_the_document_is_made_of_the_table() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == markdown()
