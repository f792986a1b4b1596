import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.rendering.logprobs import (
    LegacyLogprobs,
    echoed,
    prompt_scores,
    token_text,
)
from segue.types import LOWEST_LOGPROB, Alternative, Prompted, TokenScore
from tests.support.prompt_scores import columns

logprobs = st.floats(max_value=0, allow_nan=False)


@st.composite
def scores(draw: st.DrawFn, piece: bytes) -> TokenScore:
    others = draw(st.lists(st.tuples(st.binary(min_size=1, max_size=3), logprobs), max_size=4))
    others.sort(key=lambda other: -other[1])
    top = tuple(Alternative(i, text, logprob) for i, (text, logprob) in enumerate(others))
    return TokenScore(300, piece, draw(logprobs), 1, top)


@st.composite
def scored_text(draw: st.DrawFn) -> tuple[str, list[TokenScore]]:
    """A text cut into pieces at random bytes, so that characters are split too."""
    text = draw(st.text(max_size=12))
    data = text.encode()
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(data))), max_size=len(data))))
    edges = [0, *[cut for cut in cuts if cut < len(data)], len(data)]
    pieces = [data[a:b] for a, b in pairwise(edges) if a < b]
    return text, [draw(scores(piece)) for piece in pieces]


@given(scored_text(), st.integers(0, 5), st.integers(0, 9))
def test_layout(cut: tuple[str, list[TokenScore]], num_top: int, offset: int) -> None:
    text, run = cut
    layout = LegacyLogprobs(num_top, offset).push(run)
    assert {len(column) for column in layout.values()} == {len(run)}
    for token, logprob, top in zip(
        layout["tokens"], layout["token_logprobs"], layout["top_logprobs"], strict=True
    ):
        assert math.isfinite(logprob)
        assert all(math.isfinite(value) for value in top.values())
        assert top[token] >= logprob  # the same float, unless another id with this text is likelier
        assert len(top) <= num_top + 1
    offsets = [position - offset for position in layout["text_offset"]]
    assert offsets == sorted(offsets)
    for position, token in zip(offsets, layout["tokens"], strict=True):
        if not token.startswith("bytes:"):
            assert text[position : position + len(token)] == token


@given(scored_text(), st.integers(0, 20))
def test_any_split_gives_the_same(cut: tuple[str, list[TokenScore]], at: int) -> None:
    _, run = cut
    whole = LegacyLogprobs(2, 3).push(run)
    writer = LegacyLogprobs(2, 3)
    first, second = writer.push(run[:at]), writer.push(run[at:])
    assert {key: first[key] + second[key] for key in whole} == whole


def test_chosen_token_is_always_among_the_top() -> None:
    """An evaluation harness compares the chosen value with the top ones by float equality."""
    top = (Alternative(1, b"a", -0.5), Alternative(2, b"b", -0.7), Alternative(3, b"a", -0.9))
    run = [TokenScore(9, b"z", -4.5, 7, top), TokenScore(3, b"a", -0.9, 3, top)]
    layout = LegacyLogprobs(3, 0).push(run)
    assert layout["top_logprobs"] == [{"a": -0.5, "b": -0.7, "z": -4.5}, {"a": -0.5, "b": -0.7}]
    assert LegacyLogprobs(0, 0).push(run)["top_logprobs"] == [{"z": -4.5}, {"a": -0.9}]


def test_impossible_is_a_finite_number() -> None:
    layout = LegacyLogprobs(0, 0).push([TokenScore(1, b"a", -math.inf, 9, ())])
    assert layout["token_logprobs"] == [LOWEST_LOGPROB]
    assert layout["top_logprobs"] == [{"a": LOWEST_LOGPROB}]


def test_half_characters_are_written_as_bytes() -> None:
    assert token_text("✓".encode()) == "✓"
    assert token_text(b"\xe2\x9c") == r"bytes:\xe2\x9c"
    assert token_text(b" \xe2") == r"bytes: \xe2"
    run = [
        TokenScore(i, piece, -1.0, 1, ()) for i, piece in enumerate([b"a", b"\xe2\x9c", b"\x93b"])
    ]
    assert LegacyLogprobs(0, 5).push(run)["text_offset"] == [5, 6, 6]


