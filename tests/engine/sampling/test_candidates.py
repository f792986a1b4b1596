import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from segue.engine.sampling.candidates import Candidates, draw, leading, top
from segue.errors import InvalidField

# Sizes on both sides of where columns come in; few distinct values, so that there are ties.
sizes = st.sampled_from([1, 2, 63, 64, 130, 4096, 4200, 9000])
seeds = st.integers(0, 2**32 - 1)


def values_of(seed: int, size: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    values = rng.normal(0, 2, size).round(int(rng.integers(0, 4))).astype(np.float32)
    values[rng.random(size) < rng.choice([0.0, 0.5, 0.99])] = -np.inf
    return values


@given(seeds, sizes, st.integers(1, 300))
def test_top_is_what_sorting_gives(seed: int, size: int, count: int) -> None:
    values = values_of(seed, size)
    order = sorted(np.flatnonzero(values > -np.inf).tolist(), key=lambda i: (-values[i], i))
    assert top(values, count).tolist() == order[:count]


@given(seeds, sizes, st.floats(0, 0.999), st.sampled_from([1, 3, 300]))
def test_leading_is_the_fewest_that_weigh_enough(
    seed: int, size: int, mass: float, at_least: int
) -> None:
    values = values_of(seed, size)
    values[0] = 1.0
    weights = np.exp(values)
    wanted = mass * float(weights.sum(dtype=np.float64))
    found = leading(values, weights, wanted, at_least)
    assert found.tolist() == top(values, found.size).tolist()
    num_possible = int((values > -np.inf).sum())
    assert found.size >= min(at_least, num_possible)
    if found.size < num_possible:
        assert weights[found].sum(dtype=np.float64) >= wanted
    if found.size > at_least:
        assert weights[found[:-1]].sum(dtype=np.float64) < wanted


@given(seeds, sizes, st.floats(0, 1, exclude_max=True) | st.just(float(np.nextafter(1, 0))))
def test_a_draw_never_falls_on_what_weighs_nothing(seed: int, size: int, point: float) -> None:
    values = values_of(seed, size)
    values[seed % size] = 0.0
    weights = np.exp(values)
    assert weights[draw(weights, point)] > 0


@pytest.mark.parametrize("size", [40, 4999])
def test_draws_cover_the_weights_in_proportion(size: int) -> None:
    """Evenly spread points fall on each index as often as its weight says, to within one point."""
    weights = np.random.default_rng(0).exponential(1, size).astype(np.float32)
    num_points = 180_000 // size * size // 5
    hits = np.bincount(
        [draw(weights, (i + 0.5) / num_points) for i in range(num_points)], minlength=size
    )
    expected = weights / weights.sum() * num_points
    assert np.abs(hits - expected).max() <= 1.01


def test_cut_candidates_are_adjusted_by_token_id() -> None:
    candidates = Candidates(np.array([1, 2, 3, 4], np.float32))
    candidates.keep(np.array([3, 1]))

    def change(logits: NDArray[np.float32]) -> None:
        logits[1] -= 5
        logits[0] = 100

    candidates.adjust(change)
    assert candidates.logits.tolist() == [4, -3]
    assert candidates.best == 4


def test_no_candidate_left_is_an_error_of_the_request() -> None:
    with pytest.raises(InvalidField, match="every token is forbidden"):
        Candidates(np.full(5, -np.inf, np.float32)).weights()
