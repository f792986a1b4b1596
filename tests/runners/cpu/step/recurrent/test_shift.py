"""RWKV's token shift alone, and what is done between the two matrices of a pair."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.recurrent.shift import bend_phase, gate_rows_phase, shift_phase
from tests.runners.cpu.translation.built import built

Floats = NDArray[np.float32]
Words = NDArray[np.int64]
ROWS, WIDTH, LERPS = 23, 352, 6  # more columns than a thread takes at a time
_random = np.random.default_rng(5)
X = _random.standard_normal((ROWS, WIDTH)).astype(np.float32)
SHARES = _random.standard_normal((LERPS, WIDTH)).astype(np.float32)


class Inputs:
    """What products take: floats, bytes and scales of each."""

    def __init__(self, board: Words, first: int, columns: list[int]):
        self.floats = [zeros((ROWS, count), np.float32) for count in columns]
        self.codes = [zeros((ROWS, count), np.int8) for count in columns]
        self.scales = [zeros((ROWS, count // 32, 4), np.float32) for count in columns]
        for i, parts in enumerate(zip(self.floats, self.codes, self.scales, strict=True)):
            board[first + 3 * i : first + 3 * i + 3] = [*map(address, parts)]

    def check_rounded(self) -> None:
        for floats, codes, scales in zip(self.floats, self.codes, self.scales, strict=True):
            rounded = (codes.reshape(ROWS, -1, 32) * scales[:, :, :1]).reshape(floats.shape)
            assert np.abs(rounded - floats).max() <= scales[..., 0].max() * 0.51


@pytest.fixture(scope="module")
def shift() -> Callable[..., int]:
    return built(shift_phase, 4)


class Slot:
    """The rows that a slot keeps, beside those of something else, and the steps that it takes part in."""

    def __init__(self, shift: Callable[..., int]):
        self.state: Floats = np.full((1 + on.MOST_PENDING, 2 * WIDTH), np.nan, np.float32)
        self.pending, self.length, self._shift = on.FRESH, 0, shift
        self.board: Words = zeros(on.NUM_WORDS, np.int64)
        self.inputs = Inputs(self.board, on.SHIFTED, [WIDTH] * LERPS)

    def read(self, rows: Floats, end: int, left: int = 1, more: Floats | None = None) -> None:
        """`more`: what rows add to the shares themselves; another phase before it takes the same rows."""
        left = min(left, end)
        span: Words = zeros(on.SPAN_WORDS, np.int64)
        span[:] = [self.length, end - self.length, address(self.state), self.pending, left]
        self.board[on.THREADS], self.board[on.WIDTH] = 1, WIDTH
        self.board[on.INPUT_FLOATS] = address(rows)
        self.board[on.SPANS], self.board[on.NUM_SPANS] = address(span), 1
        row: Words = zeros(on.INSTRUCTION_WORDS, np.int64)
        row[1:5] = [LERPS, address(SHARES), 4 * WIDTH, 8 * WIDTH]
        phases = [[0, 0, 0]] if more is None else [[0, 0, 1], [address(more), 4 * more[0].size, 0]]
        for words in phases:
            row[5:8] = words
            counter = zeros(on.COUNTER_WORDS, np.int64)
            self._shift(address(self.board), address(row), address(counter), 0)
        self.pending, self.length = left, end

    def check(self, more: Floats | None = None) -> None:
        before = np.concatenate([np.zeros((1, WIDTH), np.float32), X[:-1]])
        for i, found in enumerate(self.inputs.floats):
            lerp = SHARES[i] if more is None else SHARES[i] + more[:, i]
            truth = X.astype(np.float64) + (before - X).astype(np.float64) * lerp
            np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-6)
        self.inputs.check_rounded()
        assert np.isnan(self.state[:, :WIDTH]).all()  # not its own


@pytest.mark.parametrize("cuts", [[], [1], [9, 10], [*range(1, ROWS)]])
@pytest.mark.parametrize("left", [1, 4, on.MOST_PENDING])
def test_rows_are_mixed_with_those_before_them(
    shift: Callable[..., int], cuts: list[int], left: int
) -> None:
    slot = Slot(shift)
    for end in (*cuts, ROWS):
        slot.read(X, end, left)
    slot.check()


@pytest.mark.parametrize("cuts", [[], [1], [9, 10], [*range(1, ROWS)]])
@pytest.mark.parametrize("left", [1, on.MOST_PENDING])
def test_rows_may_add_to_the_shares_that_they_take(
    shift: Callable[..., int], cuts: list[int], left: int
) -> None:
    slot, more = Slot(shift), _random.standard_normal((ROWS, LERPS, WIDTH)).astype(np.float32)
    for end in (*cuts, ROWS):
        slot.read(X, end, left, more)
    slot.check(more)


@pytest.mark.parametrize("read", [1, 5, 20])
@pytest.mark.parametrize(("left", "count"), [(1, 1), (5, 1), (8, 8)])
def test_rows_can_be_taken_back(
    shift: Callable[..., int], read: int, left: int, count: int
) -> None:
    slot, kept = Slot(shift), max(read - count, 0)
    wrong = X.copy()
    wrong[kept:read] += 1
    slot.read(wrong, read, left)
    slot.pending, slot.length = slot.pending - (read - kept), kept
    slot.read(X, ROWS)
    slot.inputs.floats[0][:kept] = 0
    fresh = Slot(shift)
    fresh.read(X, ROWS)
    for found, truth in zip(slot.inputs.floats[1:], fresh.inputs.floats[1:], strict=True):
        np.testing.assert_array_equal(found[kept:], truth[kept:])


def test_between_two_matrices() -> None:
    board: Words = zeros(on.NUM_WORDS, np.int64)
    columns = [32, 64, 96]
    inputs = Inputs(board, on.PAIRED, columns)
    board[on.THREADS], board[on.ROWS] = 1, ROWS
    x = 3 * X[:, : sum(columns) + 16]
    x = np.ascontiguousarray(x)
    row: Words = zeros(on.INSTRUCTION_WORDS, np.int64)
    kinds = [on.TANH, on.PLAIN, on.LOGISTIC]
    parts = [word for pair in zip(columns, kinds, strict=True) for word in pair]
    row[1 : 4 + len(parts)] = [address(x) + 64, 4 * x.shape[1], 3, *parts]
    counter = zeros(on.COUNTER_WORDS, np.int64)
    built(bend_phase, 3)(address(board), address(row), address(counter))
    tanh, plain, logistic = np.split(x[:, 16:].astype(np.float64), [32, 96], axis=1)
    truth = [np.tanh(tanh), plain, 1 / (1 + np.exp(-logistic))]
    for found, expected in zip(inputs.floats, truth, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    inputs.check_rounded()


def test_rows_are_gated() -> None:
    board: Words = zeros(on.NUM_WORDS, np.int64)
    board[on.THREADS], board[on.ROWS], board[on.WIDTH] = 1, ROWS, 64
    x, gates = np.ascontiguousarray(X[:, :64]), np.ascontiguousarray(9 * X[:, 100:180])
    truth = x / (1 + np.exp(-gates[:, 16:].astype(np.float64)))
    row: Words = zeros(on.INSTRUCTION_WORDS, np.int64)
    row[1:4] = [address(x), address(gates) + 64, 4 * gates.shape[1]]
    counter = zeros(on.COUNTER_WORDS, np.int64)
    built(gate_rows_phase, 3)(address(board), address(row), address(counter))
    np.testing.assert_allclose(x, truth, rtol=1e-5, atol=1e-6)
