"""Beam search: the `width` likeliest texts of a prompt, as far as a search of that width finds them.

Pure, and deterministic: equal scores are ordered by the rank of the beam and then by the token. As in vLLM, every beam
is continued by its 2 × width likeliest tokens; one that ends there is done, and of all others the `width` likeliest go
on. In the end beams are ranked by their log-probability divided by (generated tokens) ** length_penalty, as by
Transformers: the token that ended a text is one of them.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from segue import exact_math
from segue.types import Cause, TokenScore

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Beam:
    tokens: Tokens = ()
    logprob: float = 0.0  # of all tokens
    scores: tuple[TokenScore, ...] = ()
    cause: Cause | None = None  # why it ended; None: it goes on


class BeamSearch:
    def __init__(
        self,
        width: int,
        max_tokens: int,
        length_penalty: float,
        cause: Callable[[int], Cause | None],
    ) -> None:
        self._width = width
        self._max_tokens = max_tokens
        self._penalty = length_penalty
        self._cause = cause  # why a token ends a text
        self._done: list[Beam] = []
        self.beams = [Beam()]  # those that go on, likeliest first

    @property
    def num_alternatives(self) -> int:
        """How many of the likeliest tokens `advance` needs for each beam."""
        return 2 * self._width

    def advance(self, following: Sequence[Sequence[TokenScore]]) -> None:
        """Continue each beam by its likeliest tokens. `following`: for each beam, these tokens, likeliest first."""
        longer: list[tuple[float, int, int, TokenScore]] = []
        for rank, (beam, scores) in enumerate(zip(self.beams, following, strict=True)):
            for score in scores:
                if self._cause(score.token) is None:
                    longer.append((-_sum(beam, score), rank, score.token, score))
                else:
                    self._done.append(self._grown(beam, score))
        # Only those that go on are made: a beam's tokens are copied for it.
        likeliest = heapq.nsmallest(self._width, longer, key=lambda each: each[:3])
        best = [self._grown(self.beams[rank], score) for _, rank, _, score in likeliest]
        self._done += (beam for beam in best if beam.cause is not None)
        self.beams = [beam for beam in best if beam.cause is None]
        if self._is_decided():
            self.beams = []

    def best(self, number: int) -> list[Beam]:
        """The best beams that ended, best first."""
        return sorted(self._done, key=lambda beam: -self._value(beam))[:number]

    def _grown(self, beam: Beam, score: TokenScore) -> Beam:
        tokens = (*beam.tokens, score.token)
        cause = self._cause(score.token)
        if cause is None and len(tokens) == self._max_tokens:
            cause = "max_tokens"
        return Beam(tokens, _sum(beam, score), (*beam.scores, score), cause)

    def _value(self, beam: Beam) -> float:
        return beam.logprob / exact_math.power(len(beam.tokens), self._penalty)

    def _is_decided(self) -> bool:
        """Whether no beam that goes on can still be among the best: log-probabilities only fall."""
        if len(self._done) < self._width:
            return False
        worst = self._value(self.best(self._width)[-1])
        for beam in self.beams:  # all of one length
            length = self._max_tokens if self._penalty > 0 else len(beam.tokens)
            if beam.logprob / exact_math.power(length, self._penalty) >= worst:
                return False
        return True


def _sum(beam: Beam, score: TokenScore) -> float:
    return beam.logprob + (score.logprob or 0.0)
