"""Gated delta nets alone: what they compute, for all ways in which heads share keys, and at the limits of numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import put_real, real
from segue.runners.cpu.step.program.words import float_word
from segue.runners.cpu.step.recurrent.decay import decay
from segue.runners.cpu.step.recurrent.delta import delta_phase
from segue.runners.cpu.step.recurrent.scratch import matrices_scratch, record_of
from tests.runners.cpu.translation.built import built

Floats = NDArray[np.float32]
Words = NDArray[np.int64]
ROWS = 11
EPSILON = 1e-6


@dataclass
class Net:
    """Random rows, and the numbers of a layer. `is_grouped`: heads that share a key are side by side."""

    heads: int
    key_heads: int
    size: int
    is_grouped: bool
    mixer: ClassVar = "delta"

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(7)
        self.channels = (2 * self.key_heads + self.heads) * self.size
        self.columns = self.heads * self.size
        self.rows = self._floats(ROWS, self.channels)
        # Gates, then betas and alphas: of all heads, or of those of each key.
        self.gates = self._floats(ROWS, self.columns + 2 * self.heads)
        self.bias, self.weights = self._floats(self.heads), self._floats(self.size)
        self.fading = -np.abs(self._floats(self.heads))

    def _floats(self, *shape: int) -> Floats:
        return self._random.standard_normal(shape).astype(np.float32)

    @property
    def shared(self) -> int:
        return self.heads // self.key_heads

    def key_of(self, head: int) -> int:
        return head // self.shared if self.is_grouped else head % self.key_heads

    def computed(self) -> NDArray[np.float64]:
        """What the definition gives, in doubles."""
        size, out = self.size, np.empty((ROWS, self.heads, self.size))
        states = np.zeros((self.heads, size, size))
        for m in range(ROWS):
            row, gates = self.rows[m].astype(np.float64), self.gates[m].astype(np.float64)
            q, k, v = np.split(row.reshape(-1, size), [self.key_heads, 2 * self.key_heads])
            betas, alphas = self._betas_and_alphas(gates[self.columns :])
            for head in range(self.heads):
                query, key = (x[self.key_of(head)] for x in (q, k))
                query, key = query / np.linalg.norm(query) / size**0.5, key / np.linalg.norm(key)
                fade = np.exp(self.fading[head] * np.log1p(np.exp(alphas[head] + self.bias[head])))
                states[head] *= fade
                change = (v[head] - key @ states[head]) / (1 + np.exp(-betas[head]))
                states[head] += np.outer(key, change)
                given = query @ states[head]
                given = given / np.sqrt(np.square(given).mean() + EPSILON) * self.weights
                gate = gates[head * size : (head + 1) * size]
                out[m, head] = given * gate / (1 + np.exp(-gate))
        return out.reshape(ROWS, -1)

    def _betas_and_alphas(self, told: NDArray[np.float64]) -> NDArray[np.float64]:
        groups = self.key_heads if self.is_grouped else 1
        return told.reshape(groups, 2, -1).swapaxes(0, 1).reshape(2, self.heads)

    def words(self) -> list[int]:
        """Of the instruction, in the order of delta.py."""
        gates = address(self.gates)
        betas = gates + 4 * self.columns
        group = self.shared if self.is_grouped else self.heads
        floats = (self.bias, self.fading, self.weights)
        record = record_of(self.mixer, self.size)
        return [
            self.heads, self.size, 64, 4 * self.head_floats,
            4 * record.floats, 4 * record.start, self.change_floats,
            address(self.rows), 4 * self.channels, self.key_heads,
            self.shared if self.is_grouped else 1, gates, 4 * (self.columns + 2 * self.heads),
            betas, betas + 4 * group, group, 8 * group, *map(address, floats),
            float_word(EPSILON), float_word(self.size**-0.5),
        ]  # fmt: skip

    @property
    def change_floats(self) -> int:
        return 2 * self.size + 16

    @property
    def head_floats(self) -> int:
        return self.size * self.size + on.MOST_PENDING * self.change_floats

    def advance(self, phase: Callable[..., int], ends: list[int], left: int = 1) -> Floats:
        """What the rows give, computed up to each of `ends`, with the changes of `left` rows pending, or of all."""
        out: Floats = np.full((ROWS, self.columns), np.nan, np.float32)
        state: Floats = np.full(self.heads * self.head_floats, np.nan, np.float32)
        codes, scales = zeros(out.shape, np.int8), zeros(out.size // 8, np.float32)
        scratch, span = zeros(matrices_scratch(self.size), np.int8), zeros(on.SPAN_WORDS, np.int64)
        board: Words = zeros(on.NUM_WORDS, np.int64)
        board[on.THREADS], board[on.SCRATCH] = 1, address(scratch)
        board[on.HEADS_FLOATS : on.HEADS_FLOATS + 3] = [*map(address, (out, codes, scales))]
        board[on.SPANS], board[on.NUM_SPANS] = address(span), 1
        row: Words = zeros(on.INSTRUCTION_WORDS, np.int64)
        row[1 : 1 + len(self.words())] = self.words()
        for start, end in zip([0, *ends], ends, strict=False):
            pending = min(left, start) if start else on.FRESH
            span[:] = [start, end - start, address(state) - 64, pending, min(left, end)]
            counter = zeros(on.COUNTER_WORDS, np.int64)
            phase(address(board), address(row), address(counter), 0)
        return out


class KeyNet(Net):
    """Each head has a key of its own, of which every number fades at a speed of its own; gates are sigmoids."""

    mixer = "kda"

    def __init__(self, heads: int, size: int):
        super().__init__(heads, heads, size, False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.gates = self._floats(ROWS, 2 * self.columns + self.heads)  # gates, betas, alphas
        self.bias = self._floats(self.columns)

    def computed(self) -> NDArray[np.float64]:
        size, heads, out = self.size, self.heads, np.empty((ROWS, self.heads, self.size))
        states = np.zeros((heads, size, size))
        for m in range(ROWS):
            row, told = self.rows[m].astype(np.float64), self.gates[m].astype(np.float64)
            q, k, v = row.reshape(3, heads, size)
            gates, betas, alphas = np.split(told, [self.columns, self.columns + heads])
            times = np.log1p(np.exp(alphas + self.bias)).reshape(heads, size)
            for head in range(heads):
                query, key = q[head] / np.linalg.norm(q[head]), k[head] / np.linalg.norm(k[head])
                states[head] *= np.exp(self.fading[head] * times[head])[:, None]
                change = (v[head] - key @ states[head]) / (1 + np.exp(-betas[head]))
                states[head] += np.outer(key, change)
                given = query / size**0.5 @ states[head]
                given = given / np.sqrt(np.square(given).mean() + EPSILON) * self.weights
                out[m, head] = given / (1 + np.exp(-gates.reshape(heads, size)[head]))
        return out.reshape(ROWS, -1)

    def words(self) -> list[int]:
        words = super().words()
        words[12] = 4 * self.gates.shape[1]
        words[14] = address(self.gates) + 4 * (self.columns + self.heads)
        return [*words, 1]

    @property
    def change_floats(self) -> int:
        return 3 * self.size + 16


@pytest.fixture(scope="module")
def phase() -> Callable[..., int]:
    return built(delta_phase, 4)


@pytest.mark.parametrize("is_grouped", [False, True])
@pytest.mark.parametrize(("heads", "key_heads", "size"), [(4, 2, 32), (6, 2, 64), (3, 3, 96)])
def test_states_are_read_and_corrected(
    phase: Callable[..., int], heads: int, key_heads: int, size: int, is_grouped: bool
) -> None:
    net = Net(heads, key_heads, size, is_grouped)
    whole = net.advance(phase, [ROWS])
    np.testing.assert_allclose(whole, net.computed(), rtol=2e-4, atol=2e-5)
    for left in (1, 2, 5, on.MOST_PENDING):
        np.testing.assert_array_equal(net.advance(phase, [1, 2, 7, 10, ROWS], left), whole)


@pytest.mark.parametrize(("heads", "size"), [(1, 32), (3, 64), (2, 128)])
def test_keys_may_fade_each_by_itself(phase: Callable[..., int], heads: int, size: int) -> None:
    net = KeyNet(heads, size)
    whole = net.advance(phase, [ROWS])
    np.testing.assert_allclose(whole, net.computed(), rtol=2e-4, atol=2e-5)
    for left in (1, 2, 5, on.MOST_PENDING):
        np.testing.assert_array_equal(net.advance(phase, [1, 2, 7, 10, ROWS], left), whole)


@pytest.mark.parametrize("extreme", [1e30, -1e30])
def test_keys_that_fade_at_once_or_never_give_numbers(
    phase: Callable[..., int], extreme: float
) -> None:
    net = KeyNet(2, 32)
    net.rows[2:4], net.gates[4, net.columns :] = 0, extreme
    assert np.isfinite(net.advance(phase, [ROWS])).all()


def test_rows_of_zeros_and_of_huge_numbers_give_numbers(phase: Callable[..., int]) -> None:
    net = Net(4, 2, 32, False)
    net.rows[2:4], net.rows[5] = 0, net.rows[5] * 1e18
    net.gates[4, net.columns :], net.gates[6, net.columns :] = 1e30, -1e30
    assert np.isfinite(net.advance(phase, [ROWS])).all()


@compiled
def _fade(numbers: Any) -> None:
    """Two numbers, and then what they give."""
    put_real(numbers + 8, decay(real(numbers), real(numbers + 4)))


@pytest.mark.parametrize("fading", [0.0, -1e-30, -1.0, -16.0, -1e30])
def test_states_fade_as_they_should_for_all_inputs(fading: float) -> None:
    """Above 20, softplus(x) is x, as llama.cpp has it."""
    fade = built(_fade, 1)
    for x in (-1e30, -200.0, -20.0, -1.0, -0.0, 0.5, 19.99, 20.0, 20.01, 88.0, 1e30):
        numbers: Floats = np.array([fading, x, np.nan], np.float32)
        a, b = numbers[:2].astype(np.float64)
        fade(address(numbers))
        truth = np.exp(a * np.logaddexp(0, b))
        assert abs(numbers[2] - truth) <= 1e-5 * truth + 2e-38
