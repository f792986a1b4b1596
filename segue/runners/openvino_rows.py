"""Spans as the graph wants them: rows of subsequences with the blocks each one reads and writes.

Attention has one kernel for a single row and another for several; their last bits differ. So that a token's bits do
not hang on how it was scheduled, prompt tokens always go through the second and drawn ones through the first: each
drawn token is a subsequence of its own, and a prompt's lone token gets a row behind it that means nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam import Span

Ints = NDArray[np.int32] | NDArray[np.int64]


@dataclass
class Rows:
    """One step. `scratch` is a block that nobody reads."""

    block_size: int
    scratch: int
    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    begins: list[int] = field(default_factory=lambda: [0])
    pasts: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    block_begins: list[int] = field(default_factory=lambda: [0])
    wanted: list[int] = field(default_factory=list)
    has_longer: bool = False  # than one row: some subsequence

    def add(self, span: Span, blocks: Sequence[int]) -> None:
        start, end = span.past, span.past + len(span.tokens)
        middle = min(max(start, _drawn_from(span)), end)
        rows: list[int] = []
        if start < middle:
            rows += self._append(span.tokens[: middle - start], start, blocks, is_prompt=True)
        for at in range(middle, end):
            rows += self._append([span.tokens[at - start]], at, blocks, is_prompt=False)
        self.wanted += rows[len(rows) - span.num_logits :]

    def pad(self, num_threads: int) -> None:
        """Enough rows that no step takes a kernel made for few: two, and a subsequence a thread.

        Instead of many single ones, a subsequence of two rows does too.
        """
        num_missing = 0 if self.has_longer else max(2, num_threads) - len(self.pasts)
        if num_missing > 0:
            self._append([0], 0, [self.scratch], is_prompt=num_missing > 1)
        # The output projection is one more product, and it sees the wanted rows only.
        self.wanted += [0] * max(0, 2 - len(self.wanted))

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

    def _append(
        self, tokens: Sequence[int], past: int, blocks: Sequence[int], is_prompt: bool
    ) -> range:
        """The rows of `tokens`."""
        first, tokens = len(self.ids), list(tokens)
        rows = range(first, first + len(tokens))
        if is_prompt and len(tokens) == 1:
            tokens *= 2
        end = past + len(tokens)
        num_blocks = -(-end // self.block_size)
        self.ids += tokens
        self.positions += range(past, end)
        self.begins.append(len(self.ids))
        self.pasts.append(past)
        self.blocks += blocks[:num_blocks]
        self.blocks += [self.scratch] * (num_blocks - len(blocks))  # for the row without meaning
        self.block_begins.append(len(self.blocks))
        self.has_longer = self.has_longer or len(tokens) > 1
        return rows


def _drawn_from(span: Span) -> int:
    if span.drawn_from is not None:
        return span.drawn_from
    return span.past if len(span.tokens) == 1 else span.past + len(span.tokens)
