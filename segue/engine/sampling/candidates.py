"""The tokens that may still be drawn, and selection among them without sorting the vocabulary.

A row of the vocabulary's width is viewed as a matrix: its columns are reduced with vector instructions, and only the
few columns that matter are read element by element.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segue import exact_math
from segue.engine.seam import Logits
from segue.errors import EngineFault, InvalidField

Index = NDArray[np.intp]
Weights = NDArray[np.float32]

_HEIGHT = 64  # rows of that matrix
_SIZES = (256, 1024, 4096, 32768)  # sort this many, then more if needed, and finally all


class Distribution(NamedTuple):
    """What a token was drawn from. `ids` is None for the whole vocabulary; weights are not normalised."""

    ids: Index | None
    weights: Weights


def check_given(row: Logits) -> None:
    """Raise if a row, as the model gave it, leaves no token: bans are written to it next, and would be blamed."""
    if row[0] == -np.inf and row.max() == -np.inf:  # hardly ever read further than the first
        raise EngineFault("the model ruled out every token: all of its logits are minus infinity")


class Candidates:
    """Token ids with their logits. Starts as the whole row, which it writes to."""

    __slots__ = ("_best", "_row", "_weights", "ids", "logits")

    def __init__(self, row: Logits, ids: Index | None = None) -> None:
        self._row = row
        self._best: float | None = None
        self._weights: Weights | None = None
        self.ids = ids  # None: every token, in order
        self.logits: Logits = row if ids is None else row[ids]

    def check(self) -> None:
        """Raise unless there is a token to draw, and all logits are numbers."""
        if not abs(self.best) < np.inf:
            raise EngineFault("the model produced logits that are not numbers")

    @property
    def best(self) -> float:
        """The highest logit. Raises if no token is left."""
        if self._best is None:
            self._best = float(self.logits.max(initial=-np.inf))
            if self._best == -np.inf:
                raise InvalidField(
                    "every token is forbidden here: logit_bias, allowed_token_ids, bad_words and "
                    "the constraint together leave none to draw"
                )
        return self._best

    def may_be(self, token: int) -> bool:
        """Whether the token was not banned from the start."""
        return bool(self._row[token] > -np.inf)

    def token(self, index: int) -> int:
        return index if self.ids is None else int(self.ids[index])

    def keep(self, index: Index) -> None:
        self.ids = index if self.ids is None else self.ids[index]
        self.logits = self.logits[index]
        if self._weights is not None and self.logits.max(initial=-np.inf) == self._best:
            self._weights = self._weights[index]  # the same numbers: they are relative to the best
        else:
            self._forget()

    def become(self, token: int) -> None:
        """Keep only that token, even if it was not a candidate."""
        self.ids = np.array([token], np.intp)
        self.logits = np.zeros(1, np.float32)
        self._forget()

    def scale(self, temperature: float) -> None:
        divisor = np.float32(temperature)
        best = float(np.float32(self.best) / divisor)  # rounding keeps the order
        self.logits /= divisor
        self._best, self._weights = best, None
        self.check()

    def replace(self, logits: Logits) -> None:
        self.logits = logits
        self._forget()

    def adjust(self, change: Callable[[Logits], None]) -> None:
        """Let `change` write to logits indexed by token id; narrowed candidates are scattered into a full row first."""
        if self.ids is None:
            change(self.logits)
        else:
            self._row[self.ids] = self.logits
            change(self._row)
            self.logits = self._row[self.ids]
        self._forget()

    def weights(self) -> Weights:
        """Probabilities up to a factor: the likeliest has weight 1, a banned token 0."""
        if self._weights is None:
            self._weights = exact_math.weights(self.logits, self.best)
        return self._weights

    def _forget(self) -> None:
        self._best = self._weights = None


def top(values: NDArray[np.float32], count: int) -> Index:
    """Indices of the `count` highest values, highest first; among equals the lower index first. −inf is left out."""
    if count == 1:
        best = int(values.argmax())
        return np.array([best] if values[best] > -np.inf else [], np.intp)
    found = _at_least(values, _floor(values, count))
    order = np.argsort(-values[found], kind="stable")
    return np.asarray(found[order[:count]])


def _floor(values: NDArray[np.float32], count: int) -> np.float32:
    """A value that `count` or a few more items reach: the count-th highest of the columns' maxima, if possible."""
    width = values.size // _HEIGHT
    if count >= values.size:
        return np.float32(-np.inf)
    pool = _peaks(values, width) if count <= width // 2 else values
    return np.float32(np.partition(pool, pool.size - count)[pool.size - count])


def _peaks(values: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    return np.asarray(values[: width * _HEIGHT].reshape(_HEIGHT, width).max(axis=0))


def _at_least(values: NDArray[np.float32], floor: np.float32) -> Index:
    return np.flatnonzero(values >= floor if floor > -np.inf else values > -np.inf)


def leading(scores: NDArray[np.float32], weights: Weights, weight: float, at_least: int) -> Index:
    """Indices of the fewest items with the highest scores that together weigh `weight`, but at least `at_least`."""
    for size in (*(size for size in _SIZES if size >= at_least), scores.size):
        found = top(scores, size)
        mass = exact_math.running_sums(weights[found])
        if mass[-1] >= weight or size >= scores.size:
            break
    count = int(np.searchsorted(mass, weight)) + 1
    return found[: max(count, at_least)]


def draw(weights: Weights, point: float) -> int:
    """The index drawn by `point`, a number in [0, 1); never an index of weight 0."""
    if weights.size <= exact_math.FEW:
        sums = exact_math.running_sums(weights)
        return _fall(weights, sums, point * float(sums[-1]))
    columns = exact_math.folded(weights)
    sums = exact_math.running_sums(columns)
    offset = point * float(sums[-1])
    column = _fall(columns, sums, offset)
    offset -= float(sums[column - 1] if column else 0.0)
    own = weights[column :: columns.size]
    return column + columns.size * _fall(own, exact_math.running_sums(own), offset)


def _fall(weights: Weights, sums: NDArray[np.float64], offset: float) -> int:
    """The index of the weight at `offset`, when the weights lie end to end."""
    index = int(np.searchsorted(sums, offset, side="right"))
    if index == weights.size:  # only by rounding
        index = int(np.flatnonzero(weights)[-1])
    return index
