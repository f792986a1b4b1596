"""llama.cpp's infill sampler as a cut: compiled draws give the sampler's tokens."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.engine.sampling.sampler import Sampler
from segue.engine.sampling.token_rules import TokenRules
from segue.engine.seam import Cut, Draw, Texts
from segue.types import Sampling
from tests.runners.cpu.draws.alone import (
    CUTS,
    FLAVOURS,
    SIZES,
    STYLES,
    drawer,
    drawn,
    drawn_alike,
    orders,
    samplings,
    some_changes,
    some_row,
)


def laid(texts: list[bytes], ends: frozenset[int], end: int | None) -> Texts:
    starts = np.cumsum([0, *map(len, texts)])
    are_ends = np.array([token in ends for token in range(len(texts))], np.uint8)
    return Texts(starts, np.frombuffer(b"".join(texts) + b"\0", np.uint8), are_ends, end)


def short_texts(size: int, rng: np.random.Generator) -> list[bytes]:
    ends = np.cumsum(rng.integers(0, 4, size)).tolist()
    letters = rng.integers(97, 100, ends[-1]).astype(np.uint8).tobytes()
    return [letters[start:end] for start, end in pairwise([0, *ends])]


def some_rules(size: int, share: float, has_list: bool, rng: np.random.Generator) -> TokenRules:
    """Short texts of few letters, so that many are the beginning of another. `share`: of tokens that are ends."""
    texts = short_texts(size, rng)
    ends = frozenset(np.flatnonzero(rng.random(size) < share).tolist())
    end = int(rng.integers(size)) if rng.random() < 0.8 else None
    return TokenRules(
        ends=ends,
        end=end,
        texts=dict(enumerate(texts)),
        laid_texts=laid(texts, ends, end),
        allowed=np.flatnonzero(rng.random(size) < 0.7) if has_list and size > 60 else None,
    )


@given(
    size=st.sampled_from(SIZES),
    style=st.sampled_from(STYLES),
    sampling=samplings(),
    order=orders(*CUTS),
    place=st.integers(0, 7),
    seed=st.integers(0, 2**32),
    share=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    is_biased=st.booleans(),
    has_list=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_tokens_are_the_samplers(
    size: int,
    style: str,
    sampling: Sampling,
    order: Any,
    place: int,
    seed: int,
    share: float,
    is_biased: bool,
    has_list: bool,
) -> None:
    rng = np.random.default_rng(seed)
    order = ("penalties", *order[:place], "infill", *order[place:])
    sampling = replace(sampling, order=tuple(dict.fromkeys(order)))
    if is_biased:
        about = some_changes(size, 0.2, seed)
        bias = dict(zip(about.ids.tolist(), about.added.tolist(), strict=True))
        sampling = replace(sampling, logit_bias=bias, presence_penalty=0.5)
    sampler = Sampler(sampling, seed, 0, size, some_rules(size, share, has_list, rng))
    sampler.start(rng.integers(0, size, 9).tolist())
    row = some_row(style, size, seed)
    draw = sampler.draw_ahead(0, 7)
    assert draw is not None
    [token] = drawn_alike([row], [draw])
    wanted = drawn(sampler, row, 7)
    if token is not None:
        assert token == wanted
    elif isinstance(wanted, int):
        assert style in ("huge", "not a number", "infinite"), (style, sampling)


TEXTS = laid([b"", b"ab", b"a", b"b", b"c"], frozenset({0}), 0)
INFILL = (Cut("infill", 0.0, 0),)


@pytest.mark.parametrize(
    ("shares", "end", "wanted"),
    [
        ([0.001, 0.5, 0.4, 0.05, 0.05], 0, 1),  # "a" begins "ab": one text
        ([0.3, 0.3, 0.2, 0.1, 0.1], 0, 0),  # the end is likely enough
        ([0.0, 0.35, 0.3, 0.0, 0.25], None, 1),
    ],
)
def test_one_likely_text_goes_on(shares: list[float], end: int | None, wanted: int) -> None:
    compiled, logits = drawer(FLAVOURS[0], 64)
    logits[0] = -np.inf
    with np.errstate(divide="ignore"):
        logits[0, :5] = np.log(np.array(shares, np.float32))
    assert compiled.draw([Draw(0, 0.9, INFILL, texts=wide(end))]) == [wanted]


@pytest.mark.parametrize(("end", "wanted"), [(0, 0), (None, 7)])
def test_without_a_likely_text_it_ends_or_takes_the_likeliest(end: int | None, wanted: int) -> None:
    compiled, logits = drawer(FLAVOURS[0], 64)
    logits[0, 0], logits[0, 1:], logits[0, 7] = -9.0, 0.0, 0.1
    texts = laid([b"%c" % (60 + token) for token in range(64)], frozenset({0}), end)
    assert compiled.draw([Draw(0, 0.999, INFILL, texts=texts)]) == [wanted]
    logits[0, 0] = -np.inf  # banned
    assert compiled.draw([Draw(0, 0.999, INFILL, texts=texts)]) == [7]


def wide(end: int | None, **fields: Any) -> Texts:
    texts = laid([b"", b"ab", b"a", b"b", b"c", *[b""] * 59], frozenset({0}), end)
    about = {name: getattr(texts, name) for name in ("starts", "joined", "are_ends", "end")}
    return Texts(**(about | fields))


@pytest.mark.parametrize(
    "texts",
    [
        None,
        TEXTS,
        wide(64),
        wide(-1),
        wide(0, starts=np.arange(65)[::-1].copy()),
        wide(0, starts=np.arange(65) + 1),
        wide(0, starts=np.arange(65, dtype=np.int32)),
        wide(0, joined=np.zeros(4, np.uint8)),
        wide(0, are_ends=np.zeros(63, np.uint8)),
        wide(0, are_ends=np.zeros(128, np.uint8)[::2]),
    ],
)
def test_texts_are_checked_before_kernels_see_them(texts: Texts | None) -> None:
    compiled, logits = drawer(FLAVOURS[0], 64)
    logits[:] = 0.0
    with pytest.raises(ValueError, match="texts"):
        compiled.draw([Draw(0, 0.5, INFILL, texts=texts)])
    assert compiled.draw([Draw(0, 0.5, ())]) != [None]
