"""Inner loops of attention: query rows against a block's keys, and a block's values added up by their shares.

A block holds keys as [dimension][32] (lanes are tokens, no sum crosses lanes) and values as [32][dimension]. Few rows
read the f16 block itself and prefetch the one after it. Of many rows the
first tile copies the block as f32, which the others read.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir

from segue.runners.cpu.emit import (
    LANES,
    Builder,
    Value,
    ahead,
    at,
    call,
    cell,
    f32,
    floats,
    fma,
    i8,
    i32,
    load,
    loop,
    number,
    pointer,
    splat,
    store,
)
from segue.runners.cpu.kernel import INT, VOID, compiled, define
from segue.runners.cpu.step.attention.scratch import BLOCK, ROW_BYTES
from segue.runners.cpu.step.halves import widened

WIDE_REGISTERS = "SEGUE_WIDE_REGISTERS"  # set by compile.py
is_wide = os.environ.get(WIDE_REGISTERS) == "1"
# Rows of a tile, and vectors of each: 24 of 32 registers of 512 bits, 12 of 16 of 256 bits, 24 of 32 of 128 bits.
TILE, _TILE_WIDTH = (12, 2) if is_wide else (6, 1)
HALF_TILE = TILE // 2
FEW = 8  # up to this many rows are few
_MOST, _FEW_VECTORS = (
    (8, 16) if is_wide else (4, 4)
)  # rows of the largest kernel for few, vectors of sums

LINE = 64  # bytes of a cache line
Kernel = Callable[..., Any]


class _Numbers(NamedTuple):
    """How a block's numbers lie in memory: bytes of each, and how 16 are read as floats."""

    size: int
    read: Callable[[Builder, Value], Value]


_HALVES, _FLOATS = _Numbers(2, widened), _Numbers(4, load)


def _fetch(b: Builder, place: Value) -> None:
    """Prefetch a cache line."""
    options = [ir.Constant(i32, option) for option in (0, 3, 1)]  # to read, to keep, data
    call(b, "llvm.prefetch.p0i8", ir.VoidType(), pointer(b, place, i8), *options)


# --- scores ---


