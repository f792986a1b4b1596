"""Mamba 2's phases alone: what they compute, and that no bit depends on how spans are cut."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.words import float_word
from segue.runners.cpu.step.recurrent.mamba import mamba_gate_phase, scan_phase
from tests.runners.cpu.translation.built import built

Floats = NDArray[np.float32]
Words = NDArray[np.int64]
HEADS, SIZE, STATES, GROUPS = 4, 32, 16, 2
COLUMNS = HEADS * SIZE
MIXED = COLUMNS + 2 * GROUPS * STATES
CHANGE_FLOATS = SIZE + STATES + 16
HEAD_FLOATS = STATES * SIZE + on.MOST_PENDING * CHANGE_FLOATS
ROWS = 70  # more than are computed together


@dataclass
class Layer:
    """Random rows, and the numbers of a layer."""

    seed: int = 3

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.mixed = self._floats(ROWS, MIXED)
        self.times = self._floats(ROWS, HEADS)
        self.bias, self.d = self._floats(HEADS), self._floats(HEADS)
        self.a = -np.abs(self._floats(HEADS))
        self.gate, self.weights = self._floats(ROWS, COLUMNS), self._floats(COLUMNS)

    def _floats(self, *shape: int) -> Floats:
        return self.random.standard_normal(shape).astype(np.float32)

    def scanned(self) -> NDArray[np.float64]:
        """What the recurrence gives, in doubles."""
        out, states = np.empty((ROWS, HEADS, SIZE)), np.zeros((HEADS, STATES, SIZE))
        for m in range(ROWS):
            x, b, c = np.split(self.mixed[m].astype(np.float64), [COLUMNS, MIXED - GROUPS * STATES])
            x, b, c = x.reshape(HEADS, SIZE), b.reshape(GROUPS, STATES), c.reshape(GROUPS, STATES)
            time = np.log1p(np.exp(self.times[m].astype(np.float64) + self.bias))
            for head in range(HEADS):
                group = head // (HEADS // GROUPS)
                states[head] *= np.exp(time[head] * self.a[head])
                states[head] += np.outer(b[group], x[head] * time[head])
                out[m, head] = c[group] @ states[head] + self.d[head] * x[head]
        return out.reshape(ROWS, COLUMNS)


@pytest.fixture(scope="module")
def scan() -> Callable[..., int]:
    return built(scan_phase, 4)


class Slot:
    """The state of a slot, and steps that it takes part in."""

    def __init__(self, layer: Layer, scan: Callable[..., int]):
        self.state: Floats = np.full((HEADS, HEAD_FLOATS), np.nan, np.float32)
        self.pending, self.length = on.FRESH, 0
        self._layer, self._scan = layer, scan

    def read(self, end: int, left: int = 1) -> Floats:
        """What the next rows give, up to `end`. `left`: so many stay pending, or all."""
        start, layer = self.length, self._layer
        out: Floats = np.full((ROWS, COLUMNS), np.nan, np.float32)
        scratch, counter = zeros(4 * ROWS, np.float32), zeros(on.COUNTER_WORDS, np.int64)
        left = min(left, end)
        span: Words = zeros(on.SPAN_WORDS, np.int64)
        span[:] = [start, end - start, address(self.state) - 64, self.pending, left]
        board: Words = zeros(on.NUM_WORDS, np.int64)
        board[on.THREADS], board[on.SCRATCH] = 1, address(scratch)
        board[on.HEADS_FLOATS] = address(out)
        board[on.SPANS], board[on.NUM_SPANS] = address(span), 1
        row: Words = zeros(on.INSTRUCTION_WORDS, np.int64)
        row[1:17] = [
            address(layer.mixed), 4 * MIXED, address(layer.times), 4 * HEADS,
            HEADS, SIZE, STATES, GROUPS, 64, 4 * HEAD_FLOATS, 4 * CHANGE_FLOATS,
            *map(address, (layer.bias, layer.a, layer.d)),
            address(layer.mixed) + 4 * COLUMNS, 4 * MIXED,
        ]  # fmt: skip
        self._scan(address(board), address(row), address(counter), 0)
        self.pending, self.length = left, end
        return out[start:end]

    def trim(self, count: int = 1) -> None:
        self.pending, self.length = self.pending - count, self.length - count


def test_states_fade_and_are_read(scan: Callable[..., int]) -> None:
    layer = Layer()
    np.testing.assert_allclose(Slot(layer, scan).read(ROWS), layer.scanned(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cuts", [[1], [33], [1, 2, 40, 69], [*range(1, ROWS)]])
@pytest.mark.parametrize("left", [1, 2, 5, on.MOST_PENDING])
def test_bits_do_not_depend_on_how_a_text_is_cut(
    scan: Callable[..., int], cuts: list[int], left: int
) -> None:
    layer = Layer()
    slot = Slot(layer, scan)
    rows = np.concatenate([slot.read(end, left) for end in (*cuts, ROWS)])
    np.testing.assert_array_equal(rows, Slot(layer, scan).read(ROWS))


@pytest.mark.parametrize("read", [1, 2, 33, 64])
@pytest.mark.parametrize(("left", "count"), [(1, 1), (4, 1), (8, 1), (8, 8)])
def test_the_last_rows_can_be_taken_back(
    scan: Callable[..., int], read: int, left: int, count: int
) -> None:
    layer, other = Layer(), Layer(seed=4)
    truth = Slot(layer, scan).read(ROWS)
    mixed, kept = layer.mixed.copy(), max(read - count, 0)
    layer.mixed[kept:read] = other.mixed[kept:read]
    slot = Slot(layer, scan)
    slot.read(read, left)
    slot.trim(read - kept)
    layer.mixed[:] = mixed
    np.testing.assert_array_equal(slot.read(ROWS), truth[kept:])


@pytest.mark.parametrize("is_normed", [False, True])
def test_outputs_are_gated_and_normed_group_by_group(is_normed: bool) -> None:
    layer, phase = Layer(), built(mamba_gate_phase, 3)
    x = layer._floats(ROWS, COLUMNS)
    gate = layer.gate.astype(np.float64)
    truth = x * gate / (1 + np.exp(-gate))
    if is_normed:
        grouped = truth.reshape(ROWS, GROUPS, -1)
        grouped = grouped / np.sqrt(np.square(grouped).mean(-1, keepdims=True) + 1e-5)
        truth = grouped.reshape(ROWS, COLUMNS) * layer.weights
    codes, scales = zeros(x.shape, np.int8), zeros((ROWS, COLUMNS // 32, 4), np.float32)
    board: Words = zeros(on.NUM_WORDS, np.int64)
    board[on.THREADS], board[on.ROWS] = 1, ROWS
    board[on.HEADS_FLOATS : on.HEADS_FLOATS + 3] = [*map(address, (x, codes, scales))]
    row: Words = zeros(on.INSTRUCTION_WORDS, np.int64)
    weights = address(layer.weights) if is_normed else 0
    row[1:7] = [address(layer.gate), 4 * COLUMNS, COLUMNS, GROUPS, weights, float_word(1e-5)]
    counter = zeros(on.COUNTER_WORDS, np.int64)
    phase(address(board), address(row), address(counter))
    np.testing.assert_allclose(x, truth, rtol=1e-5, atol=1e-6)
    rounded = codes.reshape(ROWS, -1, 32) * scales[:, :, :1]
    assert np.abs(rounded.reshape(x.shape) - x).max() <= scales[..., 0].max() * 0.51
