"""A slot of one layer whose heads have matrices, and the steps that it takes part in."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.recurrent.scratch import matrices_scratch, record_of

Floats = NDArray[np.float32]
Words = NDArray[np.int64]
ROWS = 21


class Layer(Protocol):
    """Random rows, and the numbers of a layer."""

    heads: int
    size: int
    rows: Floats  # [ROWS] and what each has

    @property
    def mixer(self) -> str: ...

    @property
    def change_parts(self) -> int:
        """Of a head's size, of what a row changes."""
        ...

    def words(self) -> list[int]:
        """Of an instruction, after those of all such layers."""
        ...


class Slot:
    def __init__(self, layer: Layer, phase: Callable[..., int]):
        size = layer.size
        self._head_floats = size * (size + layer.change_parts * on.MOST_PENDING)
        self.state: Floats = np.full((layer.heads, self._head_floats), np.nan, np.float32)
        self.pending, self.length = on.FRESH, 0
        self._layer, self._phase = layer, phase

    def read(self, end: int, left: int = 1) -> Floats:
        """What the next rows give, up to `end`. `left`: so many stay pending, or all."""
        start, layer, columns = self.length, self._layer, self._layer.heads * self._layer.size
        out: Floats = np.full((ROWS, columns), np.nan, np.float32)
        self.codes = zeros((ROWS, columns), np.int8)
        self.scales = zeros((ROWS, columns // 32, 4), np.float32)
        scratch, counter = zeros(matrices_scratch(layer.size), np.int8), zeros(8, np.int64)
        span: Words = zeros(on.SPAN_WORDS, np.int64)
        left = min(left, end)
        span[:] = [start, end - start, address(self.state) - 64, self.pending, left]
        board: Words = zeros(on.NUM_WORDS, np.int64)
        board[on.THREADS], board[on.SCRATCH] = 1, address(scratch)
        board[on.HEADS_FLOATS : on.HEADS_FLOATS + 3] = [
            *map(address, (out, self.codes, self.scales))
        ]
        board[on.SPANS], board[on.NUM_SPANS] = address(span), 1
        record = record_of(layer.mixer, layer.size)
        words = [layer.heads, layer.size, 64, 4 * self._head_floats]
        words += [4 * record.floats, 4 * record.start, layer.change_parts * layer.size]
        words += layer.words()
        row: Words = zeros(on.INSTRUCTION_WORDS, np.int64)
        row[1 : 1 + len(words)] = words
        self._phase(address(board), address(row), address(counter), 0)
        self.pending, self.length = left, end
        return out[start:end]

    def trim(self, count: int) -> None:
        self.pending, self.length = self.pending - count, self.length - count


def check_rounded(slot: Slot, found: Floats) -> None:
    """What products take are these numbers, rounded."""
    rounded = slot.codes.reshape(ROWS, -1, 32) * slot.scales[:, :, :1]
    assert np.abs(rounded.reshape(found.shape) - found).max() <= slot.scales[..., 0].max() * 0.51
