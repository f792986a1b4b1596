"""RWKV's states alone: what they compute, and that no bit depends on how spans are cut."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.words import float_word
from segue.runners.cpu.step.recurrent.scratch import matrices_scratch, record_of
from segue.runners.cpu.step.recurrent.wkv import wkv_phase
from tests.runners.cpu.translation.test_functions import built

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Words = NDArray[np.int64]
ROWS, PARTS = 21, "rkvwasg"
EPSILON = 64e-5


def sigmoid(x: Doubles) -> Doubles:
    return 1 / (1 + np.exp(-x))


@dataclass
class Layer:
    """Random rows, and the numbers of a layer. `is_first`: none is before it; `is_bare`: without gate and norm."""

    heads: int = 3
    size: int = 32
    is_first: bool = False
    is_bare: bool = False
    seed: int = 7

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self.columns = self.heads * self.size
        self.rows = self._floats(ROWS, len(PARTS), self.columns)
        self.vectors = self._floats(8, self.columns)
        self.first = self._floats(ROWS, self.columns)

    def _floats(self, *shape: int) -> Floats:
        return self._random.standard_normal(shape).astype(np.float32)

    def computed(self) -> Doubles:
        """What the definition gives, in doubles."""
        shape = (self.heads, self.size)
        w0, a0, v0, k_k, k_a, r_k, weights, bias = (
            each.reshape(shape) for each in self.vectors.astype(np.float64)
        )
        states, out = np.zeros((*shape, self.size)), np.empty((ROWS, *shape))
        for m in range(ROWS):
            r, k, v, w, a, s, g = (each.reshape(shape) for each in self.rows[m].astype(np.float64))
            fades, a = np.exp(-0.606531 * sigmoid(w + w0)), sigmoid(a + a0)
            if not self.is_first:
                v = v + (self.first[m].reshape(shape) - v) * sigmoid(s + v0)
            unit = k * k_k
            unit = unit / np.linalg.norm(unit, axis=-1, keepdims=True)
            k = k * (1 + (a - 1) * k_a)
            for head in range(self.heads):
                corrected = states[head] @ -unit[head]  # [value][key]
                states[head] = states[head] * fades[head] + np.outer(v[head], k[head])
                states[head] += np.outer(corrected, unit[head] * a[head])
                out[m, head] = states[head] @ r[head]
            if not self.is_bare:
                centred = out[m] - out[m].mean(-1, keepdims=True)
                spread = np.square(centred).mean(-1, keepdims=True)
                out[m] = centred / np.sqrt(spread + EPSILON) * weights + bias
            out[m] += v * (k * r * r_k).sum(-1, keepdims=True)
            out[m] *= 1 if self.is_bare else g
        return out.reshape(ROWS, -1)


@pytest.fixture(scope="module")
def wkv() -> Callable[..., int]:
    return built(wkv_phase, 4)


class Slot:
    """The state of a slot, and steps that it takes part in."""

    def __init__(self, layer: Layer, wkv: Callable[..., int]):
        size = layer.size
        self._head_floats = size * (size + 5 * on.MOST_PENDING)
        self.state: Floats = np.full((layer.heads, self._head_floats), np.nan, np.float32)
        self.pending, self.length = on.FRESH, 0
        self._layer, self._wkv = layer, wkv

    def read(self, end: int, left: int = 1) -> Floats:
        """What the next rows give, up to `end`. `left`: so many stay pending, or all."""
        start, layer, columns = self.length, self._layer, self._layer.columns
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
        parts = [address(layer.rows) + 4 * columns * i for i in range(len(PARTS))]
        parts[5] *= not layer.is_first
        parts[6] *= not layer.is_bare
        vectors = [address(each) for each in layer.vectors]
        norm = [0, 0] if layer.is_bare else vectors[6:]
        row: Words = zeros(on.INSTRUCTION_WORDS, np.int64)
        record = record_of("wkv7", layer.size)
        words = [layer.heads, layer.size, 64, 4 * self._head_floats]
        words += [4 * record.floats, 4 * record.start, 5 * layer.size]
        words += [4 * len(PARTS) * columns, *parts, *vectors[:6], *norm, float_word(EPSILON)]
        words += [address(layer.first)]
        row[1 : 1 + len(words)] = words
        self._wkv(address(board), address(row), address(counter), 0)
        self.pending, self.length = left, end
        return out[start:end]

    def trim(self, count: int) -> None:
        self.pending, self.length = self.pending - count, self.length - count


@pytest.mark.parametrize(
    "layer",
    [Layer(), Layer(2, 64), Layer(1, 96, is_first=True), Layer(is_bare=True), Layer(is_first=True)],
    ids=str,
)
def test_states_fade_are_corrected_and_read(wkv: Callable[..., int], layer: Layer) -> None:
    truth, slot = layer.computed(), Slot(layer, wkv)
    found = slot.read(ROWS)
    np.testing.assert_allclose(found, truth, rtol=1e-4, atol=3e-5)
    rounded = slot.codes.reshape(ROWS, -1, 32) * slot.scales[:, :, :1]
    assert np.abs(rounded.reshape(found.shape) - found).max() <= slot.scales[..., 0].max() * 0.51
    if layer.is_first:  # for the layers after it
        np.testing.assert_array_equal(layer.first, layer.rows[:, 2])


@pytest.mark.parametrize("cuts", [[1], [9], [1, 2, 10, 20], [*range(1, ROWS)]])
@pytest.mark.parametrize("left", [1, 2, 5, on.MOST_PENDING])
def test_bits_do_not_depend_on_how_a_text_is_cut(
    wkv: Callable[..., int], cuts: list[int], left: int
) -> None:
    layer = Layer()
    slot = Slot(layer, wkv)
    rows = np.concatenate([slot.read(end, left) for end in (*cuts, ROWS)])
    np.testing.assert_array_equal(rows, Slot(layer, wkv).read(ROWS))


@pytest.mark.parametrize("read", [1, 2, 9, 17])
@pytest.mark.parametrize(("left", "count"), [(1, 1), (4, 1), (8, 1), (8, 8)])
def test_the_last_rows_can_be_taken_back(
    wkv: Callable[..., int], read: int, left: int, count: int
) -> None:
    layer, other = Layer(), Layer(seed=4)
    truth = Slot(layer, wkv).read(ROWS)
    rows, kept = layer.rows.copy(), max(read - count, 0)
    layer.rows[kept:read] = other.rows[kept:read]
    slot = Slot(layer, wkv)
    slot.read(read, left)
    slot.trim(read - kept)
    layer.rows[:] = rows
    np.testing.assert_array_equal(slot.read(ROWS), truth[kept:])


def test_a_key_of_nothing_but_zeros_is_no_number_without_meaning(wkv: Callable[..., int]) -> None:
    layer = Layer()
    layer.rows[3, 1] = 0
    assert np.isfinite(Slot(layer, wkv).read(ROWS)).all()


@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_gates_may_be_large(wkv: Callable[..., int], scale: float) -> None:
    """Decays and shares end at their limits."""
    layer = Layer(is_bare=True)
    layer.rows[:, 3:6] *= np.float32(scale)
    with np.errstate(over="ignore"):
        truth = layer.computed()
    np.testing.assert_allclose(Slot(layer, wkv).read(ROWS), truth, rtol=1e-3, atol=1e-4)
