"""Inner loops of attention: query rows against a block's keys, and a block's values added up by their shares.

A block holds keys as [dimension][32] (lanes are tokens, no sum crosses lanes) and values as [32][dimension], in the
numbers that the KV cache keeps. Few rows read the block itself and prefetch the one after it. Of many rows the first
tile copies the block as f32, which the others read.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from segue.runners.cpu.emit import (
    LANES,
    Builder,
    Value,
    ahead,
    at,
    cell,
    f32,
    floats,
    fma,
    load,
    loop,
    number,
    splat,
    store,
)
from segue.runners.cpu.kernel import INT, VOID, compiled, define
from segue.runners.cpu.step.attention.kv_formats import head_bytes
from segue.runners.cpu.step.attention.loading import (
    AT_ONCE,
    FLOATS,
    KEPT,
    LINE,
    Numbers,
    fetch,
    kv_type,
)
from segue.runners.cpu.step.attention.scratch import (
    BLOCK,
    FIRST_ROWS,
    QUERY_PART,
    ROW_BYTES,
    SEGMENT,
    TILE_ROWS,
)

WIDE_REGISTERS = "SEGUE_WIDE_REGISTERS"  # set by compile.py
is_wide = os.environ.get(WIDE_REGISTERS) == "1"
# Rows of a tile, and vectors of each: 24 of 32 registers of 512 bits, 12 of 16 of 256 bits, 24 of 32 of 128 bits.
TILE, _TILE_WIDTH = (FIRST_ROWS, 2) if is_wide else (FIRST_ROWS // 2, 1)
HALF_TILE = TILE // 2
# Columns of a segment's values that all tiles go through before the next ones: 16 KiB stay in the first-level cache,
# but twice as much, which a wide tile takes, do not.
_COLUMNS = 1 << 16 if is_wide else LANES
FEW = 8  # up to this many rows are few
_MOST, _FEW_VECTORS = (
    (8, 16) if is_wide else (4, 4)
)  # rows of the largest kernel for few, vectors of sums

_PART_BYTES = head_bytes(kv_type, QUERY_PART)  # of keys that meet a part of queries
Kernel = Callable[..., Any]


# --- scores ---


def _score(
    b: Builder,
    queries: list[Value],
    keys: Value,
    out: Value,
    dimensions: Value,
    *,
    width: int,
    numbers: Numbers,
    following: Value | None = None,
    floats_out: Value | None = None,
    goes_on: Value | None = None,
) -> None:
    """Rows against 32 tokens, 16 * width at a time.

    Prefetches a line of `following` for each dimension, and copies the keys as floats to `floats_out`. `goes_on`:
    whether dimensions before these were added up to what is at `out`.
    """
    for start in range(0, BLOCK // LANES, width):
        sums = [[cell(b, floats(0.0)) for _ in range(width)] for _ in queries]
        outs = [
            [ahead(b, out, ROW_BYTES * row + 4 * LANES * (start + j)) for j in range(width)]
            for row in range(len(queries))
        ]
        if goes_on is not None:
            with b.if_then(b.icmp_signed("!=", goes_on, number(0))):
                for places, own in zip(outs, sums, strict=True):
                    for place, total in zip(places, own, strict=True):
                        b.store(load(b, place), total)
        parts = range(start, start + width)
        later = following if start == 0 else None
        with numbers.each_key(b, keys, dimensions, parts, later) as (first, reads):
            for i, read in enumerate(reads):
                key = [read(part) for part in parts]
                if floats_out is not None:
                    target = at(b, floats_out, first, 4 * BLOCK)
                    for one, part in zip(key, parts, strict=True):
                        store(b, one, ahead(b, target, 4 * LANES * part))
                for query, own in zip(queries, sums, strict=True):
                    factor = splat(b, load(b, ahead(b, at(b, query, first, 4), 4 * i), f32))
                    for j in range(width):
                        b.store(fma(b, factor, key[j], b.load(own[j])), own[j])
        for places, own in zip(outs, sums, strict=True):
            for place, total in zip(places, own, strict=True):
                store(b, b.load(total), place)


def _score_few(b: Builder, rows: int, args: list[Value]) -> None:
    """q, row_bytes, keys, following, out, dimensions"""
    q, row_bytes, keys, following, out, dimensions = args
    queries = [b.add(q, b.mul(row_bytes, number(row))) for row in range(rows)]
    width = max(1, min(2, _FEW_VECTORS // rows))
    _score(b, queries, keys, out, dimensions, width=width, numbers=KEPT, following=following)


def _score_tile_of(rows: int) -> Kernel:
    """(q, keys, out, dimensions, goes_on): keys are floats, rows of queries are ROW_BYTES apart."""

    @define(VOID, INT, INT, INT, INT, INT)
    def scores(
        b: Builder, q: Value, keys: Value, out: Value, dimensions: Value, goes_on: Value
    ) -> None:
        _score(
            b,
            [ahead(b, q, ROW_BYTES * row) for row in range(rows)],
            keys,
            out,
            dimensions,
            width=_TILE_WIDTH,
            numbers=FLOATS,
            goes_on=goes_on,
        )

    return scores


@define(VOID, INT, INT, INT, INT, INT, INT, INT)
def _score_first_tile(
    b: Builder,
    q: Value,
    keys: Value,
    following: Value,
    floats_out: Value,
    out: Value,
    dimensions: Value,
    goes_on: Value,
) -> None:
    """The same of TILE rows and keys as they are kept, which are copied as floats."""
    _score(
        b,
        [ahead(b, q, ROW_BYTES * row) for row in range(TILE)],
        keys,
        out,
        dimensions,
        width=_TILE_WIDTH,
        numbers=KEPT,
        following=following,
        floats_out=floats_out,
        goes_on=goes_on,
    )


# --- sums of values ---


@dataclass(frozen=True)
class _Mixer:
    """Adds up to a segment's values by their shares. Floats are a whole segment's, whose sum is added to what is there:
    tokens added one by one to the sum of a long context would lose what is below its last place.
    """

    rows: int
    width: int  # vectors of each row's sums in registers
    numbers: Numbers
    is_first: bool = False  # copies the values as floats

    def emit(self, b: Builder, args: list[Value]) -> None:
        """p, values, following, floats_out, tokens, out, dimensions, columns, apart (see _mixer)"""
        columns = args[-2]
        step = LANES * self.width
        wide = b.udiv(columns, number(step))
        with loop(b, wide) as each:
            self._columns(b, b.mul(each.index, number(step)), self.width, args)
        done = b.mul(wide, number(step))
        with loop(b, b.udiv(b.sub(columns, done), number(LANES))) as each:
            self._columns(b, b.add(done, b.mul(each.index, number(LANES))), 1, args)

    def _columns(self, b: Builder, column: Value, width: int, args: list[Value]) -> None:
        """16 * width columns."""
        p, values, following, floats_out, tokens, out, dimensions, _, apart = args
        row_bytes, is_whole = b.mul(dimensions, number(4)), self.numbers is FLOATS
        first = at(b, out, column, 4)
        outs = [b.add(first, b.mul(row_bytes, number(row))) for row in range(self.rows)]
        places = [[ahead(b, one, 64 * j) for j in range(width)] for one in outs]
        sums = [
            [cell(b, floats(0.0) if is_whole else load(b, place)) for place in own]
            for own in places
        ]
        copy = b.add(values if is_whole else floats_out, b.mul(column, number(4 * SEGMENT)))
        read = None
        if not is_whole:
            read = self.numbers.values(b, values, following, column, width, apart)

        def add(first: Value, i: int = 0) -> None:
            """The value of token `first` + i; i is 0 if it is to be read as it is kept."""
            copied = ahead(b, at(b, copy, first, 4 * LANES), 4 * LANES * i)
            copies = [ahead(b, copied, 4 * LANES * SEGMENT * j) for j in range(width)]
            value = [load(b, one) for one in copies] if read is None else read(first)
            if self.is_first:
                for one, target in zip(value, copies, strict=True):
                    store(b, one, target)
            for row, own in enumerate(sums):
                place = ahead(b, at(b, p, first, 4), ROW_BYTES * row + 4 * i)
                share = splat(b, load(b, place, f32))
                for j in range(width):
                    b.store(fma(b, share, value[j], b.load(own[j])), own[j])

        done = number(0)
        if is_whole and width == self.width:
            rounds = b.udiv(tokens, number(AT_ONCE))
            with loop(b, rounds) as each:
                for i in range(AT_ONCE):
                    add(b.mul(each.index, number(AT_ONCE)), i)
            done = b.mul(rounds, number(AT_ONCE))
        with loop(b, b.sub(tokens, done)) as each:
            add(b.add(done, each.index))
        for targets, own in zip(places, sums, strict=True):
            for target, total in zip(targets, own, strict=True):
                found = b.load(total)
                store(b, b.fadd(load(b, target), found) if is_whole else found, target)


def _mixer(rows: int, numbers: Numbers, is_first: bool = False) -> Kernel:
    """(p, values, following, floats_out, tokens, out, dimensions, columns, apart)

    Takes so many `columns` of the `dimensions` that rows of `out` have. `apart`: numbers of a token, if they are
    side by side. Floats, and what is copied to `floats_out`, lie as [16 columns of them][token of the segment][16].
    """
    mixer = _Mixer(rows, _TILE_WIDTH, numbers, is_first)

    @define(VOID, *[INT] * 9)
    def mix(b: Builder, *args: Value) -> None:
        mixer.emit(b, list(args))

    return mix


# --- by the number of rows ---


def by_rows(
    num_args: int, emit: Callable[[Builder, int, list[Value]], None], largest: int = _MOST
) -> Kernel:
    """(rows, arguments): what `emit` makes for 1, 2, … rows; for the largest number if there are more."""

    @define(VOID, *[INT] * (1 + num_args))
    def choose(b: Builder, rows: Value, *args: Value) -> None:
        most, after = b.append_basic_block("most"), b.append_basic_block("after")
        chosen = b.switch(rows, most)
        for count in range(1, largest + 1):
            block = most if count == largest else b.append_basic_block("few")
            if block is not most:
                chosen.add_case(number(count), block)
            b.position_at_end(block)
            emit(b, count, list(args))
            b.branch(after)
        b.position_at_end(after)

    return choose


def _mix_width(rows: int) -> int:
    """Vectors of each row's sums: 1, 2 or 4."""
    return max(width for width in (1, 2, 4) if width == 1 or width * rows <= _FEW_VECTORS)


