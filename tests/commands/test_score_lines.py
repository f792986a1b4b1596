import math
from pathlib import Path

import pytest

from segue.commands.score_lines import (
    Refused,
    Scored,
    Subject,
    Sum,
    counted,
    perplexity,
    read_subjects,
)
from segue.errors import InvalidField
from segue.types import Prompt, TokenScore


def score(piece: bytes, logprob: float | None, rank: int = 1) -> TokenScore:
    return TokenScore(piece[0], piece, logprob, rank, ())


def test_lines_are_texts_and_empty_ones_are_passed_over() -> None:
    subjects = read_subjects(["one\n", "\n", " two \r\n", '{"text": 1}'], layout="auto")
    assert [(s.line, s.prompt.parts) for s in subjects] == [
        (1, ("one",)),
        (3, (" two ",)),
        (4, ('{"text": 1}',)),
    ]


def test_an_object_in_the_first_line_makes_it_jsonl() -> None:
    lines = [
        '{"text": "a"}',
        '{"prompt": [1, 2], "id": 7}',
        '{"context": "a ", "continuation": "b"}',
    ]
    assert read_subjects(lines, layout="auto") == [
        Subject(1, Prompt(("a",))),
        Subject(2, Prompt(((1, 2),))),
        Subject(3, Prompt(("a b",)), "a "),
    ]
    assert [subject.label for subject in read_subjects(lines, layout="auto")] == ["a", "1 2", "b"]
    assert read_subjects(lines, "lines")[0].prompt.parts == (lines[0],)


@pytest.mark.parametrize(
    "line",
    [
        "plain",
        "[1]",
        "{}",
        '{"text": ""}',
        '{"text": []}',
        '{"text": [1, "a"]}',
        '{"text": [true]}',
        '{"context": "a"}',
        '{"context": "a", "continuation": ""}',
        '{"context": [1], "continuation": "b"}',
        '{"text": ' + "[" * 5000,
    ],
)
def test_other_objects_are_refused_by_line(line: str) -> None:
    with pytest.raises(InvalidField, match=r"^line 2 "):
        read_subjects(['{"text": "a"}', line], "jsonl")


@pytest.mark.parametrize(
    ("context", "pieces", "num_counted"),
    [
        ("", [b"<s>", b" a", b" b"], 3),
        ("a", [b"<s>", b" a", b" b"], 1),
        ("a", [b"a", b" b"], 1),
        ("a ", [b"a", b" b"], 1),  # the token across the boundary holds some of the continuation
        ("é", ["é".encode(), b" b"], 1),
        ("a", [b"a b"], 1),
    ],
)
def test_the_continuation_is_every_token_that_holds_some_of_it(
    context: str, pieces: list[bytes], num_counted: int
) -> None:
    whole = {"a ": "a b"}.get(context, context + " b")
    subject = Subject(1, Prompt((whole,)), context)
    scores = [score(piece, -1.0) for piece in pieces]
    assert counted(subject, scores).tokens == tuple(scores[-num_counted:])


@pytest.mark.parametrize("token", [-1, 2**31, 10**20])
def test_a_number_that_is_no_token_is_refused_by_line(token: int) -> None:
    """The message to the worker could not be written, with a traceback."""
    with pytest.raises(InvalidField, match=f"line 2: {token} is no token id"):
        read_subjects(['{"text": [1]}', f'{{"text": [1, {token}]}}'], layout="auto")


def test_figures() -> None:
    result = Scored(3, (score(b"a", None, 0), score(b"b", -1.0), score(b"c", -2.0, 4)))
    assert result.as_json() == {
        "line": 3,
        "num_tokens": 3,
        "num_scored": 2,
        "logprob": -3.0,
        "mean_logprob": -1.5,
        "perplexity": pytest.approx(math.exp(1.5)),
        "is_greedy": False,
        "tokens": ["a", "b", "c"],
        "token_ids": [97, 98, 99],
        "token_logprobs": [None, -1.0, -2.0],
    }
    total = Sum()
    for entry in (result, Refused(4, "too long"), Scored(5, (score(b"d", -0.5),))):
        total.add(entry)
    assert (total.num_tokens, total.num_scored, total.logprob) == (4, 3, -3.5)
    assert [refused.line for refused in total.refused] == [4]


def test_perplexity_of_nothing_and_of_the_impossible() -> None:
    assert perplexity(0.0, 0) is None
    assert perplexity(-9999.0, 1) == math.inf


def test_a_file_that_is_not_utf8_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xff\xfe")
    wrong = pytest.raises(InvalidField, match="the text is not UTF-8")
    with (tmp_path / "text").open(encoding="utf-8") as file, wrong:
        read_subjects(file, layout="auto")
