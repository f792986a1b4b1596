"""Draws that take turns, as steps begun ahead do: each is told before the token before it is known.

With every sampler that a runner draws for, in any order: tokens, mirostat's mu and adaptive-p's sum are the sampler's,
to the bit.
"""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.engine.sampling.choosers import AdaptiveP, Mirostat
from segue.engine.sampling.sampler import Sampler
from segue.engine.sampling.token_rules import TokenRules
from segue.engine.seam import Draw, Late, Logits
from segue.types import Sampling
from tests.runners.cpu.draws.alone import (
    CUTS,
    FLAVOURS,
    STYLES,
    Alone,
    drawn,
    orders,
    samplings,
    some_row,
)

ODD = ("huge", "not a number", "infinite", "all banned")


def any_samplings() -> st.SearchStrategy[Sampling]:
    """Of cuts, penalties, DRY, biases, mirostat and adaptive-p, in any order."""
    adjusted: st.SearchStrategy[dict[str, Any]] = st.builds(
        dict,
        order=orders(*CUTS, "penalties", "dry", "logit_bias", "adaptive_p"),
        adaptive_target=st.sampled_from([-1.0, 0.0, 0.3, 1.0]),
        adaptive_decay=st.sampled_from([0.0, 0.5, 0.9, 0.99]),
        repetition_penalty=st.sampled_from([1.0, 1.3]),
        presence_penalty=st.sampled_from([0.0, 0.4]),
        frequency_penalty=st.sampled_from([0.0, 0.3]),
        penalty_window=st.sampled_from([-1, 1, 2, 20]),
        penalize_prompt=st.booleans(),
        repetition_last=st.booleans(),
        logit_bias=st.sampled_from([{}, {0: 2.5, 1: -4.0}, {0: -np.inf, 1: 3.0}]),
        dry_multiplier=st.sampled_from([0.0, 0.8, -3.0]),
        dry_allowed_length=st.sampled_from([0, 1]),
        mirostat=st.sampled_from([0, 0, 1, 2]),
        mirostat_tau=st.sampled_from([0.0, 0.5, 3.0, 5.0, 1e6, 1e308]),
        mirostat_eta=st.sampled_from([0.0, 0.1, 1.0, 1e10]),
    )
    return st.builds(lambda sampling, more: replace(sampling, **more), samplings(), adjusted)


def mu_of(sampler: Sampler) -> bytes:
    chooser = sampler._chooser
    if isinstance(chooser, AdaptiveP):
        return struct.pack("d", chooser._sum)
    return struct.pack("d", chooser.mu if isinstance(chooser, Mirostat) else 0.0)


def told_ahead(sampler: Sampler, row: int, position: int, drawn: int | None, last: int) -> Draw:
    """As the scheduler does: the draw first, then the token before it, then what is late."""
    draw = sampler.draw_ahead(row, position, drawn)
    assert draw is not None
    if drawn is not None:
        sampler.push(last)
    if sampler.has_late:
        draw = draw._replace(late=Late())
        assert draw.late is not None
        draw.late.told = sampler.late()
    return draw


def some_rules(size: int, is_held: bool, rng: np.random.Generator) -> TokenRules:
    """Phrases that are banned, or a list of tokens that are allowed."""
    if not is_held:
        return TokenRules()
    words = tuple(tuple(rng.integers(0, size, 2).tolist()) for _ in range(20))
    allowed = np.flatnonzero(rng.random(size) < 0.6) if rng.random() < 0.5 else None
    is_list = allowed is not None and allowed.size > 0
    return TokenRules(bad_words=words, allowed=allowed if is_list else None)


@given(
    size=st.sampled_from([2, 64, 300, 5003]),
    sampling=any_samplings(),
    styles=st.lists(st.sampled_from(STYLES) | st.just("usual"), min_size=3, max_size=3),
    seed=st.integers(0, 2**32),
    is_held=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_tokens_and_feedback_are_the_samplers(
    size: int, sampling: Sampling, styles: list[str], seed: int, is_held: bool
) -> None:
    rng = np.random.default_rng(seed)
    rows = [some_row(style, size, seed + number) for number, style in enumerate(styles)]
    rules = some_rules(size, is_held, rng)
    alone, told = (Sampler(sampling, seed, 0, size, rules) for _ in range(2))
    prompt = rng.integers(0, size, 30).tolist()
    for sampler in (alone, told):
        sampler.start(prompt)
    flavours = [[Alone(flavour, size), Alone(flavour, size)] for flavour in FLAVOURS]
    number, last = 0, 0  # of the draw in its step, and its token
    mu: float | None = None  # after it
    for position in range(12):
        row = rows[position % 3]
        wanted = drawn(alone, row.copy(), position)
        draw = told_ahead(told, position % 2, position, number if position else None, last)
        if mu is not None:
            told.follow(mu)
        number = position % 3 % 2
        draws = [Draw(1 - position % 2, 0.5, ()), draw] if number else [draw]
        every = []
        for two in flavours:
            turn, before = two[position % 2], two[1 - position % 2] if position else None
            turn.logits[position % 2] = row
            every.append(turn.draw(draws, before)[number])
            assert turn.logits[position % 2].tobytes() == row.tobytes(), "the row stays as it is"
        found = every[0]
        assert every == [found] * len(every), FLAVOURS
        if found is None:  # left to the sampler: what follows would be void
            is_odd = styles[position % 3] in ODD
            assert is_odd or not isinstance(wanted, int), (styles, sampling)
            return
        assert found == wanted
        assert isinstance(wanted, int)
        alone.push(wanted)
        if draw.feedback is not None:
            fed_back = [two[position % 2].feedback[number] for two in flavours]
            assert {struct.pack("d", each) for each in fed_back} == {mu_of(alone)}
            mu = fed_back[0]
        last = found


def spread(size: int) -> Logits:
    row: Logits = np.linspace(9.0, -9.0, size).astype(np.float32)
    return row


@pytest.mark.parametrize("version", [1, 2])
def test_without_a_token_mu_stays(version: int) -> None:
    """So that a row after it, which nobody reads, is drawn with a number."""
    compiled = Alone(FLAVOURS[0], 300)
    compiled.logits[:] = np.nan
    sampler = Sampler(Sampling(mirostat=version, mirostat_tau=3.0), 1, 0, 300)
    draw = sampler.draw_ahead(0, 1)
    assert draw is not None
    untold = draw._replace(late=Late())
    for each in (draw, untold):
        assert compiled.draw([each]) == [None]
        assert compiled.feedback == [6.0]


def test_a_record_without_feedback_has_none_of_the_draw_before() -> None:
    compiled = Alone(FLAVOURS[0], 300)
    compiled.logits[:] = spread(300)
    sampler = Sampler(Sampling(mirostat=2, mirostat_tau=0.01), 1, 0, 300)
    draw = sampler.draw_ahead(0, 1)
    assert draw is not None
    plain = draw._replace(feedback=None, point=0.99999)
    held = draw._replace(point=0.99999)
    first, second, third = (compiled.draw([each])[0] for each in (plain, held, plain))
    assert first == third
    assert second == 0
    assert compiled.feedback == []
