import itertools

import pytest

from segue.engine.constraints.free_text import can_come_first, is_entangled, steps
from segue.engine.constraints.grammar import Free

TEXTS = ["".join(letters) for num in range(6) for letters in itertools.product("abx", repeat=num)]


def reads(free: Free, text: str) -> bool:
    """Whether the automaton takes the whole text."""
    states, at, is_end = steps(free), 0, free.until is None
    for place, c in enumerate(text):
        found = [s for s in states[at] if any(low <= ord(c) <= high for low, high in s.ranges)]
        if not found or (place and is_end and free.until is not None):
            return False
        at, is_end = found[0].target, found[0].is_end
    return is_end


@pytest.mark.parametrize("stops", [(), ("a",), ("ab",), ("aab", "b"), ("aa", "abx"), ("abab",)])
def test_texts_without_the_stops(stops: tuple[str, ...]) -> None:
    for text in TEXTS:
        assert reads(Free(stops), text) == (not any(stop in text for stop in stops)), text


@pytest.mark.parametrize("stops", [("a",), ("ab",), ("aab", "b"), ("aa", "abx"), ("xab", "ab")])
def test_texts_up_to_the_first_stop(stops: tuple[str, ...]) -> None:
    """The first to be complete; of two that end together the longer one."""
    for until, text in itertools.product(stops, TEXTS):
        ends = sorted(
            (at + len(stop), -len(stop), stop)
            for stop in stops
            for at in range(len(text))
            if text.startswith(stop, at)
        )
        expected = bool(ends) and ends[0][0] == len(text) and ends[0][2] == until
        assert reads(Free(stops, until), text) == expected, (until, text)


def test_a_stop_within_another_comes_first() -> None:
    assert can_come_first("ab", ["ab", "b"], ["ab", "b"])
    assert not can_come_first("ab", ["ab", "b"], ["ab"])  # the other must not be met at all
    assert not can_come_first("abc", ["abc", "b"], ["abc", "b"])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["</f>"], False),
        (["```"], True),
        (["]]"], True),
        (["</f>", "</g>"], False),
        (["</f>", "<"], True),
        (["ab", "bc"], True),
        ([], False),
    ],
)
def test_entangled(texts: list[str], expected: bool) -> None:
    assert is_entangled(texts) == expected