def _mix_few(b: Builder, rows: int, args: list[Value]) -> None:
    _Mixer(rows, _mix_width(rows), KEPT).emit(b, args)


_score_some, _mix_some = by_rows(6, _score_few), by_rows(9, _mix_few)
_score_tile, _score_half = _score_tile_of(TILE), _score_tile_of(HALF_TILE)
_mix_tile, _mix_half = _mixer(TILE, FLOATS), _mixer(HALF_TILE, FLOATS)
mix_first_tile = _mixer(TILE, KEPT, is_first=True)


@compiled
def score_few(q: Any, rows: Any, keys: Any, following: Any, out: Any, size: Any) -> None:
    """`rows` queries against 32 tokens. Prefetches the block at `following`."""
    for row in range(0, rows, _MOST):
        place = out + row * ROW_BYTES
        _score_some(rows - row, q + row * size * 4, size * 4, keys, following, place, size)


@compiled
def mix_few(
    p: Any, rows: Any, values: Any, following: Any, tokens: Any, out: Any, size: Any, apart: Any
) -> None:
    """Add `tokens` values to each row's sums. Prefetches the block at `following`."""
    for row in range(0, rows, _MOST):
        place, sums = p + row * ROW_BYTES, out + row * size * 4
        _mix_some(rows - row, place, values, following, 0, tokens, sums, size, size, apart)