def _score(
    b: Builder,
    queries: list[Value],
    keys: Value,
    out: Value,
    dimensions: Value,
    *,
    width: int,
    numbers: _Numbers,
    following: Value | None = None,
    floats_out: Value | None = None,
) -> None:
    """Rows against 32 tokens, 16 * width at a time.

    Prefetches a line of `following` for each dimension, and copies the keys as floats to `floats_out`.
    """
    for start in range(0, BLOCK // LANES, width):
        sums = [[cell(b, floats(0.0)) for _ in range(width)] for _ in queries]
        base = ahead(b, keys, numbers.size * LANES * start)
        with loop(b, dimensions) as each:
            place = at(b, base, each.index, numbers.size * BLOCK)
            if following is not None and start == 0:
                _fetch(b, at(b, following, each.index, numbers.size * BLOCK))
            key = [numbers.read(b, ahead(b, place, numbers.size * LANES * j)) for j in range(width)]
            if floats_out is not None:
                target = at(b, floats_out, each.index, 4 * BLOCK)
                for j in range(width):
                    store(b, key[j], ahead(b, target, 4 * LANES * (start + j)))
            for query, own in zip(queries, sums, strict=True):
                factor = splat(b, load(b, at(b, query, each.index, 4), f32))
                for j in range(width):
                    b.store(fma(b, factor, key[j], b.load(own[j])), own[j])
        for row, own in enumerate(sums):
            for j in range(width):
                store(b, b.load(own[j]), ahead(b, out, ROW_BYTES * row + 4 * LANES * (start + j)))


def _score_few_of(rows: int) -> Kernel:
    """(q, row_bytes, keys, following, out, dimensions)"""
    width = max(1, min(2, _FEW_VECTORS // rows))

    @define(VOID, INT, INT, INT, INT, INT, INT)
    def scores(
        b: Builder,
        q: Value,
        row_bytes: Value,
        keys: Value,
        following: Value,
        out: Value,
        dimensions: Value,
    ) -> None:
        queries = [b.add(q, b.mul(row_bytes, number(row))) for row in range(rows)]
        _score(b, queries, keys, out, dimensions, width=width, numbers=_HALVES, following=following)

    return scores


def _score_tile_of(rows: int) -> Kernel:
    """(q, keys, out, dimensions): keys are floats, rows of queries are ROW_BYTES apart."""

    @define(VOID, INT, INT, INT, INT)
    def scores(b: Builder, q: Value, keys: Value, out: Value, dimensions: Value) -> None:
        queries = [ahead(b, q, ROW_BYTES * row) for row in range(rows)]
        _score(b, queries, keys, out, dimensions, width=_TILE_WIDTH, numbers=_FLOATS)

    return scores


@define(VOID, INT, INT, INT, INT, INT, INT)
def _score_first_tile(
    b: Builder,
    q: Value,
    keys: Value,
    following: Value,
    floats_out: Value,
    out: Value,
    dimensions: Value,
) -> None:
    """The same of TILE rows and f16 keys, which are copied as floats."""
    _score(
        b,
        [ahead(b, q, ROW_BYTES * row) for row in range(TILE)],
        keys,
        out,
        dimensions,
        width=_TILE_WIDTH,
        numbers=_HALVES,
        following=following,
        floats_out=floats_out,
    )


# --- sums of values ---


def _mix_of(rows: int, width: int, numbers: _Numbers, is_first: bool = False) -> Kernel:
    """(p, values, following, floats_out, value_bytes, tokens, out, row_bytes): add `tokens` values, 16 * width columns.

    `is_first`: the values are copied as floats.
    """

    @define(VOID, INT, INT, INT, INT, INT, INT, INT, INT)
    def mix(
        b: Builder,
        p: Value,
        values: Value,
        following: Value,
        floats_out: Value,
        value_bytes: Value,
        tokens: Value,
        out: Value,
        row_bytes: Value,
    ) -> None:
        outs = [b.add(out, b.mul(row_bytes, number(row))) for row in range(rows)]
        sums = [[cell(b, load(b, ahead(b, one, 64 * j))) for j in range(width)] for one in outs]
        with loop(b, tokens) as each:
            offset = b.mul(each.index, value_bytes)
            place = b.add(values, offset)
            if numbers is _HALVES:
                for line in range(0, 2 * LANES * width, LINE):
                    _fetch(b, ahead(b, b.add(following, offset), line))
            value = [
                numbers.read(b, ahead(b, place, numbers.size * LANES * j)) for j in range(width)
            ]
            if is_first:
                target = b.add(floats_out, b.mul(offset, number(2)))
                for j in range(width):
                    store(b, value[j], ahead(b, target, 4 * LANES * j))
            for row, own in enumerate(sums):
                share = splat(b, load(b, at(b, ahead(b, p, ROW_BYTES * row), each.index, 4), f32))
                for j in range(width):
                    b.store(fma(b, share, value[j], b.load(own[j])), own[j])
        for one, own in zip(outs, sums, strict=True):
            for j in range(width):
                store(b, b.load(own[j]), ahead(b, one, 64 * j))

    return mix


def _mixer(rows: int, width: int, numbers: _Numbers, is_first: bool = False) -> Kernel:
    """(p, values, following, floats_out, tokens, out, dimensions): add up to 32 values of a block by their shares."""
    wide, narrow = (_mix_of(rows, each, numbers, is_first) for each in (width, 1))
    step, each = LANES * width, numbers.size

    @compiled
    def mix(
        p: Any,
        values: Any,
        following: Any,
        floats_out: Any,
        tokens: Any,
        out: Any,
        dimensions: Any,
    ) -> None:
        column, value_bytes, row_bytes = 0, each * dimensions, 4 * dimensions
        while column + step <= dimensions:
            near, far, kept = each * column, following + each * column, floats_out + 4 * column
            wide(p, values + near, far, kept, value_bytes, tokens, out + 4 * column, row_bytes)
            column += step
        while column < dimensions:
            near, far, kept = each * column, following + each * column, floats_out + 4 * column
            narrow(p, values + near, far, kept, value_bytes, tokens, out + 4 * column, row_bytes)
            column += LANES

    return mix


# --- by the number of rows ---


def _choice(kernels: list[Kernel]) -> Kernel:
    """(rows, arguments of a kernel): calls the kernel for 1, 2, … rows; the last one for all larger numbers."""
    *fewer, kernel = kernels
    if not fewer:

        @compiled
        def only(rows: Any, *args: Any) -> None:
            kernel(*args)

        return only
    count, otherwise = len(kernels), _choice(fewer)

    @compiled
    def choose(rows: Any, *args: Any) -> None:
        if rows >= count:
            kernel(*args)
        else:
            otherwise(rows, *args)

    return choose


def _mix_width(rows: int) -> int:
    """Vectors of each row's sums: 1, 2 or 4."""
    return max(width for width in (1, 2, 4) if width == 1 or width * rows <= _FEW_VECTORS)


_score_some = _choice([_score_few_of(rows) for rows in range(1, _MOST + 1)])
_mix_some = _choice([_mixer(rows, _mix_width(rows), _HALVES) for rows in range(1, _MOST + 1)])
_score_tile, _score_half = _score_tile_of(TILE), _score_tile_of(HALF_TILE)
_mix_tile, _mix_half = (_mixer(rows, _TILE_WIDTH, _FLOATS) for rows in (TILE, HALF_TILE))
mix_first_tile = _mixer(TILE, _TILE_WIDTH, _HALVES, is_first=True)


@compiled
def score_few(q: Any, rows: Any, keys: Any, following: Any, out: Any, size: Any) -> None:
    """`rows` queries against 32 tokens of f16 keys. Prefetches the block at `following`."""
    for row in range(0, rows, _MOST):
        place = out + row * ROW_BYTES
        _score_some(rows - row, q + row * size * 4, size * 4, keys, following, place, size)


@compiled
def mix_few(
    p: Any, rows: Any, values: Any, following: Any, tokens: Any, out: Any, size: Any
) -> None:
    """Add `tokens` f16 values to each row's sums. Prefetches the block at `following`."""
    for row in range(0, rows, _MOST):
        place = p + row * ROW_BYTES
        _mix_some(rows - row, place, values, following, 0, tokens, out + row * size * 4, size)


@compiled
def score_tiles(
    q: Any, rows: Any, keys: Any, following: Any, floats_out: Any, out: Any, size: Any
) -> None:
    """The same for rows that are at least TILE, a multiple of HALF_TILE, and ROW_BYTES apart.

    The first tile copies the keys as floats to `floats_out`, where the others read them.
    """
    _score_first_tile(q, keys, following, floats_out, out, size)
    row = TILE
    while row + TILE <= rows:
        _score_tile(q + row * ROW_BYTES, floats_out, out + row * ROW_BYTES, size)
        row += TILE
    if row < rows:
        _score_half(q + row * ROW_BYTES, floats_out, out + row * ROW_BYTES, size)


@compiled
def mix_tiles(p: Any, rows: Any, values: Any, tokens: Any, out: Any, size: Any) -> None:
    """Add `tokens` values in f32 to the sums of all rows but those of the first tile."""
    row = TILE
    while row + TILE <= rows:
        _mix_tile(p + row * ROW_BYTES, values, 0, 0, tokens, out + row * size * 4, size)
        row += TILE
    if row < rows:
        _mix_half(p + row * ROW_BYTES, values, 0, 0, tokens, out + row * size * 4, size)


@define(VOID, INT, INT)
def fetch_ahead(b: Builder, x: Value, count: Value) -> None:
    """Prefetch `count` cache lines."""
    with loop(b, count) as each:
        _fetch(b, at(b, x, each.index, LINE))
