"""Golden requests and answers, a table a dialect: tests/contract/<dialect> has its CASES.

They are answered by the real server and engine over a model that always continues with SCRIPT: a token is a
character, and after a prompt of k tokens come SCRIPT[k - 1], SCRIPT[k], … (over and over) with certainty.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args
from unittest.mock import ANY

import pytest

SCRIPT = " brown fox jumps over the lazy dog."
MODEL = "fake"
END_TOKEN = 256  # where a dialect has logit_bias, a bias of 100 on it ends the answer

# What every dialect is held to. One that has no such thing shows how it answers a request for it.
Aspect = Literal[
    "fold", "stream", "stop", "n", "logprobs", "echo", "usage", "token prompt", "batch", "error"
]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)

DONE = "[DONE]"


@dataclass(frozen=True)
class Case:
    """One request, and all of its answer: `answer` if it is whole, `chunks` if it is streamed.

    `path` includes the dialect's prefix. Chunks end in DONE where the system says so.
    """

    aspect: Aspect
    path: str
    body: Any  # sent as JSON; bytes are sent as they are
    answer: Any = None
    chunks: Sequence[Any] | None = None
    status: int = 200
    source: str = ""  # the section of the system's contract that says so
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)  # of the answer, a part of them


class Like:
    """Equal to every string that this pattern matches in full."""

    def __init__(self, pattern: str):
        self._pattern = re.compile(pattern, re.DOTALL)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self._pattern.fullmatch(other) is not None

    def __hash__(self) -> int:
        return hash(self._pattern)

    def __repr__(self) -> str:
        return f"Like({self._pattern.pattern!r})"


class IsNumber:
    """Equal to every number that is not negative: times and counts of the cache."""

    def __eq__(self, other: object) -> bool:
        return type(other) in (int, float) and other >= 0  # type: ignore[operator]

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "IsNumber()"


NUMBER = IsNumber()
CERTAIN = pytest.approx(0.0, abs=1e-6)  # the log-probability of each token of SCRIPT

__all__ = [
    "ANY",
    "ASPECTS",
    "CERTAIN",
    "DONE",
    "END_TOKEN",
    "MODEL",
    "NUMBER",
    "SCRIPT",
    "Aspect",
    "Case",
    "Like",
]
