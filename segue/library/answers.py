"""What the library returns: plain frozen values."""

import math
from dataclasses import dataclass

from segue.types import Cause, Reason, TokenScore, Usage


@dataclass(frozen=True)
class Choice:
    """One text. `tokens`: its ids; `scores`: only with logprobs."""

    text: str
    tokens: tuple[int, ...]
    finish_reason: Reason
    cause: Cause  # the exact reason
    scores: tuple[TokenScore, ...] = ()


@dataclass(frozen=True)
class Completion:
    """The answer to one prompt. A request with this `seed` gives the same answer again."""

    choices: tuple[Choice, ...]
    usage: Usage
    seed: int

    @property
    def text(self) -> str:
        """The text of the first choice."""
        return self.choices[0].text

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.choices[0].tokens

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Piece:
    """A part of a choice while it is generated."""

    choice: int
    text: str
    tokens: tuple[int, ...]
    scores: tuple[TokenScore, ...] = ()


@dataclass(frozen=True)
class Score:
    """How likely a text is. Its first token has no score: nothing precedes it."""

    tokens: tuple[TokenScore, ...]

    @property
    def logprob(self) -> float:
        return math.fsum(token.logprob for token in self.tokens if token.logprob is not None)

    @property
    def num_scored(self) -> int:
        return len([token for token in self.tokens if token.logprob is not None])

    @property
    def perplexity(self) -> float:
        """The perplexity; NaN if no token was scored."""
        from segue.exact_math import exp  # numpy comes with it

        return exp(-self.logprob / self.num_scored) if self.num_scored else math.nan
