from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from segue.models.vocabulary.merging import merge

RANKS = {"a a": 0.0, "b c": 1.0, "aa b": 2.0, "a bc": 3.0, "aa bc": 4.0, "c c": 0.5, "cc cc": 9.0}


def slowly(parts: list[str]) -> list[str]:
    """By the definition: the best pair of all, the leftmost of equals, again and again."""
    parts = [*parts]
    while True:
        ranks = [RANKS.get(" ".join(pair)) for pair in pairwise(parts)]
        known = [rank for rank in ranks if rank is not None]
        if not known:
            return parts
        at = ranks.index(min(known))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_the_best_pair_is_merged_first_and_the_leftmost_of_equals(parts: list[str]) -> None:
    assert merge(parts, RANKS, " ") == slowly(parts)


def test_a_long_word_takes_few_steps() -> None:
    """It would take minutes if every merge looked at all of it."""
    assert merge("a" * 100_001, RANKS, " ") == ["aa"] * 50_000 + ["a"]
