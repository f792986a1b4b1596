"""Log-probabilities: log-softmax of raw logits, for tokens already known and for those just drawn.

Scores of a prompt are kept as plain arrays beside its cached prefix: the score of a token depends only on the
tokens before it, so a header that many prompts share is scored once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from segue.engine.candidates import Distribution, top
from segue.engine.seam import Logits
from segue.types import Alternative, TokenScore

LOWEST = -9999.0  # stands for minus infinity, which JSON cannot say


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


def _log_sum_exp(row: NDArray[np.float32]) -> np.float32:
    best = row.max()
    return np.float32(best + np.log(np.exp(row - best).sum(dtype=np.float64)))


def _top(row: NDArray[np.float32], num_top: int) -> NDArray[np.intp]:
    """Exactly that many, likeliest first: impossible tokens fill up where there are too few others."""
    found = top(row, num_top)
    return np.append(found, np.flatnonzero(row == -np.inf)[: num_top - found.size])


def score_drawn(drawn_from: Distribution, token: int, num_top: int) -> Scores:
    """The score of a token in the distribution it was drawn from."""
    ids, weights = drawn_from
    index = token if ids is None else int(np.flatnonzero(ids == token)[0])
    best = top(weights, max(min(num_top, weights.size), 1))[:num_top]
    logprobs = np.log(np.append(weights[best], weights[index])) - np.log(weights.sum())
    return Scores(
        logprobs[-1:],
        np.array([1 + np.count_nonzero(weights > weights[index])], np.int32),
        (best if ids is None else ids[best]).astype(np.int32)[None],
        logprobs[None, :-1],
    )
