import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.request.stops import IndentLimit, StopMatcher

texts = st.text(alphabet="abcé🙂", max_size=40)
stop_lists = st.lists(st.text(alphabet="abcé🙂", min_size=1, max_size=5), max_size=4)


def reference(text: str, stops: list[str], num_exempt: int = 0) -> tuple[str, str | None]:
    """Character by character: the first prefix of the text that ends in a stop; the longest such.

    No stop ends in the first `num_exempt` characters.
    """
    for end in range(num_exempt + 1, len(text) + 1):
        hits = [stop for stop in stops if text[:end].endswith(stop)]
        if hits:
            longest = max(hits, key=len)
            return text[: end - len(longest)], longest
    return text, None


def run(pieces: list[str], stops: list[str], num_exempt: int = 0) -> tuple[str, str | None]:
    """`num_exempt`: of the pieces."""
    matcher, shown = StopMatcher(stops), ""
    for i, piece in enumerate(pieces):
        text, stop = matcher.push(piece, is_exempt=i < num_exempt)
        shown += text
        if stop is not None:
            return shown, stop
    return shown + matcher.flush(), None


@given(texts, stop_lists, st.data())
def test_any_split_gives_the_reference(text: str, stops: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert run(pieces, stops) == reference(text, stops)
    exempt = pieces[: data.draw(st.integers(0, 3))]
    wanted = reference(text, stops, len("".join(exempt)))
    assert run(pieces, stops, len(exempt)) == wanted


def test_text_that_was_shown_exempts_nothing_that_follows() -> None:
    assert run(["cccc", "ab"], ["ab"], num_exempt=1) == ("cccc", "ab")
    assert run(["cccab", "ab"], ["ab"], num_exempt=1) == ("cccab", "ab")
    assert run(["ccca", "b"], ["ab"], num_exempt=1) == ("ccc", "ab")


def test_what_was_searched_is_not_searched_again() -> None:
    """A text that was held was read again with each token, once for each stop: tens of milliseconds of every step."""
    searched: list[int] = []

    class Noted(StopMatcher):
        def _first_match(self, after: int) -> tuple[int, str] | None:
            searched.append(after)
            return super()._first_match(after)

    matcher = Noted(["aaaaaaa", "aab"])
    for piece in ("a", "aa", "a", "c", "aa"):
        assert matcher.push(piece)[1] is None
    assert searched == [0, 1, 3, 4, 0]
    assert matcher.push("b") == ("", "aab")


@given(texts, stop_lists)
def test_holds_back_no_more_than_it_must(text: str, stops: list[str]) -> None:
    matcher, shown = StopMatcher(stops), ""
    for character in text:
        part, stop = matcher.push(character)
        shown += part
        if stop is not None:
            return
    held = text[len(shown) :]
    assert held == "" or any(stop.startswith(held) and stop != held for stop in stops)
    longer = text[-(len(held) + 1) :]
    if len(longer) > len(held):
        assert not any(stop.startswith(longer) for stop in stops)


def dedent(pieces: list[str], least: int) -> tuple[str, bool]:
    limit, shown = IndentLimit(least), ""
    for piece in pieces:
        text, is_over = limit.push(piece)
        shown += text
        if is_over:
            return shown, True
    return shown, False


@pytest.mark.parametrize(
    ("text", "shown", "is_over"),
    [
        ("a\n  b", "a\n  b", False),
        ("a\n  b\n c", "a\n  b\n ", True),
        ("a\n\tb", "a\n\t", True),
        ("a\n\t\tb\nc", "a\n\t\tb\n", True),
        ("a\n\nb", "a\n", True),
        ("no line", "no line", False),
    ],
)
def test_a_line_indented_less_ends_the_text(text: str, shown: str, is_over: bool) -> None:
    assert dedent([text], 2) == (shown, is_over)
    assert dedent(list(text), 2) == (shown, is_over)
    assert dedent([text], 0) == (text, False)
