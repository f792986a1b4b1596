"""The draw itself: by weight, or by a feedback loop over earlier draws (Mirostat, adaptive-p)."""

from typing import Protocol

import numpy as np

from segue import exact_math
from segue.engine.sampling.candidates import Candidates, draw, top
from segue.engine.seam import AdaptiveState, Feedback, MirostatState

_MIROSTAT_LOOKS_AT = 100  # tokens used to estimate how fast probabilities fall with rank

_LOG_2 = 0.6931471805599453
_LARGEST_MU = 1e6  # keeps mu finite for any tau and eta


class Chooser(Protocol):
    def choose(self, candidates: Candidates, point: float) -> int:
        """The index of the token drawn. May narrow or reweigh the candidates first."""

    def state(self, drawn: int | None) -> Feedback | None:
        """What a runner must know to make the next draw in place of `choose`; None: nothing but weights.

        `drawn`: the number of the draw before it, if that is still open: its feedback is not known yet.
        """

    def follow(self, feedback: float) -> None:
        """A runner has made a draw in place of `choose`, and this is what it feeds back."""


class ByWeight:
    def choose(self, candidates: Candidates, point: float) -> int:
        if candidates.logits.size == 1:
            return 0
        return draw(candidates.weights(), point)

    def state(self, drawn: int | None) -> None:
        return None

    def follow(self, feedback: float) -> None:
        pass


class Mirostat:
    """Basu et al., Mirostat: a feedback loop that holds the surprise of the text near `tau` bits.

    `mu` is the greatest surprise that the next token may have. Version 2 removes tokens above it. Version 1 removes
    tokens by rank: those above `mu` if probabilities follow Zipf's law.
    """

    def __init__(self, version: int, tau: float, eta: float, vocab_size: int) -> None:
        self._version = version
        self._tau = tau
        self._eta = eta
        self._vocab_size = vocab_size
        self.mu = 2.0 * tau

    def state(self, drawn: int | None) -> MirostatState:
        return MirostatState(self._version, self._tau, self._eta, self.mu, drawn)

    def follow(self, feedback: float) -> None:
        self.mu = feedback

    def choose(self, candidates: Candidates, point: float) -> int:
        if self._version == 1:
            candidates.keep(top(candidates.logits, self._num_kept(candidates)))
        else:
            self._cut_surprising(candidates)
        weights = candidates.weights()
        index = draw(weights, point)
        share = float(weights[index]) / exact_math.total(weights)
        error = -exact_math.log2(share) - self._tau
        self.mu = min(max(self.mu - self._eta * error, -_LARGEST_MU), _LARGEST_MU)
        return index

    def _num_kept(self, candidates: Candidates) -> int:
        falling = candidates.logits[top(candidates.logits, _MIROSTAT_LOOKS_AT)].astype(np.float64)
        if falling.size < 2:
            return 1
        ranks = np.arange(1, falling.size)
        steps = exact_math.logs((ranks + 1) / ranks)
        falls = falling[:-1] - falling[1:]
        exponent = exact_math.total(steps * falls) / exact_math.total(steps * steps)
        excess = exponent - 1
        if exponent <= 0:
            return candidates.logits.size  # equal probabilities
        if abs(excess) < 1e-9:
            spread = 1 / exact_math.log(self._vocab_size)
        else:
            spread = excess / (1 - exact_math.power(self._vocab_size, -excess))
        bits = (self.mu + exact_math.log2(spread)) / exponent
        return max(int(exact_math.power(2.0, min(bits, 30.0))), 1)

    def _cut_surprising(self, candidates: Candidates) -> None:
        total = exact_math.total(candidates.weights())
        floor = candidates.best + exact_math.log(total) - self.mu * _LOG_2
        likely = np.flatnonzero(candidates.logits >= np.float32(floor))
        candidates.keep(likely if likely.size else top(candidates.logits, 1))


class AdaptiveP:
    """llama.cpp's adaptive-p: prefers tokens whose probability is near a target.

    The target is adjusted by the running mean of the probabilities drawn, so that this mean approaches `target`.
    """

    def __init__(self, target: float, decay: float) -> None:
        self._target = min(target, 1.0)
        self._decay = min(decay, 0.99)
        self._total = 1 / (1 - self._decay)
        self._sum = target * self._total

    def state(self, drawn: int | None) -> AdaptiveState:
        total = self._total if drawn is None else self._next_total
        return AdaptiveState(self._target, self._decay, self._sum, total, drawn)

    def follow(self, feedback: float) -> None:
        self._sum, self._total = feedback, self._next_total

    @property
    def _next_total(self) -> float:
        return 1 + self._decay * self._total

    def choose(self, candidates: Candidates, point: float) -> int:
        weights = candidates.weights()
        share = weights / np.float32(exact_math.total(weights))
        aim = min(max(2 * self._target - self._sum / self._total, 0.0), 1.0)
        distance = np.abs(share - np.float32(aim)) / np.float32(0.3)
        wanted = np.float32(5.0) - 10 * distance * distance / (1 + distance)
        candidates.replace(np.where(weights > 0, wanted, np.float32(-np.inf)))
        index = draw(candidates.weights(), point)
        self.follow(float(share[index]) + self._decay * self._sum)
        return index
