"""What the sampler tells a runner, so that the runner draws in its place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.engine.sampling.randomness import Points
from segue.engine.sampling.sampler import Sampler
from segue.engine.sampling.token_rules import TokenRules
from segue.engine.seam import MAX_CUTS, AdaptiveState, Draw, MirostatState
from segue.types import Sampling, Step


def test_steps_that_are_named_again_are_left_to_the_sampler() -> None:
    """A request may name a step several times, but a runner's draw takes only so many cuts."""
    sampling = Sampling(top_k=3, top_p=0.9, min_p=0.1, temperature=0.8)
    most = Sampler(
        replace(sampling, order=("top_k",) * (MAX_CUTS - 1) + ("temperature",)), 0, 0, 50
    )
    more = Sampler(replace(sampling, order=("top_k",) * MAX_CUTS + ("temperature",)), 0, 0, 50)
    assert len(most.cuts(0) or ()) == MAX_CUTS
    assert more.cuts(0) is None


def test_penalties_are_told_ahead_if_they_come_once() -> None:
    sampling = Sampling(top_k=3, presence_penalty=0.5, temperature=0.8)
    orders: dict[tuple[Step, ...], bool] = {
        ("penalties", "top_k", "temperature"): True,
        ("penalties",): True,
        ("top_k", "penalties", "temperature"): True,
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
    draw, told = sampler.draw_ahead(0, len(tokens)), sampler.late()
    assert sampler.has_late
    for changes in (draw.changes if draw is not None else None, told.changes, told.costs):
        if changes is not None:
            assert len(set(changes.ids.tolist())) == changes.ids.size
            row[changes.ids] += changes.added
    assert row.tobytes() == wanted.tobytes()


def kinds(draw: Draw | None) -> list[str]:
    assert draw is not None
    return [cut.kind for cut in draw.cuts]


@pytest.mark.parametrize("order", [("xtc", "top_k"), ("top_k", "xtc", "penalties")])
def test_xtc_is_a_cut_where_its_own_randomness_says_so(order: tuple[Step, ...]) -> None:
    """And there only: the runner draws no random numbers."""
    sampling = Sampling(top_k=3, xtc_probability=0.5, presence_penalty=1.0, order=order)
    sampler = Sampler(sampling, 7, 0, 50)
    acts = [Points(7, 0, "xtc").at(position) <= 0.5 for position in range(40)]
    assert 10 < sum(acts) < 30
    for position, is_acting in enumerate(acts):
        told = kinds(sampler.draw_ahead(0, position, 3))
        assert told == [step for step in order if step != "xtc" or is_acting]
        cuts = sampler.cuts(position)  # of a row on which penalties act before all cuts
        assert cuts is None if "penalties" in order else [cut.kind for cut in cuts or ()] == told


def test_mirostat_is_told_with_its_mu_or_the_draw_that_gives_it() -> None:
    sampler = Sampler(Sampling(mirostat=2, mirostat_tau=3.0, temperature=0.5), 1, 0, 50)
    first, second = sampler.draw_ahead(0, 1), sampler.draw_ahead(0, 2, 5)
    assert first is not None
    assert second is not None
    assert first.feedback == MirostatState(2, 3.0, 0.1, 6.0)
    assert second.feedback == MirostatState(2, 3.0, 0.1, 6.0, 5)
    assert kinds(first) == ["scale"]
    assert sampler.cuts(1) is None, "a row that was prepared is drawn from by weight only"
    sampler.follow(4.5)
    third = sampler.draw_ahead(0, 3)
    assert third is not None
    assert third.feedback == MirostatState(2, 3.0, 0.1, 4.5)


def test_a_draft_changes_no_mu_that_is_told() -> None:
    sampler = Sampler(Sampling(mirostat=1), 1, 0, 50)
    row = np.random.default_rng(1).normal(0.0, 3.0, 50).astype(np.float32)
    before, told = sampler.snapshot(), sampler.draw_ahead(0, 1)
    sampler.sample(row.copy(), 1)
    assert sampler.draw_ahead(0, 1) != told
    sampler.restore(before)
    assert sampler.draw_ahead(0, 1) == told


def test_adaptive_p_is_told_with_its_sum_or_the_draw_that_gives_it() -> None:
    """How many draws there were is known before."""
    sampling = Sampling(adaptive_target=0.25, adaptive_decay=0.5, order=("adaptive_p",))
    sampler = Sampler(sampling, 1, 0, 50)
    first, second = sampler.draw_ahead(0, 1), sampler.draw_ahead(0, 2, 5)
    assert first is not None
    assert second is not None
    assert first.feedback == AdaptiveState(0.25, 0.5, 0.5, 2.0, drawn=None)
    assert second.feedback == AdaptiveState(0.25, 0.5, 0.5, 2.0, 5)
    sampler.follow(0.75)
    third = sampler.draw_ahead(0, 3, 5)
    assert third is not None
    assert third.feedback == AdaptiveState(0.25, 0.5, 0.75, 2.0, 5)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(order=("infill", "temperature")),
        Sampling(order=("infill", "penalties"), presence_penalty=0.5),
    ],
)
def test_what_no_runner_draws_is_not_told(sampling: Sampling) -> None:
    assert Sampler(sampling, 0, 0, 50).draw_ahead(0, 1) is None
