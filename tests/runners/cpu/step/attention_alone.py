"""Attention without a model: keys and values in blocks, queries, and what the definition gives in doubles."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.step.atomics import real, word
from segue.runners.cpu.step.attention.attend import attend
from segue.runners.cpu.step.attention.kv_formats import head_bytes
from segue.runners.cpu.step.attention.loading import kv_type
from segue.runners.cpu.step.attention.scratch import BLOCK, scratch_bytes
from segue.runners.cpu.step.program.words import float_word
from tests.runners.cpu.step.kept_numbers import WRITE_KEYS, WRITE_VALUES

Doubles = NDArray[np.float64]
NUM_WORDS = 19
GROUP = 3  # query heads of a position


@compiled
def attended(words: Any) -> Any:
    """attend with what these words say."""
    attend(
        word(words),
        word(words + 8),
        word(words + 16),
        word(words + 24),
        word(words + 32),
        word(words + 40),
        word(words + 48),
        word(words + 56),
        word(words + 64),
        word(words + 72),
        word(words + 80),
        word(words + 88),
        word(words + 96),
        word(words + 104),
        word(words + 112),
        real(words + 120),
        word(words + 128),
        word(words + 136),
        word(words + 144),
    )
    return 0


@dataclass
class Text:
    """Tokens with a key and a value each; the last `positions` have queries, GROUP heads each."""

    keys: NDArray[np.floating]  # [tokens][size], which the KV cache can hold
    values: NDArray[np.floating]
    queries: NDArray[np.float32]  # [positions][GROUP][size]
    window: int = 0
    cap: float = 0.0
    sinks: NDArray[np.float32] | None = None
    slopes: NDArray[np.float32] | None = None

    def defined(self) -> Doubles:
        """Scores are exponents of 2, but those of sinks of e."""
        tokens, positions = len(self.keys), len(self.queries)
        queries, keys, values = (
            x.astype(np.float64) for x in (self.queries, self.keys, self.values)
        )
        scores = queries @ keys.T
        if self.cap:
            scores = self.cap * np.tanh(scores / self.cap)
        place = np.arange(tokens - positions, tokens)[:, None, None]
        token = np.arange(tokens)
        if self.slopes is not None:
            scores = scores - self.slopes.astype(np.float64)[:, None] * (place - token)
        is_seen = (token <= place) & ((token > place - self.window) | (self.window == 0))
        scores = np.where(is_seen, scores, -np.inf)
        top = scores.max(-1, keepdims=True)
        powers = np.exp2(scores - top)
        total = powers.sum(-1, keepdims=True)
        if self.sinks is not None:
            total = total + np.exp2(self.sinks[:, None] * np.log2(np.e) - top)
        found: Doubles = (powers / total) @ values
        return found

    def computed(self, kernel: Callable[..., int]) -> NDArray[np.float32]:
        size, count, positions = self.keys.shape[1], len(self.keys), len(self.queries)
        num_blocks = -(-count // BLOCK)
        half = head_bytes(kv_type, size)
        blocks: NDArray[np.uint8] = zeros((num_blocks, 2 * half), np.uint8)
        for block, start in zip(blocks[::-1], range(0, count, BLOCK), strict=True):
            tokens = slice(min(BLOCK, count - start))
            WRITE_KEYS[kv_type](block[:half], tokens, self.keys[start : start + BLOCK])
            WRITE_VALUES[kv_type](block[half:], tokens, self.values[start : start + BLOCK])
        table: NDArray[np.int64] = np.arange(num_blocks)[::-1].copy()
        queries, out = self.queries.copy(), np.full_like(self.queries, np.nan)
        scratch: NDArray[np.int8] = zeros(scratch_bytes(size), np.int8)
        words: NDArray[np.int64] = zeros(NUM_WORDS, np.int64)
        sinks, slopes = (0 if x is None else address(x) for x in (self.sinks, self.slopes))
        kv = address(blocks)
        words[:4] = [address(queries), positions * GROUP, GROUP, count - positions + 1]
        words[4:10] = [kv, kv + half, 2 * half, address(table), size, size]
        words[10:14] = [address(scratch), address(out), 4 * GROUP * size, 4 * size]
        words[14:] = [self.window, float_word(self.cap), sinks, slopes, 0]
        kernel(address(words), keeps_gil=False)
        return out
