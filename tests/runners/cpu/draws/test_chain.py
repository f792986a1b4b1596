"""Compiled draws give the sampler's tokens, on every flavour this machine can run and whatever the row."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.engine.sampling.sampler import Sampler
from segue.engine.sampling.token_rules import TokenRules
from segue.engine.seam import Draw
from segue.types import Sampling
from tests.runners.cpu.draws.alone import (
    SIZES,
    STYLES,
    drawn,
    drawn_alike,
    samplings,
    some_changes,
    some_row,
)


@given(
    size=st.sampled_from(SIZES),
    styles=st.tuples(st.sampled_from(STYLES), st.sampled_from(STYLES)),
    sampling=samplings(),
    seed=st.integers(0, 2**32),
    share=st.sampled_from([None, None, 0.0, 0.01, 0.9, 1.0]),
)
@settings(max_examples=150, deadline=None)
def test_tokens_are_the_samplers(
    size: int,
    styles: tuple[str, str],
    sampling: Sampling,
    seed: int,
    share: float | None,
) -> None:
    """`share`: of the row's tokens that have a bias or are banned."""
    samplers = [Sampler(sampling, seed, candidate, size) for candidate in range(2)]
    rows = [some_row(style, size, seed + number) for number, style in enumerate(styles)]
    draws = []
    for number, sampler in enumerate(samplers):
        cuts = sampler.cuts(7)
        assert cuts is not None
        changes = None if share is None else some_changes(size, share, seed + number)
        draws.append(Draw(number, sampler.point(7), cuts, changes))
    found = drawn_alike(rows, draws)
    for number, (token, style) in enumerate(zip(found, styles, strict=True)):
        row, changes = rows[number], draws[number].changes
        if changes is not None:
            with np.errstate(all="ignore"):
                row[changes.ids] += changes.added
        wanted = drawn(samplers[number], row, 7)
        if token is not None:
            assert token == wanted
        elif isinstance(wanted, int):  # left to the sampler: too large to scale
            assert style == "huge", (style, sampling)


@given(
    size=st.sampled_from(SIZES),
    styles=st.tuples(st.sampled_from(STYLES), st.sampled_from(STYLES)),
    sampling=samplings(),
    seed=st.integers(0, 2**32),
    share=st.sampled_from([0.0, 0.01, 0.5, 0.9, 1.0]),
    is_biased=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_tokens_of_a_list_are_the_samplers(
    size: int,
    styles: tuple[str, str],
    sampling: Sampling,
    seed: int,
    share: float,
    is_biased: bool,
) -> None:
    """`share`: of the tokens that are allowed, besides one."""
    rng = np.random.default_rng(seed)
    is_allowed = rng.random(size) < share
    is_allowed[rng.integers(size)] = True
    if is_biased:
        about = some_changes(size, 0.2, seed)
        bias = dict(zip(about.ids.tolist(), about.added.tolist(), strict=True))
        sampling = replace(sampling, logit_bias=bias, repetition_penalty=1.3)
    rules = TokenRules(
        allowed=np.flatnonzero(is_allowed), ends=frozenset({0, size - 1}), ignores_ends=is_biased
    )
    samplers = [Sampler(sampling, seed, candidate, size, rules) for candidate in range(2)]
    rows = [some_row(style, size, seed + number) for number, style in enumerate(styles)]
    draws = []
    for number, sampler in enumerate(samplers):
        sampler.start(rng.integers(0, size, 9).tolist())
        draw = sampler.draw_ahead(number, 7)
        assert draw is not None
        draws.append(draw)
    found = drawn_alike(rows, draws)
    for number, (token, style) in enumerate(zip(found, styles, strict=True)):
        wanted = drawn(samplers[number], rows[number], 7)
        if token is not None:
            assert token == wanted
        elif isinstance(wanted, int):
            is_odd = style in ("huge", "not a number", "infinite")
            assert is_odd or is_biased or wanted in rules.ends, (style, sampling)
