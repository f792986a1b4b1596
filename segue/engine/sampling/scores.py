"""Log-probabilities: log-softmax of raw logits, for tokens already known and for those just drawn.

Scores of a prompt are kept as plain arrays with its cached prefix: the score of a token depends only on the tokens
before it, so a prefix that many prompts share is scored once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from segue import exact_math
from segue.engine.sampling.candidates import Distribution, Index, Weights, top
from segue.engine.seam import Logits
from segue.types import LOWEST_LOGPROB, Alternative, PromptScores, TokenScore

Row = NDArray[np.float32]


@dataclass(frozen=True)
class Scores:
    """Scores of consecutive tokens, one entry each; `ids` and `values` hold k alternatives per token."""

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
        """The scores as used in events: one TokenScore for each of `tokens`."""
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

    def of_prompt(self, tokens: Sequence[int], piece: Callable[[int], bytes]) -> PromptScores:
        """The scores of a prompt's tokens, which are those after its first."""
        places, known = _places(np.concatenate([np.array(tokens, np.int32), self.ids.ravel()]))
        return PromptScores(
            tuple([(token, piece(token)) for token in known]),
            places[: len(tokens)].tobytes(),
            np.append(np.float32(np.nan), self.logprobs).astype(np.float32).tobytes(),
            np.append(np.int32(0), self.ranks).astype(np.int32).tobytes(),
            places[len(tokens) :].tobytes(),
            np.ascontiguousarray(self.values, np.float32).tobytes(),
        )


def _places(tokens: NDArray[np.int32]) -> tuple[NDArray[np.int32], list[int]]:
    """Every token's place among those that occur, and these. Without sorting: there may be a million."""
    place = np.zeros(int(tokens.max()) + 1, np.int32)
    place[tokens] = 1
    known = np.flatnonzero(place)
    place[known] = np.arange(known.size, dtype=np.int32)
    return place[tokens], known.tolist()


def empty(num_top: int) -> Scores:
    return Scores(
        np.empty(0, np.float32),
        np.empty(0, np.int32),
        np.empty((0, num_top), np.int32),
        np.empty((0, num_top), np.float32),
    )


def score(
    logits: Logits, targets: Sequence[int], num_top: int, asked: Sequence[int] = ()
) -> Scores:
    """Scores of `targets`: target i under row i of `logits`. Rows with NaN give NaN.

    `asked`: the alternatives are these tokens, not the `num_top` likeliest.
    """
    num_rows, width = len(targets), logits.shape[1]
    num_top = len(asked) or min(num_top, width)
    scores = Scores(
        np.empty(num_rows, np.float32),
        np.empty(num_rows, np.int32),
        np.empty((num_rows, num_top), np.int32),
        np.empty((num_rows, num_top), np.float32),
    )
    is_higher = np.empty(width, np.bool_)
    # Row by row: a row stays in the processor's cache, and sums do not depend on the batch.
    for i, target in enumerate(targets):
        row = logits[i]
        highest = row.max()
        if not np.isfinite(highest):
            scores.logprobs[i] = scores.values[i] = np.nan
            scores.ranks[i] = scores.ids[i] = 0
            continue
        norm = np.float32(exact_math.log_sum_exp(row, float(highest)))
        best = _likeliest_first(row, asked) if asked else _top(row, num_top)
        chosen, tops = row[target], row[best]
        scores.logprobs[i] = chosen - norm
        scores.ranks[i] = _rank(row, chosen, tops[:0] if asked else tops, is_higher)
        scores.ids[i] = best
        np.subtract(tops, norm, out=scores.values[i])
    np.maximum(scores.logprobs, LOWEST_LOGPROB, out=scores.logprobs)
    np.maximum(scores.values, LOWEST_LOGPROB, out=scores.values)
    for values in (scores.logprobs, scores.values):
        # −0 becomes 0: a maximum of −0 and 0 may be either, so results would differ between machines.
        np.add(values, _ZERO, out=values)
    return scores


_NONE = np.empty(0, np.intp)
_ZERO = np.float32(0.0)


def _rank(row: Row, chosen: np.float32, tops: Row, is_higher: NDArray[np.bool_]) -> int:
    """The rank of `chosen`; 1 is the likeliest."""
    if tops.size and chosen >= tops[-1]:
        return 1 + int(np.count_nonzero(tops > chosen))
    np.greater(row, chosen, out=is_higher)
    return 1 + int(np.count_nonzero(is_higher))


def _top(row: Row, num_top: int) -> NDArray[np.intp]:
    """Exactly `num_top` tokens, likeliest first; tokens of probability 0 if there are too few others."""
    found = top(row, num_top) if num_top else _NONE
    if found.size == num_top:
        return found
    return np.append(found, np.flatnonzero(row == -np.inf)[: num_top - found.size])


def _likeliest_first(row: Row, asked: Sequence[int]) -> NDArray[np.intp]:
    ids = np.array(asked, np.intp)
    return ids[np.argsort(-row[ids], kind="stable")]


def score_drawn(drawn_from: Distribution, token: int, num_top: int, asked: Sequence[int]) -> Scores:
    """The score of a token in the distribution it was drawn from. What could not be drawn is no alternative, unless
    it is one of those `asked` for."""
    ids, weights = drawn_from
    index = token if ids is None else int(np.flatnonzero(ids == token)[0])
    best = _of(ids, weights, asked) if asked else top(weights, max(min(num_top, weights.size), 1))
    best = best[weights[best] > 0][: len(asked) or num_top]
    norm = exact_math.log(exact_math.total(weights))
    logprobs = (exact_math.logs(weights[np.append(best, index)]) - norm).astype(np.float32)
    named = (best if ids is None else ids[best]).astype(np.int32)
    never = np.array([each for each in asked if each not in named], np.int32)
    lowest = np.full(never.size, LOWEST_LOGPROB, np.float32)
    return Scores(
        logprobs[-1:],
        np.array([1 + np.count_nonzero(weights > weights[index])], np.int32),
        np.append(named, never)[None],
        np.append(logprobs[:-1], lowest)[None],
    )


def _of(ids: Index | None, weights: Weights, asked: Sequence[int]) -> NDArray[np.intp]:
    """The places of those of the tokens that are there, likeliest first."""
    wanted = np.array(asked, np.intp)
    places = wanted if ids is None else np.flatnonzero(np.isin(ids, wanted))
    return places[np.argsort(-weights[places], kind="stable")]
