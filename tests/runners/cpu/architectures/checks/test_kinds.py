"""Every setting of every architecture, with values that most cannot have: refused by its name, or taken.

What is taken was compared with llama.cpp's logits once; where they differed, it is refused since, or computed as there.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from segue.models.gguf import GgufHeader, Value, header
from segue.runners.cpu.architectures.checks.kinds import KINDS, LISTS, wrong_kind
from segue.runners.cpu.architectures.checks.refusals import said
from segue.runners.cpu.architectures.families import FAMILIES
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import COMMON, supports
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

SCALARS: tuple[Value, ...] = (
    *("x", True, -1, 0, 1, 2**31, 2**63),
    *(0.0, 0.5, -1.0, 1e39, math.nan, -math.inf),
)
ELEMENTS: tuple[Value, ...] = (True, 0, -1, 2**40, 0.5, math.nan)
LONG = 5000  # values of a list that is not read with the header
WITH_COMMON = ("llama", "gemma3", "gpt2", "deepseek2", "qwen3next", "mamba", "rwkv7", "granite_swa")


def told(found: GgufHeader, key: str, value: Value | tuple[Value, ...] | None) -> GgufHeader:
    """The header with this under the key of its architecture; None: a list of texts."""
    name = f"{found.architecture}.{key}"
    metadata = {known: each for known, each in found.metadata.items() if known != name}
    lengths = {known: each for known, each in found.array_lengths.items() if known != name}
    lists = {known: each for known, each in found.short_arrays.items() if known != name}
    if isinstance(value, tuple):
        lengths, lists = {**lengths, name: len(value)}, {**lists, name: value}
    elif value is None:
        lengths = {**lengths, name: LONG}
    else:
        metadata = {**metadata, name: value}
    return replace(found, metadata=metadata, array_lengths=lengths, short_arrays=lists)


def values(layers: int) -> Iterator[Value | tuple[Value, ...] | None]:
    yield from SCALARS
    yield from ((), None)
    yield (1,) * (layers - 1)
    yield from ((element,) * layers for element in ELEMENTS)


def test_every_setting_has_its_kind() -> None:
    known = COMMON | {key for family in FAMILIES.values() for key in family.settings}
    assert {*KINDS, *LISTS} == known
    for family in FAMILIES.values():
        assert {*family.nonzero} <= COMMON | {*family.settings}


@pytest.mark.parametrize("architecture", FAMILIES)
def test_a_refusal_names_the_setting(tmp_path: Path, architecture: str) -> None:
    """And what passes has measures: no bits, and no memory, depend on what makes no sense."""
    tiny = next(each for each in MODELS.values() if each.architecture == architecture)
    given, family = header(write(tmp_path / "x.gguf", tiny)), FAMILIES[architecture]
    assert supports(given) is None
    keys = {*family.settings} | (COMMON if architecture in WITH_COMMON else set())
    for key in sorted(keys):
        for value in values(given.count("block_count")):
            found = told(given, key, value)
            reason = supports(found)
            if reason is None:
                assert wrong_kind(found, family) is None
                assert hparams_of(found).width == hparams_of(given).width
            else:
                assert f"{key} " in f"{reason} " or f"{key}:" in reason, (key, value, reason)


@pytest.mark.parametrize(
    ("architecture", "key", "value", "reason"),
    [
        ("grok", "logit_scale", 0.0, "grok.logit_scale is 0.0, not a real number other than 0"),
        ("grok", "attention.output_scale", 0.0, "attention.output_scale is 0.0, not"),
        ("granite", "logit_scale", 0.0, "granite.logit_scale is 0.0, not"),
        ("gemma2", "final_logit_softcapping", 0.0, "final_logit_softcapping is 0.0, not"),
        ("gpt-oss", "attention.sliding_window", 0, "sliding_window is 0, not a count with 31 bits"),
        ("dots1", "expert_gating_func", 0, "expert_gating_func is 0"),
        ("laguna", "rope.freq_base_swa", 0.0, "rope.freq_base_swa is 0.0, not a real number above"),
        ("llama", "rope.freq_base", 0.0, "rope.freq_base is 0.0, not"),
        ("llama", "rope.scaling.attn_factor", 0.0, "rope.scaling.attn_factor is 0.0, not"),
        ("llama", "attention.key_length", 0, "attention.key_length is 0, not a count other than 0"),
        ("llama", "rope.scaling.factor", 1e-20, "factor is 1e-20, not a real number from 0.0001"),
        ("llama", "rope.freq_base", 10000, "rope.freq_base is 10000, not a real number above 1"),
        ("gemma3", "attention.sliding_window_pattern", (True, 2, 0), "has 2, which is not yes or"),
        ("gemma3", "attention.sliding_window_pattern", (1.0, 0.0, 1.0), "has 1.0, which is not"),
        ("gemma3", "attention.sliding_window_pattern", None, "a list of 5000 values, not of a few"),
        ("maple", "swiglu_clamp_exp", (1, 1, 1), "has 1, which is not a real number"),
        ("llama", "attention.head_count", (True, True), "has True, which is not a count"),
        ("granite_swa", "attention.rope_pattern", "x", "has 'x', which is not yes or no"),
    ],
)
def test_what_makes_no_sense_is_computed_by_no_runner(
    tmp_path: Path, architecture: str, key: str, value: Value, reason: str
) -> None:
    """0 was taken for nothing said, though llama.cpp multiplies or divides by it; lists had any values."""
    given = header(write(tmp_path / "x.gguf", MODELS[architecture]))
    assert senseless(given) is None
    assert reason in (senseless(told(given, key, value)) or "")


@pytest.mark.parametrize(
    ("architecture", "key"),
    [
        ("command-r", "logit_scale"),
        ("gemma3", "final_logit_softcapping"),
        ("gpt2", "rope.freq_base"),
    ],
)
def test_where_0_is_as_good_as_unsaid_it_is_taken(
    tmp_path: Path, architecture: str, key: str
) -> None:
    given = header(write(tmp_path / "x.gguf", MODELS[architecture]))
    assert supports(told(given, key, 0.0)) is None


def test_long_lists_are_shown_by_their_beginning(tmp_path: Path) -> None:
    found = told(
        header(write(tmp_path / "x.gguf", MODELS["llama"])), "feed_forward_length", (96,) * 40
    )
    shown = " (llama: feed_forward_length [96, 96, 96, 96, 96, 96,...)"
    assert said(found, ("feed_forward_length", "expert_count")) == shown
