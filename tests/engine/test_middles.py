import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.middles import SCORED_SUFFIX, Cut, Drawn, Search, find_cuts, read_suffix
from segue.runners.fake import FakeVocab
from segue.types import Prompt


def drawn(*pieces: bytes, num_bytes: int | None = None) -> Drawn:
    """Token i is piece i, and every token costs one."""
    size = len(pieces)
    return Drawn(list(range(size)), list(pieces), [-1.0] * size, [{}] * size, num_bytes)


def middles(continuation: Drawn, suffix: str) -> set[str]:
    cuts = find_cuts(0, continuation, read_suffix(Prompt((suffix,)), FakeVocab()))
    return {cut.text.decode() for cut in cuts}


def test_every_token_boundary_is_a_cut_and_none_is_empty() -> None:
    assert middles(drawn(b" one", b" two", b" three"), " x") == {
        " one",
        " one two",
        " one two three",
    }


def test_a_space_may_be_left_to_the_suffix_that_lacks_one() -> None:
    found = middles(drawn(b" soft"), "mat.")
    assert found == {" soft", " soft ", " soft\n"}


def test_a_token_that_runs_into_the_suffix_is_cut_inside() -> None:
    """ " walking" before "ing the dog" gives " walk", though no token ends there."""
    assert " walk" in middles(drawn(b" walking", b" home"), "ing the dog")


def test_characters_are_never_split_and_stops_hold() -> None:
    assert middles(drawn("é".encode()[:1], "é".encode()[1:]), " x") == {"é"}
    assert middles(drawn(b"ab", b"cd", b"ef", num_bytes=4), " x") == {"ab", "abcd"}


def test_a_suffix_of_token_ids_is_taken_as_it_is() -> None:
    suffix = read_suffix(Prompt(((104, 105),)), FakeVocab())
    assert suffix.tokens == (104, 105)
    assert not suffix.spaced
    assert not suffix.swallowed


def test_only_the_beginning_of_a_long_suffix_has_a_say() -> None:
    suffix = read_suffix(Prompt(("word " * 100_000,)), FakeVocab())
    assert len(suffix.tokens) == SCORED_SUFFIX
    assert max(map(len, suffix.swallowed.values())) == SCORED_SUFFIX


@st.composite
def problems(draw: st.DrawFn) -> list[tuple[Cut, list[float]]]:
    """Cuts with the scores their tails turn out to have."""
    made = []
    costs = st.sampled_from([-0.0, -0.5, -1.0, -3.0])
    for place in range(draw(st.integers(1, 40))):
        size = draw(st.integers(0, SCORED_SUFFIX))
        text = draw(st.sampled_from("abcdef")).encode()
        candidate, tokens = draw(st.integers(0, 4)), (place,)
        cut = Cut(candidate, tokens, text, tuple(range(size)), draw(costs) * 4)
        made.append((cut, [draw(costs) for _ in range(size)]))
    return made


@given(problems(), st.integers(1, 4))
def test_pruning_finds_what_scoring_everything_finds(
    problem: list[tuple[Cut, list[float]]], n: int
) -> None:
    totals = {cut: cut.logprob + sum(scores) for cut, scores in problem}
    scores = dict(problem)
    search = Search(list(totals), n)
    for _ in itertools.repeat(None, 200):
        cuts = search.next_round()
        if not cuts:
            break
        assert len(set(cuts)) == len(cuts)
        for cut in cuts:
            cut.scored += scores[cut][len(cut.scored) : cut.num_next]
    else:
        pytest.fail("the search does not end")
    best = search.best
    assert len(best) == min(n, len({cut.text for cut in totals}))
    assert len({cut.text for cut in best}) == len(best)
    assert totals[best[0]] == pytest.approx(max(totals.values()))
    first_of_each = best[: len({cut.candidate for cut in best})]
    assert len({cut.candidate for cut in first_of_each}) == len(first_of_each)
