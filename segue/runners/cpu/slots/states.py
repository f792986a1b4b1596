"""The states of layers without attention: one for each slot, and how it stands.

A state is that before some of the slot's last tokens, with what each of them changes pending beside it. So a slot can
give back these tokens; a state is copied only to fork a slot.
"""

import numpy as np
from numpy.typing import NDArray
from rich.filesize import decimal

from segue.errors import Incompatible
from segue.runners.cpu.architectures.hparams import Hparams
from segue.runners.cpu.memory import address, available_bytes, let_go, pages
from segue.runners.cpu.step import board as on

MEMORY_SHARE = 4  # all slots together take at most a fourth of the available memory


class States:
    """The states of all slots. Pages that were never written take no memory."""

    def __init__(self, hparams: Hparams, num_slots: int):
        """`num_slots`: how many are wanted."""
        self.places, floats = _places(hparams)
        self.slot_bytes, room = 4 * floats, available_bytes() // MEMORY_SHARE
        self.num_slots = min(num_slots, room // self.slot_bytes)
        if not self.num_slots:
            raise Incompatible(
                f"a sequence's state takes {decimal(self.slot_bytes)}, and there are {decimal(room)} for states, "
                "a fourth of the available memory: free some, or choose a smaller model"
            )
        self._pages = pages(self.num_slots * self.slot_bytes, huge=True)
        whole: NDArray[np.float32] = np.frombuffer(self._pages, np.float32)
        self._states = whole.reshape(self.num_slots, floats)
        self._first = address(self._states)
        self._pending = [on.FRESH] * self.num_slots  # how many changes each has beside it

    def advance(self, slot: int, count: int, returnable: int) -> tuple[int, int, int]:
        """For a step that adds `count` tokens: the address of a slot's state, how many changes are pending, or
        on.FRESH, and how many are afterwards: `returnable` ones, but not of tokens that the state has taken.
        """
        pending = self._pending[slot]
        left = min(returnable, count + max(pending, 0))
        self._pending[slot] = left
        return self._first + slot * self.slot_bytes, pending, left

    def fork(self, src: int, dst: int) -> None:
        if self._pending[src] != on.FRESH:
            self._states[dst] = self._states[src]
        self._pending[dst] = self._pending[src]

    def row(self, slot: int) -> NDArray[np.float32]:
        """A slot's state with the changes beside it, in place."""
        row: NDArray[np.float32] = self._states[slot]
        return row

    def restore(self, slot: int, pending: int) -> None:
        """Its state was written, with so many changes beside it."""
        self._pending[slot] = pending

    def returnable(self, slot: int) -> int:
        """How many of its last tokens the slot can give back."""
        return max(self._pending[slot], 0)

    def give_back(self, slot: int, count: int) -> None:
        """Forget the last tokens."""
        self._pending[slot] -= count

    def let_go(self) -> None:
        """All slots are empty: their pages take no memory until they are written again."""
        let_go(self._pages)

    def clear(self, slot: int) -> None:
        self._pending[slot] = on.FRESH


def _places(hparams: Hparams) -> tuple[tuple[int, ...], int]:
    """Where each layer's part begins in a slot's state, in bytes; and the floats of all."""
    places, floats = [], 0
    for layer in hparams.by_layer:
        places.append(4 * floats)
        floats += 0 if layer.recurrence is None else layer.recurrence.floats
    return tuple(places), floats
