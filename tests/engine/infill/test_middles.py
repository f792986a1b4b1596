import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.infill import middles
from segue.engine.infill.middles import SCORED_SUFFIX, Cut, Drawn, Search, find_cuts, read_suffix
from segue.runners.fake import FakeVocab
from segue.types import Prompt


def drawn(*pieces: bytes, num_bytes: int | None = None) -> Drawn:
    """Token i is piece i, and every token costs one."""
    size = len(pieces)
    return Drawn(list(range(size)), list(pieces), [-1.0] * size, [{}] * size, num_bytes)


def texts(continuation: Drawn, suffix: str) -> set[str]:
    cuts = find_cuts(0, continuation, read_suffix(Prompt((suffix,)), FakeVocab()))
    return {cut.text.decode() for cut in cuts}


def test_every_token_boundary_is_a_cut_and_none_is_empty() -> None:
    assert texts(drawn(b" one", b" two", b" three"), " x") == {
        " one",
        " one two",
        " one two three",
    }


def test_a_space_may_be_left_to_the_suffix_that_lacks_one() -> None:
    found = texts(drawn(b" soft"), "mat.")
    assert found == {" soft", " soft ", " soft\n"}


@pytest.mark.parametrize(
    ("stop", "left"), [(b"\n", " "), (b" ", "\n"), (b"ft ", "\n"), (b"s", " \n")]
)
def test_a_space_that_would_complete_a_stop_string_is_not_added(stop: bytes, left: str) -> None:
    found = texts(drawn(b" soft")._replace(stops=(stop,)), "mat.")
    assert found == {" soft", *(" soft" + space for space in left)}


def test_a_token_that_runs_into_the_suffix_is_cut_inside() -> None:
    """ " walking" before "ing the dog" gives " walk", though no token ends there."""
    assert " walk" in texts(drawn(b" walking", b" home"), "ing the dog")


def test_characters_are_never_split_and_stops_hold() -> None:
    assert texts(drawn("é".encode()[:1], "é".encode()[1:]), " x") == {"é"}
    assert texts(drawn(b"ab", b"cd", b"ef", num_bytes=4), " x") == {"ab", "abcd"}


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
def problems(draw: st.DrawFn) -> "Problem":
    """Cuts with the scores their tails turn out to have. By our own dice: there are hundreds of numbers in each."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    made = []
    costs = [-0.0, -0.5, -1.0, -3.0]
    for place in range(draw(st.integers(1, 40))):
        size = chance.randint(0, SCORED_SUFFIX)
        text = chance.choice("abcdef").encode()
        candidate, tokens = chance.randint(0, 4), (place,)
        cut = Cut(candidate, tokens, text, tuple(range(size)), chance.choice(costs) * 4)
        made.append((cut, chance.choices(costs, k=size)))
    return made


Problem = list[tuple[Cut, list[float]]]


def solve(problem: Problem, n: int) -> tuple[list[Cut], int]:
    """The cuts found, and how many tokens were scored on the way."""
    scores, num_scored = dict(problem), 0
    search = Search(list(scores), n)
    for _ in range(4):
        cuts = search.next_round()
        if not cuts:
            return search.best, num_scored
        assert len(set(cuts)) == len(cuts)
        for cut in cuts:
            more = scores[cut][len(cut.scored) : cut.goal]
            num_scored += len(more)
            cut.scored += more
    return pytest.fail("the search does not end")


@given(problems(), st.integers(1, 4))
def test_with_no_limits_the_search_finds_what_scoring_everything_finds(
    problem: Problem, n: int
) -> None:
    totals = {cut: cut.logprob + sum(scores) for cut, scores in problem}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(middles, "_STAGES", ((4, 1000, math.inf), (SCORED_SUFFIX, 1000, math.inf)))
        best, _ = solve(problem, n)
    assert len(best) == min(n, len({cut.text for cut in totals}))
    assert len({cut.text for cut in best}) == len(best)
    assert totals[best[0]] == pytest.approx(max(totals.values()))
    first_of_each = best[: len({cut.candidate for cut in best})]
    assert len({cut.candidate for cut in first_of_each}) == len(first_of_each)


@given(problems(), st.integers(1, 4))
def test_the_search_ends_soon_and_has_compared_what_it_returns(problem: Problem, n: int) -> None:
    best, num_scored = solve(problem, n)
    assert len(best) == min(n, len({cut.text for cut, _ in problem}))
    assert all(cut.scored or not cut.tail for cut in best)
    assert num_scored <= n * (16 * 4 + 8 * 8 + 4 * 20)


@given(problems())
def test_a_cut_that_leads_all_the_way_is_found(problem: Problem) -> None:
    winner = Cut(9, (99,), b"winner", tuple(range(SCORED_SUFFIX)), 0.0)
    [best], _ = solve([*problem, (winner, [0.0] * SCORED_SUFFIX)], 1)
    assert best is winner or best.logprob + sum(best.scored) == 0.0


def test_cuts_far_behind_cost_nothing() -> None:
    tail = tuple(range(SCORED_SUFFIX))
    cuts = [Cut(i, (i,), str(i).encode(), tail, -20.0 * i, [-1.0]) for i in range(8)]
    best, num_scored = solve([(cut, [-1.0] * len(tail)) for cut in cuts], 1)
    assert best == cuts[:1]
    assert num_scored == 0, "the first token of the suffix has decided"


def test_a_constraint_says_where_a_middle_may_end() -> None:
    held = drawn(b"a", b"b", b"c")._replace(may_end=[False, True, False, True])
    assert texts(held, "x") == {"a", "abc"}
    assert texts(drawn(b"a", b"b", b"c")._replace(min_tokens=3), " x") == {"abc"}
