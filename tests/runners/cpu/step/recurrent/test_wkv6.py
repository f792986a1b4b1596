"""RWKV 6's states alone: what they compute."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.runners.cpu.memory import address
from segue.runners.cpu.step.program.words import float_word
from segue.runners.cpu.step.recurrent.wkv6 import wkv6_phase
from tests.runners.cpu.step.recurrent.matrix_slots import ROWS, Floats, Slot, check_rounded
from tests.runners.cpu.translation.built import built

Doubles = NDArray[np.float64]
EPSILON = 64e-5
R, K, V, W, G = range(5)  # parts of a row
DECAY, FIRST, WEIGHTS, BIAS = range(4)  # vectors


def sigmoid(x: Doubles) -> Doubles:
    return 1 / (1 + np.exp(-x))


@dataclass
class Layer:
    """Random rows, and the numbers of a layer."""

    heads: int = 3
    size: int = 32
    seed: int = 7
    mixer: ClassVar[str] = "wkv6"
    change_parts: ClassVar[int] = 3

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self.columns = self.heads * self.size
        self.rows = self._floats(ROWS, 5, self.columns)
        self.vectors = self._floats(4, self.columns)

    def _floats(self, *shape: int) -> Floats:
        return self._random.standard_normal(shape).astype(np.float32)

    def of_heads(self, each: Floats) -> Doubles:
        return each.astype(np.float64).reshape(self.heads, self.size)

    def fades(self, m: int) -> Doubles:
        return np.exp(-np.exp(self.of_heads(self.rows[m, W]) + self.of_heads(self.vectors[DECAY])))

    def computed(self) -> Doubles:
        """What the definition gives, in doubles."""
        _, u, weights, bias = map(self.of_heads, self.vectors)
        states, out = np.zeros((self.heads, self.size, self.size)), []
        for m in range(ROWS):
            r, k, v, _, g = map(self.of_heads, self.rows[m])
            brought = k[:, :, None] * v[:, None]
            given = (r[:, :, None] * (states + u[:, :, None] * brought)).sum(1)
            states = states * self.fades(m)[:, :, None] + brought
            given -= given.mean(-1, keepdims=True)
            spread = np.square(given).mean(-1, keepdims=True)
            given = given / np.sqrt(spread + EPSILON) * weights + bias
            out.append(given * g * sigmoid(g))
        return np.stack(out).reshape(ROWS, -1)

    def words(self) -> list[int]:
        rows = [address(self.rows) + 4 * self.columns * i for i in range(5)]
        decay, *others = map(address, self.vectors)
        words = [20 * self.columns, *rows, 1, 0, 0, 0, decay, *others]
        return [*words, float_word(EPSILON), float_word(2.0)]


@dataclass
class Adapted(Layer):
    """Made from attention: heads share keys and values, which have biases."""

    heads: int = 6
    shared: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        self.biases = self._floats(3, self.columns)

    def computed(self) -> Doubles:
        states, out = np.zeros((self.heads, self.size, self.size)), []
        for m in range(ROWS):
            r, k, v = (self.of_heads(self.rows[m, i] + self.biases[i]) for i in (R, K, V))
            k, v = (each[np.arange(self.heads) // self.shared] for each in (k, v))
            fades = self.fades(m)
            brought = ((1 - fades) * k)[:, :, None] * v[:, None]
            states = states * fades[:, :, None] + brought
            given = (r[:, :, None] * states).sum(1) / self.size**0.5
            out.append(given * sigmoid(self.of_heads(self.rows[m, G])))
        return np.stack(out).reshape(ROWS, -1)

    def words(self) -> list[int]:
        words = super().words()
        words[6:10] = [self.shared, *map(address, self.biases)]
        words[11:14] = [0, 0, 0]
        return [*words[:-1], float_word(self.size**-0.5)]


@pytest.fixture(scope="module")
def wkv6() -> Callable[..., int]:
    return built(wkv6_phase, 4)


@pytest.mark.parametrize("layer", [Layer(), Layer(2, 64), Adapted(), Adapted(4, 96, 8, 2)], ids=str)
def test_states_fade_and_are_read(wkv6: Callable[..., int], layer: Layer) -> None:
    slot = Slot(layer, wkv6)
    found = slot.read(ROWS)
    np.testing.assert_allclose(found, layer.computed(), rtol=1e-4, atol=3e-5)
    check_rounded(slot, found)


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e30])
@pytest.mark.parametrize("kind", [Layer, Adapted])
def test_decays_may_be_large(wkv6: Callable[..., int], kind: type[Layer], scale: float) -> None:
    """They end at their limits."""
    layer = kind()
    layer.rows[:, W] *= np.float32(scale)
    with np.errstate(over="ignore"):
        truth = layer.computed()
    np.testing.assert_allclose(Slot(layer, wkv6).read(ROWS), truth, rtol=1e-3, atol=1e-4)
