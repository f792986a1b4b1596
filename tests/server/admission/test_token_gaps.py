import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.metrics.figures import TOKEN_SECONDS
from segue.server.admission.token_gaps import TokenGaps


def counted(*pushes: tuple[int, float, int]) -> tuple[dict[float, int], object]:
    """Tokens by the end of their bucket, and the sum of seconds."""
    gaps = TokenGaps()
    for push in pushes:
        gaps.push(*push)
    *counts, total = gaps.end()
    ends = (*TOKEN_SECONDS, float("inf"))
    return {end: int(n) for end, n in zip(ends, counts, strict=True) if n}, pytest.approx(total)


def test_each_token_counts_the_time_since_the_one_before() -> None:
    steps = [(0, 0.0, 1), (0, 0.004, 1), (0, 0.008, 1), (0, 3.008, 1)]
    assert counted(*steps) == ({0.005: 2, float("inf"): 1}, 3.008)


def test_the_end_of_a_bucket_is_in_it() -> None:
    assert counted((0, 0.0, 1), (0, 0.25, 1)) == ({0.25: 1}, 0.25)


@pytest.mark.parametrize(
    "together",
    [[(0, 0.04, 1)] * 4, [(0, 0.04, 4)], [(0, 0.04, 3), (0, 0.04, 1), (0, 0.04, 0)]],
    ids=["accepted drafts", "text that was held back", "both"],
)
def test_tokens_that_come_together_share_the_time(together: list[tuple[int, float, int]]) -> None:
    assert counted((0, 0.0, 1), *together, (0, 0.08, 1)) == ({0.01: 4, 0.04: 1}, 0.08)


@pytest.mark.parametrize(
    "pushes",
    [[], [(0, 0.0, 1)], [(0, 0.0, 1), (0, 0.0, 1)], [(0, 7.0, 50)], [(0, 0.0, 9), (1, 0.0, 9)]],
    ids=["no token", "one", "drafts of the first step", "beam search", "ranked middles"],
)
def test_first_tokens_have_none_before_them(pushes: list[tuple[int, float, int]]) -> None:
    assert counted(*pushes) == ({}, 0.0)


def test_an_end_without_a_token_counts_nothing() -> None:
    assert counted((0, 0.0, 1), (0, 0.02, 1), (0, 0.5, 0)) == ({0.02: 1}, 0.02)


def test_each_choice_has_its_own_tokens() -> None:
    turns = [(choice, step * 0.02, 1) for step in range(4) for choice in (0, 1)]
    assert counted(*turns) == ({0.02: 6}, 0.12)


@given(st.lists(st.tuples(st.floats(0.001, 5.0), st.integers(1, 5)), max_size=20))
def test_every_later_token_counts_once_and_the_sum_is_the_time(
    steps: list[tuple[float, int]],
) -> None:
    at_s, pushes = 0.0, [(0, 0.0, 1)]
    for gap_s, num in steps:
        at_s += gap_s
        pushes += [(0, at_s, 1)] * num
    counts, total = counted(*pushes)
    assert sum(counts.values()) == sum(num for _, num in steps)
    assert total == at_s