def test_echoed_prompt() -> None:
    """Nothing precedes the first token; what the tokenizer put in front has no width."""
    pieces = [(b"<s>", None), (b" He", -1.0), (b"y", -2.0)]
    run = tuple(TokenScore(i, piece, logprob, 1, ()) for i, (piece, logprob) in enumerate(pieces))
    layout = echoed(Prompted(0, (0, 1, 2), 0, "Hey", columns(run)), 1)
    assert layout["tokens"] == ["<s>", " He", "y"]
    assert layout["token_logprobs"] == [None, -1.0, -2.0]
    assert layout["top_logprobs"] == [None, {" He": -1.0}, {"y": -2.0}]
    assert layout["text_offset"] == [0, 0, 2]


@pytest.mark.parametrize(
    ("text", "pieces", "offsets"),
    [
        # A tokenizer puts spaces behind control tokens, too.
        ("a</s>b c", ["<s>", " a", "</s>", " b", " c"], [0, 0, 1, 5, 6]),
        ("é</s> b", ["<s>", " é", "</s>", "  ", "b"], [0, 0, 1, 5, 6]),
        # It leaves blanks out beside them.
        ("<|user|>\nhé", ["<|user|>", "h", "é"], [0, 9, 10]),
        ("é </s>\n\n", ["é", "</s>"], [0, 2]),
        # It reads another spelling of what is there.
        ("a cafe\u0301 is", ["a", " café", " is"], [0, 1, 7]),
    ],
)
def test_echoed_tokens_are_where_they_stand_in_the_text(
    text: str, pieces: list[str], offsets: list[int]
) -> None:
    run = tuple(TokenScore(7, piece.encode(), -1.0, 1, ()) for piece in pieces)
    assert echoed(Prompted(0, (7,), 0, text, columns(run)), 0)["text_offset"] == offsets


def test_prompt_scores_by_token_id() -> None:
    top = (Alternative(4, b"x", -0.5), Alternative(5, b"y", -0.75))
    run = (TokenScore(1, b"a", None, 0, ()), TokenScore(7, b"b", -3.0, 12, top))
    first, second = prompt_scores(Prompted(0, (1, 7), 0, None, columns(run)), 1)
    assert (first, second) == (
        None,
        {
            "7": {"logprob": -3.0, "rank": 12, "decoded_token": "b"},
            "4": {"logprob": -0.5, "rank": 1, "decoded_token": "x"},
        },
    )
    assert list(second or ()) == ["7", "4"]  # Inspect takes the first one for the prompt's own


def test_offsets_after_a_broken_character() -> None:
    """The byte \\xcc is a character of its own once the next token does not go on with it."""
    scores = [TokenScore(i, piece, -1.0, 1, ()) for i, piece in enumerate([b"\xcc", b"d", b"e"])]
    for runs in ([scores], [[score] for score in scores]):
        writer = LegacyLogprobs(0, 11)
        offsets = [offset for run in runs for offset in writer.push(run)["text_offset"]]
        assert offsets == [11, 12, 13]


def test_a_token_that_the_text_leaves_out_has_no_width() -> None:
    """Not even inside a character: the text goes on as if it were not there."""
    hidden = TokenScore(9, b"<|im_start|>", -1.0, 1, (), is_shown=False)
    before, rest = (TokenScore(i, piece, -1.0, 1, ()) for i, piece in enumerate([b"\xc3", b"\xa9"]))
    after = TokenScore(2, b"b", -1.0, 1, ())
    layout = LegacyLogprobs(0, 4).push([before, hidden, rest, hidden, after])
    assert layout["text_offset"] == [4, 4, 4, 5, 5]
    assert layout["tokens"][1] == "<|im_start|>"