@compiled
def score_tiles(
    q: Any, rows: Any, keys: Any, following: Any, floats_out: Any, out: Any, size: Any
) -> None:
    """The same for rows that are at least TILE, a multiple of HALF_TILE, and ROW_BYTES apart, in parts of QUERY_PART.

    The first tile copies a part of the keys as floats to `floats_out`, where the others read it.
    """
    for first in range(0, size, QUERY_PART):
        count, offset = min(QUERY_PART, size - first), first // QUERY_PART * _PART_BYTES
        _score_first_tile(q, keys + offset, following + offset, floats_out, out, count, first)
        row = TILE
        while row + TILE <= rows:
            _score_tile(q + row * ROW_BYTES, floats_out, out + row * ROW_BYTES, count, first)
            row += TILE
        if row < rows:
            _score_half(q + row * ROW_BYTES, floats_out, out + row * ROW_BYTES, count, first)
        q += TILE_ROWS * ROW_BYTES


@compiled
def mix_tiles(p: Any, rows: Any, values: Any, tokens: Any, out: Any, size: Any) -> None:
    """Add a segment's `tokens` values in f32 to the sums of all rows but those of the first tile."""
    for first in range(0, size, _COLUMNS):
        count, some = min(_COLUMNS, size - first), values + first * SEGMENT * 4
        row = TILE
        while row + TILE <= rows:
            sums = out + (row * size + first) * 4
            _mix_tile(p + row * ROW_BYTES, some, 0, 0, tokens, sums, size, count, 0)
            row += TILE
        if row < rows:
            sums = out + (row * size + first) * 4
            _mix_half(p + row * ROW_BYTES, some, 0, 0, tokens, sums, size, count, 0)


@define(VOID, INT, INT)
def fetch_ahead(b: Builder, x: Value, count: Value) -> None:
    """Prefetch `count` cache lines."""
    with loop(b, count) as each:
        fetch(b, at(b, x, each.index, LINE))
