"""Which slots hold which cells of a KV cache in which forked sequences share cells. Moves no data."""

from collections.abc import Iterable

import numpy as np


class CellLedger:
    def __init__(self, num_slots: int, num_cells: int, context_length: int):
        self._holders = np.zeros(num_cells, np.int16)  # by cell: how many slots hold it
        self._unused = np.arange(num_cells, dtype=np.int32)  # a stack; its top is at cells_free
        self._cells = np.zeros((num_slots, context_length), np.int32)  # by slot and position
        self._lengths = [0] * num_slots
        self.cells_free = num_cells

    def cells_held(self, slots: Iterable[int]) -> int:
        held = np.zeros(len(self._holders), bool)
        for slot in slots:
            held[self._cells[slot, : self._lengths[slot]]] = True
        return int(np.count_nonzero(held))

    def length(self, slot: int) -> int:
        return self._lengths[slot]

    def append(self, slot: int, count: int) -> None:
        start, self.cells_free = self._lengths[slot], self.cells_free - count
        taken = self._unused[self.cells_free : self.cells_free + count]
        self._cells[slot, start : start + count] = taken
        self._holders[taken] = 1
        self._lengths[slot] += count

    def fork(self, src: int, dst: int, length: int) -> None:
        shared = self._cells[src, :length]
        self._cells[dst, :length] = shared
        self._holders[shared] += 1
        self._lengths[dst] = length

    def trim(self, slot: int, length: int) -> None:
        dropped = self._cells[slot, length : self._lengths[slot]]
        self._holders[dropped] -= 1
        released = dropped[self._holders[dropped] == 0]
        self._unused[self.cells_free : self.cells_free + len(released)] = released
        self.cells_free += len(released)
        self._lengths[slot] = length
