"""Mamba 1's phases alone: what they compute, and that no bit depends on how spans are cut."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.runners.cpu.architectures.tensors import rates
from segue.runners.cpu.emit import Builder, Value, load, store
from segue.runners.cpu.kernel import INT, VOID, compiled, define
from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.words import float_word
from segue.runners.cpu.step.recurrent.scratch import SELECTIVE_SIZE, scan_scratch
from segue.runners.cpu.step.recurrent.selective import narrow_phase, part_phase, select_phase
from segue.runners.cpu.step.vectors.functions import power_of_two
from tests.runners.cpu.translation.built import built

Floats = NDArray[np.float32]
Words = NDArray[np.int64]
COLUMNS, STATES, RANK = 2 * SELECTIVE_SIZE, 16, 48
HEADS = COLUMNS // SELECTIVE_SIZE
CHANGE_FLOATS = 2 * SELECTIVE_SIZE + STATES
HEAD_FLOATS = STATES * SELECTIVE_SIZE + on.MOST_PENDING * CHANGE_FLOATS
ROWS = 70  # more than are computed together
EPSILON = 1e-5


@dataclass
class Layer:
    """Random rows, and the numbers of a layer."""

    seed: int = 3

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.x = self._floats(ROWS, COLUMNS)
        self.made = self._floats(ROWS, 2 * STATES + 2 * COLUMNS)  # B, C, times, gates
        self.bias, self.d = self._floats(COLUMNS), self._floats(COLUMNS)
        self.a = -np.abs(self._floats(COLUMNS, STATES))
        self.rates = rates(self.a)

    def _floats(self, *shape: int) -> Floats:
        return self.random.standard_normal(shape).astype(np.float32)

    def scanned(self) -> NDArray[np.float64]:
        """What the recurrence gives, gated, in doubles."""
        out, states = np.empty((ROWS, COLUMNS)), np.zeros((COLUMNS, STATES))
        for m in range(ROWS):
            row, x = self.made[m].astype(np.float64), self.x[m].astype(np.float64)
            b, c, times, gate = np.split(row, [STATES, 2 * STATES, 2 * STATES + COLUMNS])
            time = np.log1p(np.exp(times + self.bias))
            states *= np.exp(time[:, None] * self.a)
            states += np.outer(x * time, b)
            out[m] = (states @ c + self.d * x) * gate / (1 + np.exp(-gate))
        return out


@pytest.fixture(scope="module")
def select() -> Callable[..., int]:
    return built(select_phase, 4)


class Slot:
    """The state of a slot, and steps that it takes part in."""

    def __init__(self, layer: Layer, select: Callable[..., int]):
        self.state: Floats = np.full((HEADS, HEAD_FLOATS), np.nan, np.float32)
        self.pending, self.length = on.FRESH, 0
        self._layer, self._select = layer, select

    def read(self, end: int, left: int = 1) -> Floats:
        """What the next rows give, up to `end`. `left`: so many stay pending, or all."""
        start, layer, left = self.length, self._layer, min(left, end)
        out = layer.x.copy()
        codes, scales = zeros(out.shape, np.int8), zeros((ROWS, COLUMNS // 32, 4), np.float32)
        scratch = zeros(scan_scratch(1) // 4, np.float32)
        counter = zeros(on.COUNTER_WORDS, np.int64)
        span: Words = zeros(on.SPAN_WORDS, np.int64)
        span[:] = [start, end - start, address(self.state) - 64, self.pending, left]
        board: Words = zeros(on.NUM_WORDS, np.int64)
        board[on.THREADS], board[on.SCRATCH] = 1, address(scratch)
        board[on.HEADS_FLOATS : on.HEADS_FLOATS + 3] = [*map(address, (out, codes, scales))]
        board[on.SPANS], board[on.NUM_SPANS] = address(span), 1
        row: Words = zeros(on.INSTRUCTION_WORDS, np.int64)
        made = address(layer.made)
        row[1:13] = [
            COLUMNS, STATES, made, made + 8 * STATES, made + 4 * (2 * STATES + COLUMNS),
            4 * layer.made.shape[1], 64, 4 * HEAD_FLOATS, 4 * CHANGE_FLOATS,
            *map(address, (layer.bias, layer.rates, layer.d)),
        ]  # fmt: skip
        self._select(address(board), address(row), address(counter), 0)
        self.pending, self.length = left, end
        rounded = (codes.reshape(ROWS, -1, 32) * scales[:, :, :1]).reshape(out.shape)[start:end]
        assert np.abs(rounded - out[start:end]).max() <= scales[start:end, :, 0].max() * 0.51
        return out[start:end]

    def trim(self, count: int = 1) -> None:
        self.pending, self.length = self.pending - count, self.length - count


def test_states_fade_are_read_and_gated(select: Callable[..., int]) -> None:
    layer = Layer()
    found = Slot(layer, select).read(ROWS)
    np.testing.assert_allclose(found, layer.scanned(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cuts", [[1], [33], [1, 2, 40, 69], [*range(1, ROWS)]])
@pytest.mark.parametrize("left", [1, 2, 5, on.MOST_PENDING])
def test_bits_do_not_depend_on_how_a_text_is_cut(
    select: Callable[..., int], cuts: list[int], left: int
) -> None:
    layer = Layer()
    slot = Slot(layer, select)
    rows = np.concatenate([slot.read(end, left) for end in (*cuts, ROWS)])
    np.testing.assert_array_equal(rows, Slot(layer, select).read(ROWS))


@pytest.mark.parametrize("read", [1, 2, 33, 64])
@pytest.mark.parametrize(("left", "count"), [(1, 1), (4, 1), (8, 1), (8, 8)])
def test_the_last_rows_can_be_taken_back(
    select: Callable[..., int], read: int, left: int, count: int
) -> None:
    layer, other = Layer(), Layer(seed=4)
    truth = Slot(layer, select).read(ROWS)
    right, kept = (layer.x.copy(), layer.made.copy()), max(read - count, 0)
    layer.x[kept:read], layer.made[kept:read] = other.x[kept:read], other.made[kept:read]
    slot = Slot(layer, select)
    slot.read(read, left)
    slot.trim(read - kept)
    layer.x[:], layer.made[:] = right
    np.testing.assert_array_equal(slot.read(ROWS), truth[kept:])


@pytest.mark.parametrize("extreme", [0.0, 1e30, -1e30])
def test_at_the_limits_of_numbers(select: Callable[..., int], extreme: float) -> None:
    """Times without end make a state nothing, not no number."""
    layer = Layer()
    layer.made[5, 2 * STATES : 2 * STATES + COLUMNS] = extreme
    layer.x[5] = 1e-3
    assert np.isfinite(Slot(layer, select).read(ROWS)).all()


@pytest.mark.parametrize("is_normed", [False, True])
def test_what_times_are_made_of_is_normed_and_rounded(is_normed: bool) -> None:
    layer, phase = Layer(), built(narrow_phase, 3)
    made = layer._floats(ROWS, RANK + 2 * STATES)
    given, sizes = made.copy(), (RANK, STATES, STATES)
    weights = [layer._floats(size) for size in sizes]
    parts = np.split(made.astype(np.float64), [RANK, RANK + STATES], axis=1)
    if is_normed:
        lengths = [np.sqrt(np.square(part).mean(-1, keepdims=True) + EPSILON) for part in parts]
        parts = [p / n * w for p, n, w in zip(parts, lengths, weights, strict=True)]
    out: Floats = zeros((ROWS, RANK), np.float32)
    codes, scales = zeros(ROWS * RANK, np.int8), zeros(ROWS * RANK // 8, np.float32)
    board: Words = zeros(on.NUM_WORDS, np.int64)
    board[on.THREADS], board[on.ROWS] = 1, ROWS
    board[on.INPUT_FLOATS : on.INPUT_FLOATS + 3] = [*map(address, (out, codes, scales))]
    row: Words = zeros(on.INSTRUCTION_WORDS, np.int64)
    norms = [*map(address, weights)] if is_normed else [0, 0, 0]
    few = [address(given), 4 * given.shape[1], RANK, on.INPUT_FLOATS]
    row[1:11] = [*few, STATES, address(given) + 4 * RANK, *norms, float_word(EPSILON)]
    counter = zeros(on.COUNTER_WORDS, np.int64)
    phase(address(board), address(row), address(counter))
    np.testing.assert_allclose(out, parts[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(given[:, RANK:], np.hstack(parts[1:]), rtol=1e-5, atol=1e-6)


@define(VOID, INT)
def _raise_two(b: Builder, x: Value) -> None:
    store(b, power_of_two(b, load(b, x)), x)


@compiled
def powers(x: Any) -> None:
    _raise_two(x)


def test_powers_of_two_are_near_the_truth() -> None:
    raise_two, x = built(powers, 1), zeros(16, np.float32)
    draw = np.random.default_rng(1)
    for least in (-0.001, -1.0, -20.0, -124.0):
        x[:] = draw.uniform(least, 0, 16)
        x[0], x[1] = 0.0, least
        truth = np.exp2(x.astype(np.float64))
        raise_two(address(x))
        np.testing.assert_allclose(x, truth, rtol=1.6e-7)
    x[:] = -1e30
    raise_two(address(x))
    assert (x > 0).all()
    assert (x < 1e-37).all()


def test_gates_and_inputs_of_heads_are_parted() -> None:
    heads, size, count = 3, 16, 5
    random = np.random.default_rng(3)
    rows = random.standard_normal((count, 4 * heads * size + 8)).astype(np.float32)
    given = rows[:, : 2 * heads * size].reshape(count, heads, 2, size).copy()
    board: Words = zeros(on.NUM_WORDS, np.int64)
    board[on.THREADS], board[on.ROWS] = 1, count
    row: Words = zeros(on.INSTRUCTION_WORDS, np.int64)
    row[1:6] = [address(rows), 4 * rows.shape[1], heads, size, address(rows) + 8 * heads * size]
    counter = zeros(on.COUNTER_WORDS, np.int64)
    built(part_phase, 3)(address(board), address(row), address(counter))
    inputs, gates = np.split(rows[:, 2 * heads * size : -8].reshape(count, -1, size), 2, axis=1)
    np.testing.assert_array_equal(gates, given[:, :, 0])
    np.testing.assert_array_equal(inputs, given[:, :, 1])
