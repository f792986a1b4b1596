"""Log-probabilities: log-softmax of raw logits, for tokens already known and for those just drawn.

Scores of a prompt are kept as plain arrays beside its cached prefix: the score of a token depends only on the
tokens before it, so a header that many prompts share is scored once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam import Logits
from segue.types import Alternative, TokenScore

LOWEST = -9999.0  # stands for minus infinity, which JSON cannot say
_BLOCK = 64


@dataclass(frozen=True)
class Scores:
    """Scores of consecutive tokens, one entry each; `ids` and `values` hold k alternatives a token."""

    logprobs: NDArray[np.float32]
    ranks: NDArray[np.int32]
    ids: NDArray[np.int32]
    values: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.logprobs)

    @property
    def num_top(self) -> int:
        return int(self.ids.shape[1])

    def first(self, length: int) -> "Scores":
        return Scores(
            self.logprobs[:length], self.ranks[:length], self.ids[:length], self.values[:length]
        )

    def narrowed(self, num_top: int) -> "Scores":
        return Scores(self.logprobs, self.ranks, self.ids[:, :num_top], self.values[:, :num_top])

    def joined(self, more: "Scores") -> "Scores":
        if not len(self):
            return more
        pairs = zip(self._columns(), more._columns(), strict=True)
        return Scores(*(np.concatenate(pair) for pair in pairs))

    def _columns(self) -> tuple[NDArray[np.generic], ...]:
        return self.logprobs, self.ranks, self.ids, self.values

    def tokens(
        self, tokens: Sequence[int], piece: Callable[[int], bytes]
    ) -> tuple[TokenScore, ...]:
        """As events carry them: one for each of `tokens`, which these scores belong to."""
        rows = zip(
            tokens,
            self.logprobs.tolist(),
            self.ranks.tolist(),
            self.ids.tolist(),
            self.values.tolist(),
            strict=True,
        )
        return tuple(
            TokenScore(
                token,
                piece(token),
                logprob,
                rank,
                tuple(Alternative(i, piece(i), v) for i, v in zip(ids, values, strict=True)),
            )
            for token, logprob, rank, ids, values in rows
        )


def empty(num_top: int) -> Scores:
    return Scores(
        np.empty(0, np.float32),
        np.empty(0, np.int32),
        np.empty((0, num_top), np.int32),
        np.empty((0, num_top), np.float32),
    )


def score(logits: Logits, targets: Sequence[int], num_top: int) -> Scores:
    """Row i of `logits` is the distribution over what `targets[i]` is."""
    num_rows = len(targets)
    num_top = min(num_top, logits.shape[1])
    logprobs = np.empty(num_rows, np.float32)
    ranks = np.empty(num_rows, np.int32)
    ids = np.empty((num_rows, num_top), np.int32)
    values = np.empty((num_rows, num_top), np.float32)
    # Row by row: a row stays in the processor's cache, and sums cannot depend on batch-mates.
    for i, target in enumerate(targets):
        row = logits[i]
        norm = _log_sum_exp(row)
        chosen = row[target]
        logprobs[i] = chosen - norm
        ranks[i] = 1 + np.count_nonzero(row > chosen)
        if num_top:
            ids[i] = _top(row, num_top)
            values[i] = row[ids[i]] - norm
    np.maximum(logprobs, LOWEST, out=logprobs)
    np.maximum(values, LOWEST, out=values)
    return Scores(logprobs, ranks, ids, values)


def chances(row: NDArray[np.float32], tokens: Sequence[int]) -> list[float]:
    """The log-probability of each of `tokens` to be the next one."""
    values = row[list(tokens)] - _log_sum_exp(row)
    return [max(float(value), LOWEST) for value in values]


def _log_sum_exp(row: NDArray[np.float32]) -> np.float32:
    best = row.max()
    return np.float32(best + np.log(np.exp(row - best).sum(dtype=np.float64)))


def _top(row: NDArray[np.float32], num_top: int) -> NDArray[np.intp]:
    """The `num_top` likeliest ids, likeliest first, lower ids first among equals.

    The best k tokens lie in the k blocks with the highest maxima, so only those are sorted.
    """
    num_blocks = row.size // _BLOCK
    if num_top >= num_blocks:
        candidates: NDArray[np.intp] = np.arange(row.size)
    else:
        body = row[: num_blocks * _BLOCK].reshape(num_blocks, _BLOCK)
        peaks = body.max(axis=1)
        floor = np.partition(peaks, num_blocks - num_top)[num_blocks - num_top]
        blocks = np.flatnonzero(peaks >= floor)
        inside = (blocks[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        candidates = np.concatenate([inside, np.arange(num_blocks * _BLOCK, row.size)])
        candidates = candidates[row[candidates] >= floor]
    order = np.lexsort((candidates, -row[candidates]))
    return candidates[order[:num_top]]
