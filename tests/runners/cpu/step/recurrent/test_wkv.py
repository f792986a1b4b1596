"""RWKV 7's states alone: what they compute."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.runners.cpu.memory import address
from segue.runners.cpu.step.program.words import float_word
from segue.runners.cpu.step.recurrent.wkv import wkv_phase
from tests.runners.cpu.step.recurrent.matrix_slots import ROWS, Floats, Slot, check_rounded
from tests.runners.cpu.translation.built import built

Doubles = NDArray[np.float64]
PARTS = "rkvwasg"
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
    mixer: ClassVar[str] = "wkv7"
    change_parts: ClassVar[int] = 5

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

    def words(self) -> list[int]:
        columns = self.columns
        parts = [address(self.rows) + 4 * columns * i for i in range(len(PARTS))]
        parts[5] *= not self.is_first
        parts[6] *= not self.is_bare
        vectors = [address(each) for each in self.vectors]
        norm = [0, 0] if self.is_bare else vectors[6:]
        words = [4 * len(PARTS) * columns, *parts, *vectors[:6], *norm, float_word(EPSILON)]
        return [*words, address(self.first)]


@pytest.fixture(scope="module")
def wkv() -> Callable[..., int]:
    return built(wkv_phase, 4)


@pytest.mark.parametrize(
    "layer",
    [Layer(), Layer(2, 64), Layer(1, 96, is_first=True), Layer(is_bare=True), Layer(is_first=True)],
    ids=str,
)
def test_states_fade_are_corrected_and_read(wkv: Callable[..., int], layer: Layer) -> None:
    truth, slot = layer.computed(), Slot(layer, wkv)
    found = slot.read(ROWS)
    np.testing.assert_allclose(found, truth, rtol=1e-4, atol=3e-5)
    check_rounded(slot, found)
    if layer.is_first:  # for the layers after it
        np.testing.assert_array_equal(layer.first, layer.rows[:, 2])


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
