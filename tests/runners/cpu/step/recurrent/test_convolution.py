"""The convolution alone: what it computes, and that no bit depends on how spans are cut."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.recurrent.convolution import convolve_phase
from tests.runners.cpu.translation.built import built

Floats = NDArray[np.float32]
Words = NDArray[np.int64]
CHANNELS, ROWS = 160, 11


@pytest.fixture(scope="module")
def convolve() -> Callable[..., int]:
    return built(convolve_phase, 4)


class Layer:
    """Random inputs, gates and weights."""

    def __init__(self, taps: int):
        random = np.random.default_rng(taps)
        self.before, self.after, self.inputs = (
            random.standard_normal((ROWS, CHANNELS)).astype(np.float32) for _ in range(3)
        )
        self.kernel = random.standard_normal((taps, CHANNELS)).astype(np.float32)
        self.bias = random.standard_normal(CHANNELS).astype(np.float32)

    def sums(self, inputs: Floats) -> NDArray[np.float64]:
        padded = np.concatenate([np.zeros((len(self.kernel) - 1, CHANNELS)), inputs])
        found = np.zeros((ROWS, CHANNELS))
        for tap, weights in enumerate(self.kernel):
            found += weights * padded[tap : tap + ROWS]
        return found


class Slot:
    def __init__(self, layer: Layer, convolve: Callable[..., int]):
        self.layer, self._convolve = layer, convolve
        inputs = len(layer.kernel) - 1 + on.MOST_PENDING
        self.state: Floats = np.full((inputs, CHANNELS), np.nan, np.float32)
        self.pending, self.length = on.FRESH, 0

    def read(self, end: int, *, is_gated: bool, left: int = 1) -> Floats:
        """What the next rows give, up to `end`: gated before and after, or with a bias and through silu."""
        start, layer = self.length, self.layer
        rows = np.concatenate([layer.before, layer.after, layer.inputs], axis=1)
        out: Floats = np.full((ROWS, CHANNELS), np.nan, np.float32)
        codes, scales = zeros(out.shape, np.int8), zeros((ROWS, CHANNELS // 32, 4), np.float32)
        span, counter = zeros(on.SPAN_WORDS, np.int64), zeros(on.COUNTER_WORDS, np.int64)
        span[:] = [start, end - start, address(self.state) - 64, self.pending, left]
        board: Words = zeros(on.NUM_WORDS, np.int64)
        board[on.THREADS], board[on.SPANS], board[on.NUM_SPANS] = 1, address(span), 1
        board[on.HEADS_FLOATS : on.HEADS_FLOATS + 3] = [*map(address, (out, codes, scales))]
        before = address(rows)
        after, inputs = before + 4 * CHANNELS, before + 8 * CHANNELS
        row: Words = zeros(on.INSTRUCTION_WORDS, np.int64)
        row[1:9] = [
            inputs, 12 * CHANNELS, 0, CHANNELS, len(layer.kernel), address(layer.kernel), 0, 64
        ]  # fmt: skip
        if is_gated:
            row[10:12] = [before, after]
        else:
            row[3], row[7], row[9] = address(out), address(layer.bias), 1
        self._convolve(address(board), address(row), address(counter), 0)
        if is_gated:
            rounded = (codes.reshape(ROWS, -1, 32) * scales[:, :, :1]).reshape(out.shape)
            assert np.abs(rounded - out)[start:end].max() <= scales[..., 0].max() * 0.51
        self.pending, self.length = left, end
        return out[start:end]

    def trim(self, count: int = 1) -> None:
        self.pending, self.length = self.pending - count, self.length - count


@pytest.mark.parametrize("taps", [2, 3, 4])
def test_inputs_and_outputs_are_gated(convolve: Callable[..., int], taps: int) -> None:
    layer = Layer(taps)
    truth = layer.sums(layer.inputs * layer.before) * layer.after
    found = Slot(layer, convolve).read(ROWS, is_gated=True)
    np.testing.assert_allclose(found, truth, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("taps", [2, 4])
def test_outputs_have_a_bias_and_go_through_silu(convolve: Callable[..., int], taps: int) -> None:
    layer = Layer(taps)
    sums = layer.sums(layer.inputs) + layer.bias
    found = Slot(layer, convolve).read(ROWS, is_gated=False)
    np.testing.assert_allclose(found, sums / (1 + np.exp(-sums)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cuts", [[1], [5], [1, 2, 7, 10], [*range(1, ROWS)]])
@pytest.mark.parametrize("is_gated", [False, True])
def test_bits_do_not_depend_on_how_a_text_is_cut(
    convolve: Callable[..., int], cuts: list[int], is_gated: bool
) -> None:
    slot = Slot(Layer(3), convolve)
    rows = [slot.read(end, is_gated=is_gated) for end in (*cuts, ROWS)]
    whole = Slot(slot.layer, convolve).read(ROWS, is_gated=is_gated)
    np.testing.assert_array_equal(np.concatenate(rows), whole)


@pytest.mark.parametrize("read", [1, 2, 6])
def test_the_last_row_can_be_taken_back(convolve: Callable[..., int], read: int) -> None:
    layer = Layer(4)
    truth = Slot(layer, convolve).read(ROWS, is_gated=False)
    kept = layer.inputs[read - 1].copy()
    layer.inputs[read - 1] = 7
    slot = Slot(layer, convolve)
    slot.read(read, is_gated=False)
    slot.trim()
    layer.inputs[read - 1] = kept
    rows = [slot.read(end, is_gated=False) for end in (read, read + 1, ROWS)]
    np.testing.assert_array_equal(np.concatenate(rows), truth[read - 1 :])


@pytest.mark.parametrize(("left", "count"), [(5, 5), (5, 2), (3, 0), (7, 7)])
def test_several_rows_can_be_taken_back(
    convolve: Callable[..., int], left: int, count: int
) -> None:
    layer = Layer(4)
    truth = Slot(layer, convolve).read(ROWS, is_gated=False)
    kept = layer.inputs.copy()
    layer.inputs[7 - count : 7] = 7
    slot = Slot(layer, convolve)
    slot.read(2, is_gated=False, left=2)
    slot.read(7, is_gated=False, left=left)  # of 7: two of the step before among them
    slot.trim(count)
    layer.inputs[:] = kept
    rows = [slot.read(end, is_gated=False) for end in (8 - count, ROWS)]
    np.testing.assert_array_equal(np.concatenate(rows), truth[7 - count :])
