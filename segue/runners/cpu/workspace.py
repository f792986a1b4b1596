"""The memory that steps work in, one after the other, and the words of a board that have its addresses."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.architectures.hparams import Hparams
from segue.runners.cpu.architectures.layers import Layer
from segue.runners.cpu.architectures.parts.streams import STREAMS
from segue.runners.cpu.architectures.widths import Widths, recurrences_of, widths_of
from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.slots.slots import Slots
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.attention.scratch import TILE_ROWS, scratch_bytes
from segue.runners.cpu.step.program.places import Mixture, Places, Streams
from segue.runners.cpu.step.rare.streams import SCRATCH_FLOATS
from segue.runners.cpu.step.recurrent.scratch import matrices_scratch, scan_scratch

UNIT_FLOATS = 64  # the most outputs of gate, and of up, that a thread holds per row
WIDE_HEAD = 128  # heads with more dimensions are wide
UNITS = 4  # of a span, that each thread should have in attention


class ItemRows(NamedTuple):
    """How many rows of a span attend together. The more do, the less often keys and values are read."""

    few: int
    many: int
    enough: int  # rows of a span that are enough for `many`

    def of(self, count: int) -> int:
        """For a span of `count` rows."""
        return self.many if count >= self.enough else self.few


def item_rows(layers: Sequence[Layer], threads: int) -> ItemRows:
    """For all of these layers. Wide heads stay at few rows: sums and values of more would leave the cache."""
    few, many = (
        min((_in_sixes(layer.shared, tile) for layer in layers), default=tile)
        for tile in (TILE_ROWS // 2, TILE_ROWS)
    )
    if any(layer.head_size > WIDE_HEAD for layer in layers):
        many = few
    key_heads = min((layer.key_heads for layer in layers), default=1)
    return ItemRows(few, many, -(-UNITS * threads * many // key_heads))


def _in_sixes(shared: int, tile: int) -> int:
    """Rows of `shared` query heads that make up a tile; if possible, their heads are a multiple of 6."""
    most = max(1, tile // shared)
    return next((rows for rows in range(most, 0, -1) if rows * shared % 6 == 0), most)


class Workspace:
    def __init__(self, hparams: Hparams, max_rows: int, threads: int):
        # Every step's board is a copy.
        self.board: NDArray[np.int64] = zeros(on.NUM_WORDS, np.int64)
        self.max_rows, self._vocab_size = max_rows, hparams.vocab_size
        self.item_rows = item_rows([each for each in hparams.by_layer if each.attends], threads)
        self._arrays: list[NDArray[np.generic]] = []
        widths = widths_of(hparams)
        self._rows_of_board(widths, max_rows)
        self._inputs(on.EXPERT_FLOATS, max_rows * hparams.experts_used, hparams.width)
        self._scratch(_scratch_bytes(hparams, widths, max_rows), threads)
        self.projected = self._floats(max_rows * widths.projected)
        self.convolved = self._floats(max_rows * widths.convolved)
        self.first_values = self._floats(max_rows * widths.shifted)
        self.attended = self._floats(max_rows * widths.model)
        self.added = self._floats(max_rows * widths.model)
        self.high = self._floats(max_rows * widths.stacked)
        self.low = self._floats(max_rows * widths.stacked)
        self.layer_inputs = self._floats(max_rows * widths.all_columns)
        self.layer_gate = self._floats(max_rows * widths.columns)
        self.streams = self._streams(max_rows, widths.streamed, widths.fed)
        self.mixture = self._mixture(hparams, max_rows)

    def places(
        self, slots: Slots, logits: int, *, turns: tuple[int, ...], rare: Mapping[int, int]
    ) -> Places:
        """What a program's instructions name. `logits`: where its rows of logits begin."""
        return Places(
            residual=int(self.board[on.RESIDUAL]),
            heads=int(self.board[on.HEADS_FLOATS]),
            hidden=int(self.board[on.HIDDEN_FLOATS]),
            projected=self.projected,
            attended=self.attended,
            added=self.added,
            logits=logits,
            logits_row=self._vocab_size,
            kv=slots.kv.places,
            block_bytes=slots.kv.stride,
            kv_type=slots.kv.kv_type,
            turns=turns,
            mixture=self.mixture,
            streams=self.streams,
            rare=rare,
            layer_inputs=self.layer_inputs,
            layer_gate=self.layer_gate,
            convolved=self.convolved,
            first_values=self.first_values,
            high=self.high,
            low=self.low,
            states=() if slots.states is None else slots.states.places,
        )

    def _mixture(self, hparams: Hparams, rows: int) -> Mixture:
        used, width = hparams.experts_used, hparams.width
        # What attention gave was added to the residual already, unless both take the same.
        is_beside = hparams.is_parallel and hparams.shared_hidden > 0
        return Mixture(
            scores=self._floats(rows * hparams.experts),
            chances=self._floats(rows * hparams.experts),
            chosen=self._words(rows * used),
            shares=self._floats(rows * used),
            places=self._words(rows * used),
            order=self._words(rows * used),
            active=self._words(3 * hparams.experts),
            filled=self._words(hparams.experts),
            out=self._floats(rows * used * width),
            shared=self._floats(rows * width) if is_beside else self.attended,
        )

    def _streams(self, rows: int, width: int, hidden: int) -> Streams:
        """Nothing, if the width is 0."""
        return Streams(
            all=self._floats(rows * STREAMS * width),
            laurel=self._floats(rows * width),
            both=self._floats(rows * 2 * hidden if width else 0),
        )

    def _rows_of_board(self, widths: Widths, rows: int) -> None:
        """The residual, the queries and the inputs of products, of which the board has the addresses."""
        self._set(on.WIDTH, widths.model)
        self._set(on.RESIDUAL, self._floats(rows * widths.model))
        self._set(on.QUERIES, self._floats(rows * widths.queries))
        self._inputs(on.INPUT_FLOATS, rows, widths.model)
        self._inputs(on.HEADS_FLOATS, rows, widths.heads)
        self._inputs(on.HIDDEN_FLOATS, rows, widths.hidden)
        self._inputs(on.LATENT_FLOATS, rows, widths.latent)
        for i in range(on.MOST_SHIFTED):
            self._inputs(on.SHIFTED + 3 * i, rows, widths.shifted)
        for i in range(on.MOST_PAIRED):
            self._inputs(on.PAIRED + 3 * i, rows, widths.ranked)

    def _scratch(self, num_bytes: int, threads: int) -> None:
        """Memory of each thread's own, in whole pages."""
        each = -(-num_bytes // 4096) * 4096
        self._set(on.SCRATCH_BYTES, each)
        self._set(on.SCRATCH, self._floats(threads * each // 4))

    def _set(self, slot: int, value: int) -> None:
        self.board[slot] = value

    def _array(self, count: int, kind: type[np.generic]) -> NDArray[np.generic]:
        self._arrays.append(zeros(count, kind))
        return self._arrays[-1]

    def _floats(self, count: int) -> int:
        return address(self._array(count, np.float32))

    def _words(self, count: int) -> int:
        return address(self._array(count, np.int64))

    def _inputs(self, first: int, rows: int, columns: int) -> None:
        """Allocate a product's input (floats, bytes and scales) and write the addresses to three words of the board."""
        self._set(first, self._floats(rows * columns))
        self._set(first + 1, address(self._array(rows * columns, np.int8)))
        self._set(first + 2, self._floats(rows * columns // 8))


def _scratch_bytes(hparams: Hparams, widths: Widths, rows: int) -> int:
    """What a thread needs beside the rows: at most one of these at a time."""
    layers = hparams.by_layer
    needs = [
        *(scratch_bytes(layer.head_size) for layer in layers if layer.attends),
        *(matrices_scratch(each.size) for each in recurrences_of(layers)),
        scan_scratch(rows),
        rows * 2 * UNIT_FLOATS * 4,
        4 * widths.all_columns,
        4 * (widths.streamed + SCRATCH_FLOATS),
    ]
    return max(needs)
