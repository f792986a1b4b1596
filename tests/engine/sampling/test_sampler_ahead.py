"""What the sampler tells a runner, so that the runner draws in its place."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.engine.sampling.sampler import Sampler
from segue.engine.sampling.token_rules import TokenRules
from segue.engine.seam import MAX_CUTS
from segue.types import Sampling, Step


def test_steps_that_are_named_again_are_left_to_the_sampler() -> None:
    """A request may name a step several times, but a runner's draw takes only so many cuts."""
    sampling = Sampling(top_k=3, top_p=0.9, min_p=0.1, temperature=0.8)
    four = Sampler(replace(sampling, order=("top_k", "top_p", "min_p", "temperature")), 0, 0, 50)
    five = Sampler(replace(sampling, order=("top_k",) * 4 + ("temperature",)), 0, 0, 50)
    assert len(four.cuts or ()) == MAX_CUTS
    assert five.cuts is None


def test_penalties_are_told_ahead_if_they_come_first_and_once() -> None:
    sampling = Sampling(top_k=3, presence_penalty=0.5, temperature=0.8)
    orders: dict[tuple[Step, ...], bool] = {
        ("penalties", "top_k", "temperature"): True,
        ("penalties",): True,
        ("top_k", "penalties", "temperature"): False,
        ("penalties", "top_k", "penalties"): False,
        ("penalties", "penalties", "top_k"): False,
    }
    for order, is_told in orders.items():
        draw = Sampler(replace(sampling, order=order), 0, 0, 50).draw_ahead(0, 1)
        assert (draw is not None) == is_told
        assert draw is None or draw.repeats is not None
    without = Sampler(replace(sampling, order=("top_k",)), 0, 0, 50).draw_ahead(0, 1)
    assert without is not None
    assert without.repeats is None


@given(
    tokens=st.lists(st.integers(0, 5), max_size=40),
    prompt=st.lists(st.integers(0, 5), max_size=40),
    multiplier=st.sampled_from([0.0, 0.7, -2.0, 1e30]),
    allowed_length=st.integers(0, 3),
    seed=st.integers(0, 2**32),
)
def test_what_is_told_late_is_what_is_applied(
    tokens: list[int], prompt: list[int], multiplier: float, allowed_length: int, seed: int
) -> None:
    """A row with static changes, then late ones, is the row that the sampler draws from."""
    sampling = Sampling(
        dry_multiplier=multiplier, dry_allowed_length=allowed_length, logit_bias={3: 2.5}
    )
    rules = TokenRules(
        bad_words=((1, 2), (4,), (2, 2, 5), (3, 5), (1, 1, 2)), breakers={0: frozenset({()})}
    )
    sampler = Sampler(sampling, 0, 0, 50, rules)
    sampler.start(prompt)
    for token in tokens:
        sampler.push(token)
    row = np.random.default_rng(seed).normal(0.0, 3.0, 50).astype(np.float32)
    wanted = row.copy()
    sampler.admitted(wanted, len(tokens))
    draw, late = sampler.draw_ahead(0, len(tokens)), sampler.late_changes()
    assert sampler.is_late
    for changes in (draw.changes if draw is not None else None, late):
        if changes is not None:
            assert len(set(changes.ids.tolist())) == changes.ids.size
            row[changes.ids] += changes.added
    assert row.tobytes() == wanted.tobytes()
