"""Spans as the graph wants them: rows of subsequences with the blocks each one reads and writes.

Attention has one kernel for a single row and another, twice as fast over long contexts, for several; their bits differ.
So that a token's bits do not hang on how it was scheduled, every token is a subsequence of its own: read or drawn,
alone or in a draft, it goes through the first. Where no bits are promised, a span stays whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam import Span

MIN_ROWS = 2  # fewer take kernels of their own

# Measured: a change of a step's width takes as long as so many products of a row with a weight.
CHANGE_WEIGHTS = 1_000_000_000
MOST_WASTED = 16  # rows

Ints = NDArray[np.int32] | NDArray[np.int64]


class SteadyWidth:
    """How many rows to compute, so that the number seldom changes.

    After a change the plugin plans every node anew, which takes a small model as long as some rows more. So a wider
    step is kept to until the rows for nothing have cost as much as the change.
    """

    def __init__(self, num_weights: int) -> None:
        self._change = min(CHANGE_WEIGHTS // num_weights, MOST_WASTED)  # in rows
        self._width = 0
        self._num_wasted = 0

    def of(self, num_rows: int) -> int:
        self._num_wasted += self._width - num_rows
        if num_rows > self._width or self._num_wasted > self._change:
            self._width, self._num_wasted = num_rows, 0
        return self._width


@dataclass
class Rows:
    """One step. `scratch` is a block that nobody reads."""

    block_size: int
    scratch: int
    is_exact: bool = True  # a token's bits do not depend on the span it came in
    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    begins: list[int] = field(default_factory=lambda: [0])
    pasts: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    block_begins: list[int] = field(default_factory=lambda: [0])
    wanted: list[int] = field(default_factory=list)
    has_longer: bool = False  # than one row: some subsequence

    def add(self, span: Span, blocks: Sequence[int]) -> None:
        first = len(self.ids)
        size = 1 if self.is_exact else max(len(span.tokens), 1)
        for start in range(0, len(span.tokens), size):
            self._append(span.tokens[start : start + size], span.past + start, blocks)
        self.wanted += range(len(self.ids) - span.num_logits, len(self.ids))
        self.has_longer = self.has_longer or (len(self.ids) - first > 1 and not self.is_exact)

    def pad(self, num_threads: int, width: "SteadyWidth") -> None:
        """Enough rows that no step takes a kernel made for few: two, and a subsequence a thread.

        Instead of many single ones, a subsequence of two rows does too. Then as many as before, if that pays.
        """
        num_missing = 0 if self.has_longer else max(MIN_ROWS, num_threads) - len(self.pasts)
        if num_missing > 0:
            self._append([0] * min(num_missing, 2), 0, [self.scratch])
        for _ in range(width.of(len(self.ids)) - len(self.ids)):
            self._append([0], 0, [self.scratch])
        # The output projection is one more product, and it sees the wanted rows only.
        self.wanted += [0] * max(0, MIN_ROWS - len(self.wanted))

    def inputs(self) -> dict[str, Ints]:
        ends = [past + n for past, n in zip(self.pasts, np.diff(self.begins), strict=True)]
        return {
            "input_ids": np.array(self.ids, np.int64),
            "position_ids": np.array(self.positions, np.int64),
            "past_lens": np.array(self.pasts, np.int32),
            "subsequence_begins": np.array(self.begins, np.int32),
            "block_indices": np.array(self.blocks, np.int32),
            "block_indices_begins": np.array(self.block_begins, np.int32),
            "max_context_len": np.array(max(ends), np.int32),
            "logit_rows": np.array(self.wanted, np.int64),
        }

    def _append(self, tokens: Sequence[int], past: int, blocks: Sequence[int]) -> None:
        end = past + len(tokens)
        self.ids += tokens
        self.positions += range(past, end)
        self.begins.append(len(self.ids))
        self.pasts.append(past)
        self.blocks += blocks[: -(-end // self.block_size)]
        self.block_begins.append(len(self.blocks))
