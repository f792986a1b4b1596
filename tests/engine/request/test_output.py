from hypothesis import given
from hypothesis import strategies as st

from segue.engine.request.output import Output, Shown
from segue.types import TokenScore
from tests.engine.request.test_stops import reference as cut_at_stop

pieces = st.lists(st.sampled_from([b"a", b"ab", b"\xf0\x9f", b"\x99\x82", b"b ", b""]), max_size=20)
stops = st.lists(st.sampled_from(["ba", "b b", "🙂a", "aaa"]), max_size=2, unique=True)


def scored(token: int, piece: bytes) -> TokenScore:
    return TokenScore(token, piece, -1.0, 1, ())


def show(
    given_pieces: list[bytes], stop: list[str], every: int
) -> tuple[str, list[int], list[int]]:
    """Text, tokens and the tokens whose scores were reported, taking what is visible every few tokens."""
    output, parts = Output(tuple(stop)), list[Shown | None]()
    for token, piece in enumerate(given_pieces):
        output.push(token, piece, scored(token, piece))
        if output.stopped_by is not None:
            break
        if token % every == 0:
            parts.append(output.take())
    parts.append(output.flush())
    seen = [part for part in parts if part is not None]
    return (
        "".join(part.text for part in seen),
        [token for part in seen for token in part.tokens],
        [score.token for part in seen for score in part.scores],
    )


@given(pieces, stops, st.integers(1, 5))
def test_the_same_however_it_is_taken(
    given_pieces: list[bytes], stop: list[str], every: int
) -> None:
    assert show(given_pieces, stop, every) == show(given_pieces, stop, 100)


@given(pieces)
def test_without_stops_everything_is_reported(given_pieces: list[bytes]) -> None:
    text, tokens, scores = show(given_pieces, [], 1)
    assert text == b"".join(given_pieces).decode("utf-8", "replace")
    assert tokens == scores == list(range(len(given_pieces)))


BROKEN = [b"a", b"ab", b"\xf0\x9f", b"\x99\x82", b"\xcc", b"\xed\xa0", b"b"]
MARKS = ["\ufffd", "a\ufffd", "\ufffda", "\ufffd\ufffd", "\ufffd\ufffda", "ba", "🙂\ufffd"]


@given(
    st.lists(st.sampled_from(BROKEN), max_size=8),
    st.lists(st.sampled_from(MARKS), max_size=3, unique=True),
    st.integers(1, 9),
)
def test_stop_strings_are_found_in_the_text_as_it_is_read_whole(
    given_pieces: list[bytes], stop: list[str], every: int
) -> None:
    """What is no character is U+FFFD there, at the end too: the last one is known only when nothing follows."""
    whole = b"".join(given_pieces).decode("utf-8", "replace")
    text, _, _ = show(given_pieces, stop, every)
    assert text == cut_at_stop(whole, stop)[0]


def test_tokens_swallowed_by_a_stop_have_no_scores() -> None:
    text, tokens, scores = show([b"on", b"e ST", b"OP", b"more"], ["STOP"], 1)
    assert text == "one "
    assert tokens == [0, 1, 2]
    assert scores == [0, 1]


def test_or_they_have_scores_at_the_end() -> None:
    output = Output(("STOP",), scores_stops=True)
    shown = list[Shown | None]()
    for index, piece in enumerate([b"on", b"e ST", b"OP"]):
        output.push(index, piece, scored(index, piece))
        shown.append(output.take())
    shown.append(output.flush())
    parts = [part for part in shown if part is not None]
    assert "".join(part.text for part in parts) == "one "
    assert [score.token for part in parts for score in part.scores] == [0, 1, 2]


def test_a_token_after_a_broken_character_starts_after_it() -> None:
    text, _, scores = show([b"x", b"\xcc", b"d", b"e"], ["de"], 1)
    assert text == "x\ufffd"
    assert scores == [0, 1], "d and e were swallowed"


def test_a_token_that_the_text_leaves_out_is_marked() -> None:
    """A control token has a spelling, which the text does not show."""
    output = Output(())
    output.push(0, b"a", scored(0, b"a"))
    output.push(1, b"", scored(1, b"<|im_start|>"))
    output.push(2, b"", scored(2, b""))
    shown = output.flush()
    assert shown is not None
    assert [score.is_shown for score in shown.scores] == [True, False, True]


def test_a_stop_may_begin_in_tokens_in_which_none_may_end() -> None:
    output = Output((">q",), min_tokens=1)
    output.push(0, b">", None)
    assert output.stopped_by is None
    output.push(1, b"q", None)
    assert output.stopped_by == ">q"
    within = Output(("ab", "xaby"), min_tokens=1)
    within.push(0, b"xab", None)
    within.push(1, b"z", None)
    assert within.stopped_by is None, "it ended where none may"
    assert within.flush() == Shown("xabz", (0, 1), ())


def test_text_that_might_be_a_stop_waits_and_then_comes() -> None:
    output = Output(("STOP",))
    first, second, third = (scored(i, piece) for i, piece in enumerate([b"a S", b"T", b"x"]))
    output.push(0, b"a S", first)
    assert output.take() == Shown("a ", (0,), (first,))
    output.push(1, b"T", second)
    assert output.take() is None
    output.push(2, b"x", third)
    assert output.take() == Shown("STx", (1, 2), (second, third))
    assert output.flush() is None


def test_stops_do_not_count_before_min_tokens() -> None:
    output = Output(("ab",), min_tokens=3)
    for letter in b"abaab":
        output.push(letter, bytes([letter]), None)
    shown = output.flush()
    assert shown is not None
    assert (shown.text, output.stopped_by) == ("aba", "ab")


def test_a_stop_that_is_included_is_shown_whole_and_scored() -> None:
    output = Output(("STOP",), include_stop=True)
    for token, piece in enumerate([b"e ST", b"OP more"]):
        output.push(token, piece, scored(token, piece))
    shown = output.flush()
    assert shown is not None
    assert (shown.text, [score.token for score in shown.scores]) == ("e STOP", [0, 1])


def test_a_dedented_line_is_cut_with_its_scores() -> None:
    output = Output(("stop",), min_indent=1)
    pieces = [b"a\n", b" b", b"\n", b"cd"]
    for i, piece in enumerate(pieces):
        output.push(i, piece, TokenScore(i, piece, -1.0, 1, ()))
    shown = output.flush()
    assert output.is_dedented
    assert shown is not None
    assert shown.text == "a\n b\n"
    assert [score.token for score in shown.scores] == [0, 1, 2]
