"""The search for triggers, held to Python's own search of every beginning of a text."""

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from segue.engine.constraints.automaton import Work
from segue.engine.constraints.lazy import patterns
from segue.engine.constraints.lazy.program import program
from segue.engine.constraints.lazy.watch import Fired, Watch

ATOMS = st.sampled_from(["a", "b", "c", "[ab]", ".", "ab", "(b)", "(a|bc)", "(?:a|b)"])
PARTS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        inner.map(lambda part: f"({part})"),
    ),
    max_leaves=5,
)
PATTERNS = st.tuples(st.sampled_from(["", "", "^"]), PARTS).map("".join)
TEXTS = ["".join(each) for num in range(6) for each in itertools.product("abc", repeat=num)]


class Places:
    """Instead of what is left of a grammar: where in the text it would begin."""

    start = 0

    def after(self, number: int, c: str) -> int:
        return number


def fired(sources: list[str], text: str) -> tuple[int, Fired] | None:
    """Where the first trigger is complete, and the place where its grammar begins."""
    places = Places()
    programs = {i: program(patterns.read(source)) for i, source in enumerate(sources)}
    watch = Watch(programs, places, Work(100_000))
    state = watch.start
    for end, c in enumerate(["", *text]):
        if end:
            places.start = end
            state = watch.after(state, c)
        if (found := watch.fired(state)) is not None:
            return end, found
    return None


def searched(sources: list[str], text: str) -> tuple[int, Fired] | None:
    for end in range(len(text) + 1):
        for number, source in enumerate(sources):
            if (found := re.search(source, text[:end])) is not None:
                groups = (i for i, group in enumerate(found.groups(), 1) if group)
                return end, Fired(number, found.start(next(groups, 0)))
    return None


@given(st.lists(PATTERNS, min_size=1, max_size=2), st.sampled_from(TEXTS))
def test_the_first_match_counts_from_its_first_group_with_text(
    sources: list[str], text: str
) -> None:
    assert fired(sources, text) == searched(sources, text)


@given(
    st.sampled_from(["a(?=b)", "a(?!b)", "(a)(?!bc)c?", "a(?=bc)b", "(?!ab)a[bc]", "b$", "^a+$"]),
    st.sampled_from(TEXTS),
)
def test_what_follows_decides_once_it_is_known(source: str, text: str) -> None:
    """At the end of the text what is not known is none; before, it may be either."""
    watch = Watch({0: program(patterns.read(source))}, Places(), Work(100_000))
    state, is_over = watch.start, False
    for end, c in enumerate(text, 1):
        state = watch.after(state, c)
        so_far = text[:end]
        found = bool(re.search(source.replace("$", r"\Z"), so_far))
        ways = {
            bool(re.search(source.replace("$", r"\Z"), so_far + "".join(rest)))
            for num in range(3)
            for rest in itertools.product("abcx", repeat=num)
        }
        is_over = is_over or watch.fired(state) is not None
        assert is_over == (ways == {True}), so_far
        if is_over:
            return
        assert (watch.fired_at_end(state) is not None) == found, so_far


def test_a_better_match_that_hangs_on_what_follows_is_waited_for() -> None:
    """Which of the two it is decides where the grammar begins."""
    sources = ["(ab)(?!c)|a(b)"]
    assert fired(sources, "ab") is None
    assert fired(sources, "abx") == (3, Fired(0, 0))
    assert fired(sources, "abc") == (3, Fired(0, 1))
    places = Places()
    watch = Watch({0: program(patterns.read(sources[0]))}, places, Work(100_000))
    state = watch.start
    for places.start, c in enumerate("ab", 1):
        state = watch.after(state, c)
    assert watch.fired_at_end(state) == Fired(0, 0)
