"""What of an answer is written, to a terminal and to a program."""

import io
from collections.abc import AsyncGenerator
from typing import Any

import click
import pytest

from segue.commands.folding import Chunk
from segue.commands.running.writing import write

STEERING = "a\x1b[2J\x1b]0;title\x07\x9b1m\r\tb\n"


class Stream(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


async def answer(*choices: dict[str, Any]) -> AsyncGenerator[Chunk, None]:
    for choice in choices:
        yield {"choices": [{"index": 0, **choice}]}


def written(
    monkeypatch: pytest.MonkeyPatch,
    source: AsyncGenerator[Chunk, None],
    *,
    is_terminal: bool,
    is_tinted: bool = False,
) -> str:
    stream = Stream(is_terminal)
    monkeypatch.setattr("sys.stdout", stream)
    write(source, is_tinted=is_tinted)
    return stream.getvalue()


def test_a_model_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could: clear the screen, set the title, and what else a terminal can be told."""
    source = answer({"text": STEERING}, {"index": 1, "text": STEERING})
    shown = "a\\x1b[2J\\x1b]0;title\\x07\\x9b1m\\r\tb\n"
    assert written(monkeypatch, source, is_terminal=True) == f"{shown}\n---\n{shown}\n"


@pytest.mark.parametrize("is_tinted", [False, True])
def test_a_program_gets_every_byte(monkeypatch: pytest.MonkeyPatch, is_tinted: bool) -> None:
    """Escape sequences were left out, as if they were our colours."""
    source = answer(
        {"text": STEERING, "logprobs": scored(STEERING)}, {"index": 1, "text": "\x1b[m"}
    )
    text = written(monkeypatch, source, is_terminal=False, is_tinted=is_tinted)
    assert text == f"{STEERING}\n---\n\x1b[m\n"


def scored(*tokens: str) -> dict[str, Any]:
    return {"tokens": [*tokens], "token_logprobs": [-9.0] * len(tokens)}


def test_tokens_are_tinted_in_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = {"text": "one\x1b[2Jtwo", "logprobs": scored("one", "\x1b[2J", "two")}

    def tinted() -> str:
        return written(monkeypatch, answer(choice), is_terminal=True, is_tinted=True)

    assert tinted().count("\x1b[30m\x1b[48;5;") == 3
    assert click.unstyle(tinted()) == "one\\x1b[2Jtwo\n"
    with monkeypatch.context() as patch:
        patch.setenv("NO_COLOR", "1")
        assert tinted() == "one\\x1b[2Jtwo\n"
    monkeypatch.setenv("TERM", "dumb")
    assert tinted() == "one\\x1b[2Jtwo\n"


def test_tokens_that_do_not_join_to_the_text_are_not_tinted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choice = {"text": "é\x1b", "logprobs": scored("\ufffd", "\ufffd")}
    text = written(monkeypatch, answer(choice), is_terminal=True, is_tinted=True)
    assert text == "é\\x1b\n"
