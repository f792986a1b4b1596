"""What a slot of the fake runner holds, and the same as bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam import Mix, SlotKind

_MOST_ADAPTERS = 4


@dataclass
class FakeSlot:
    tokens: list[int] = field(default_factory=list)
    states: list[int] = field(default_factory=list)  # a rolling hash after each token
    cells: list[int] = field(default_factory=list)  # ids of shared, counted cells; taken first
    adapters: Mix = ()
    returnable: int = 0  # how many of its last tokens it can give back


class FakeSlotBytes:
    """Implements seam.SlotBytes: tokens, states, and what else there is to know, as numbers."""

    kind = SlotKind("fake model", "fake kernels", "fake layout")

    def __init__(
        self, slots: dict[int, FakeSlot], add_cells: Callable[[FakeSlot, int], None]
    ) -> None:
        """`slots`: those of a runner. `add_cells` takes some for one of them."""
        self._slots = slots
        self._add_cells = add_cells
        self._incoming: dict[int, NDArray[np.float64]] = {}

    def num_bytes(self, length: int) -> int:
        return 8 * (2 * length + 1 + 2 * _MOST_ADAPTERS)

    def contents(self, slot: int, length: int) -> Sequence[memoryview]:
        held = self._slots[slot]
        numbers = np.zeros(self.num_bytes(length) // 8)
        numbers[:length], numbers[length : 2 * length] = held.tokens[:length], held.states[:length]
        numbers[2 * length] = max(0, held.returnable - len(held.tokens) + length)
        for number, (place, scale) in enumerate(held.adapters):
            at = 2 * length + 1 + 2 * number
            numbers[at : at + 2] = place + 1, scale
        return [part.view(np.uint8).data for part in np.array_split(numbers, 3)]

    def receive(self, slot: int, length: int) -> Sequence[memoryview]:
        held = self._slots.setdefault(slot, FakeSlot())
        if held.cells:
            raise ValueError(f"fake runner: slot {slot} is not empty")
        self._add_cells(held, length)
        held.tokens, held.states = [0] * length, [0] * length
        numbers = self._incoming[slot] = np.full(self.num_bytes(length) // 8, np.nan)
        return [numbers.view(np.uint8).data]

    def received(self, slot: int) -> None:
        numbers, held = self._incoming.pop(slot), self._slots[slot]
        length = len(held.cells)
        if not np.isfinite(numbers).all():
            raise ValueError("fake runner: bytes that are no slot's")
        whole = [int(number) for number in numbers[: 2 * length + 1]]
        held.tokens, held.states = whole[:length], whole[length : 2 * length]
        held.returnable = whole[2 * length]
        pairs = numbers[2 * length + 1 :].reshape(-1, 2)
        held.adapters = tuple((int(place) - 1, float(scale)) for place, scale in pairs if place)
