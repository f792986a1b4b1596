"""What a model made of the last tokens of each slot, before its head (hidden states): its MTP layer goes on from it.

A slot keeps a few such rows, by position, so that it can lose its last tokens. Where it loses more, or a fork takes
fewer than all, the row before the next one may be another's: then a draft is worse than it could be, no answer is.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.memory import address, zeros

KEPT = 8  # rows of a slot: of a token, and of most drafts


class HiddenStates:
    """Pages that were never written take no memory."""

    def __init__(self, num_slots: int, width: int):
        self._rows: NDArray[np.float32] = zeros((num_slots, KEPT, width), np.float32)
        self._first, self._row_bytes = address(self._rows), 4 * width

    def before(self, slot: int, past: int, count: int, first: int) -> Iterator[int]:
        """Where `count` rows after `past` tokens find what was made of the token before each: the first one here, or
        nowhere (0), the others in the step's own rows, of which theirs is at `first`.
        """
        yield self._place(slot, past - 1) if past else 0
        yield from range(first, first + (count - 1) * self._row_bytes, self._row_bytes)

    def after(self, slot: int, past: int, count: int) -> Iterator[int]:
        """Where what is made of these rows is kept; 0: of this one it is not."""
        passed = max(0, count - KEPT)
        yield from [0] * passed
        yield from (self._place(slot, past + i) for i in range(passed, count))

    def rows(self, slot: int) -> NDArray[np.float32]:
        """A slot's rows, in place."""
        rows: NDArray[np.float32] = self._rows[slot]
        return rows

    def fork(self, src: int, dst: int) -> None:
        self._rows[dst] = self._rows[src]

    def _place(self, slot: int, position: int) -> int:
        return self._first + (slot * KEPT + position % KEPT) * self._row_bytes
