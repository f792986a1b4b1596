"""Reads lines of input as texts to score, and summarizes the results. Pure."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from segue.bounds import MAX_INT32
from segue.errors import InvalidField
from segue.types import Prompt, TokenScore

Layout = Literal["auto", "lines", "jsonl"]

_EXPECTED = '{"text": …} or {"prompt": …} or {"context": …, "continuation": …}'


@dataclass(frozen=True)
class Subject:
    """One text to score. `context`: text before it, which is read but not counted."""

    line: int
    prompt: Prompt
    context: str = ""

    @property
    def label(self) -> str:
        [part] = self.prompt.parts
        text = part if isinstance(part, str) else " ".join(map(str, part))
        return text[len(self.context) :]


@dataclass(frozen=True)
class Scored:
    """`tokens`: those that count. The first token has a score only if there is a context."""

    line: int
    tokens: tuple[TokenScore, ...]

    @property
    def logprobs(self) -> list[float]:
        return [token.logprob for token in self.tokens if token.logprob is not None]

    def as_json(self) -> dict[str, Any]:
        logprobs = self.logprobs
        logprob = math.fsum(logprobs)
        return {
            "line": self.line,
            "num_tokens": len(self.tokens),
            "num_scored": len(logprobs),
            "logprob": logprob,
            "mean_logprob": logprob / len(logprobs) if logprobs else None,
            "perplexity": perplexity(logprob, len(logprobs)),
            "is_greedy": bool(logprobs) and all(token.rank <= 1 for token in self.tokens),
            "tokens": [token.piece.decode(errors="replace") for token in self.tokens],
            "token_ids": [token.token for token in self.tokens],
            "token_logprobs": [token.logprob for token in self.tokens],
        }


@dataclass(frozen=True)
class Refused:
    """A line that could not be scored, and why."""

    line: int
    reason: str

    def as_json(self) -> dict[str, Any]:
        return {"line": self.line, "error": self.reason}


@dataclass
class Sum:
    """The totals over all lines. The perplexity is that of all texts together."""

    num_tokens: int = 0
    num_scored: int = 0
    logprob: float = 0.0
    refused: list[Refused] = field(default_factory=list)

    def add(self, result: Scored | Refused) -> None:
        if isinstance(result, Refused):
            self.refused.append(result)
            return
        self.num_tokens += len(result.tokens)
        self.num_scored += len(result.logprobs)
        self.logprob += math.fsum(result.logprobs)


def perplexity(logprob: float, num_tokens: int) -> float | None:
    if not num_tokens:
        return None
    from segue.exact_math import exp  # numpy comes with it, for which a start ahead must not wait

    mean = -logprob / num_tokens
    return exp(mean) if mean < 700 else math.inf


# --- reading -------------------------------------------------------------------------------------


def read_subjects(lines: Iterable[str], layout: Layout) -> list[Subject]:
    """One subject for each line that is not empty. Raises InvalidField, which names the line."""
    try:
        numbered = [
            (number, text)
            for number, line in enumerate(lines, start=1)
            if (text := line.rstrip("\r\n")).strip()
        ]
    except UnicodeDecodeError as error:
        raise InvalidField(f"the text is not UTF-8: {error}") from None
    if layout == "jsonl" or (layout == "auto" and numbered and _is_object(numbered[0][1])):
        return [_from_json(number, text) for number, text in numbered]
    return [Subject(number, Prompt((text,))) for number, text in numbered]


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _from_json(line: int, text: str) -> Subject:
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidField(f"line {line} is not JSON: {error}") from None
    match entry:
        case {"context": str(context), "continuation": str(continuation)} if continuation:
            return Subject(line, Prompt((context + continuation,)), context)
        case {"text": str(whole)} | {"prompt": str(whole)} if whole:
            return Subject(line, Prompt((whole,)))
        case {"text": [*ids]} | {"prompt": [*ids]} if ids and all(type(i) is int for i in ids):
            if wrong := [each for each in ids if not 0 <= each <= MAX_INT32]:
                raise InvalidField(f"line {line}: {wrong[0]} is no token id")
            return Subject(line, Prompt((tuple(ids),)))
    raise InvalidField(f"line {line} must be {_EXPECTED}, none of them empty")


# --- what counts ---------------------------------------------------------------------------------


def counted(subject: Subject, scores: Sequence[TokenScore]) -> Scored:
    """All tokens; with a context, the tokens that contain text after it."""
    if not subject.context:
        return Scored(subject.line, tuple(scores))
    [text] = subject.prompt.parts
    after = len(str(text).encode()) - len(subject.context.encode())
    first = len(scores)
    while first > 0 and after > 0:
        first -= 1
        after -= len(scores[first].piece)
    return Scored(subject.line, tuple(scores[first:]))
