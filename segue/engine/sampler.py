"""From a row of logits to the next token: bias and penalties, temperature, cuts, draw.

The vocabulary is never sorted: tokens that cannot win are dropped by a threshold first.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from segue.engine.randomness import uniform
from segue.engine.seam import Logits
from segue.types import Sampling

# Tokens this far (in units of temperature) below the best have together less than 1e-8 of the mass.
_NEGLIGIBLE = 32.0


class Sampler:
    """Draws the tokens of one candidate. `push` every token it sees, prompt first."""

    def __init__(self, sampling: Sampling, seed: int, candidate: int, vocab_size: int) -> None:
        self._sampling = sampling
        self._seed = seed
        self._candidate = candidate
        bias = {t: b for t, b in sampling.logit_bias.items() if t < vocab_size}
        self._bias_ids = np.fromiter(bias.keys(), np.intp, len(bias))
        self._bias = np.fromiter(bias.values(), np.float32, len(bias))
        self._penalizes = (
            sampling.repetition_penalty != 1.0
            or sampling.presence_penalty != 0.0
            or sampling.frequency_penalty != 0.0
        )
        self._history: list[int] = []
        self._num_prompt = 0

    def start(self, prompt: Iterable[int]) -> None:
        if self._penalizes:
            self._history.extend(prompt)
            self._num_prompt = len(self._history)

    def push(self, token: int) -> None:
        if self._penalizes:
            self._history.append(token)

    def sample(self, logits: Logits, position: int) -> int:
        """The next token. `logits` is written to: read what you need of it before."""
        if self._bias_ids.size:
            logits[self._bias_ids] += self._bias
        if self._penalizes:
            self._penalize(logits)
        if self._sampling.temperature <= 0:
            return int(logits.argmax())
        ids, weights = self._candidates(logits)
        return self._draw(ids, weights, position)

    def _penalize(self, logits: Logits) -> None:
        s = self._sampling
        window = len(self._history) if s.penalty_window < 0 else s.penalty_window
        start = len(self._history) - window
        if s.repetition_penalty != 1.0:
            seen = np.array(sorted(set(self._history[max(start, 0) :])), np.intp)
            row = logits[seen]
            logits[seen] = np.where(row > 0, row / s.repetition_penalty, row * s.repetition_penalty)
        if s.presence_penalty or s.frequency_penalty:
            first = max(start, 0 if s.penalize_prompt else self._num_prompt)
            counts = Counter(self._history[first:])
            ids = np.fromiter(counts.keys(), np.intp, len(counts))
            times = np.fromiter(counts.values(), np.float32, len(counts))
            logits[ids] -= times * s.frequency_penalty + np.float32(s.presence_penalty)

    def _candidates(self, logits: Logits) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Token ids, likeliest first where a cut needed it, with unnormalised weights."""
        s = self._sampling
        best = logits.max()
        ids = np.flatnonzero(logits > best - _NEGLIGIBLE * s.temperature)
        if 0 < s.top_k < ids.size:
            ids = ids[np.argpartition(-logits[ids], s.top_k - 1)[: s.top_k]]
        weights = np.exp((logits[ids].astype(np.float64) - best) / s.temperature)
        if s.top_p < 1.0:
            order = np.lexsort((ids, -weights))
            ids, weights = ids[order], weights[order]
            mass = np.cumsum(weights)
            keep = int(np.searchsorted(mass, s.top_p * mass[-1])) + 1
            ids, weights = ids[:keep], weights[:keep]
        if s.min_p > 0.0:
            likely = weights >= s.min_p  # the best has weight 1
            ids, weights = ids[likely], weights[likely]
        return ids, weights

    def _draw(self, ids: NDArray[np.intp], weights: NDArray[np.float64], position: int) -> int:
        mass = np.cumsum(weights)
        point = uniform(self._seed, self._candidate, position) * mass[-1]
        index = int(np.searchsorted(mass, point, side="right"))
        return int(ids[min(index, ids.size - 1)])
