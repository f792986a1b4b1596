"""Attention over blocks of 32 cells: the query heads that share a key head, of one or several rows of a sequence.

A block holds keys as [dimension][32] (lanes are tokens, no sum crosses lanes) and values as [32][dimension], both f16.
A context is processed in segments of 8 blocks: scores of a segment, their exponentials, the sum of values; segments
are then joined in order. That order does not depend on which rows share a tile, and so neither do a row's bits.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
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
from segue.runners.cpu.kernel import INT, VOID, compiled, define, inlined
from segue.runners.cpu.step.atomics import put_real, real, word
from segue.runners.cpu.step.halves import lane, narrowed, put_halves, widened
from segue.runners.cpu.step.lanes import clear, scale, vectors
from segue.runners.cpu.step.shares import NOTHING, blend, cap_scores, exp_one, shares, total_of

BLOCK = 32  # tokens
SEGMENT_BLOCKS = 8
SEGMENT = BLOCK * SEGMENT_BLOCKS
# Bytes per row of scores. Padded: rows exactly 1 KiB apart would fall into the same few sets of the first-level cache.
ROW_BYTES = 4 * (SEGMENT + LANES)
TILE_ROWS = 32  # query heads worked on together: they read a segment's keys and values once

WIDE_REGISTERS = "SEGUE_WIDE_REGISTERS"  # set by compile.py
_FEW = 8  # up to this many rows (one token), keys and values are not in the cache yet: prefetch
# How many vectors of 16 a tile may keep in registers: 32 registers of 512 bits, or 16 to 32 smaller ones.
_VECTORS = 8 if os.environ.get(WIDE_REGISTERS) == "1" else 2
_MOST = _VECTORS if _VECTORS == 8 else 4  # rows of the largest tile


def _scores_of(rows: int) -> Callable[..., Any]:
    """(q, row_bytes, keys, out, dimensions): `rows` queries against 32 tokens."""
    width = max(1, min(2, 2 * _VECTORS // rows))

    @define(VOID, INT, INT, INT, INT, INT)
    def scores(
        b: Builder, q: Value, row_bytes: Value, keys: Value, out: Value, dimensions: Value
    ) -> None:
        queries = [b.add(q, b.mul(row_bytes, number(row))) for row in range(rows)]
        for start in range(0, 2, width):
            sums = [[cell(b, floats(0.0)) for _ in range(width)] for _ in range(rows)]
            base = ahead(b, keys, 32 * start)
            with loop(b, dimensions) as each:
                place = at(b, base, each.index, 2 * BLOCK)
                key = [widened(b, ahead(b, place, 32 * j)) for j in range(width)]
                for row in range(rows):
                    query = splat(b, load(b, at(b, queries[row], each.index, 4), f32))
                    for j in range(width):
                        b.store(fma(b, query, key[j], b.load(sums[row][j])), sums[row][j])
            for row in range(rows):
                for j in range(width):
                    place = ahead(b, out, ROW_BYTES * row + 64 * (start + j))
                    store(b, b.load(sums[row][j]), place)

    return scores


def _mix_of(rows: int, width: int) -> Callable[..., Any]:
    """(p, values, value_bytes, tokens, out, row_bytes): add `tokens` values by their shares, 16 * width columns."""

    @define(VOID, INT, INT, INT, INT, INT, INT)
    def mix(
        b: Builder,
        p: Value,
        values: Value,
        value_bytes: Value,
        tokens: Value,
        out: Value,
        row_bytes: Value,
    ) -> None:
        outs = [b.add(out, b.mul(row_bytes, number(row))) for row in range(rows)]
        sums = [
            [cell(b, load(b, ahead(b, outs[row], 64 * j))) for j in range(width)]
            for row in range(rows)
        ]
        with loop(b, tokens) as each:
            place = b.add(values, b.mul(each.index, value_bytes))
            value = [widened(b, ahead(b, place, 32 * j)) for j in range(width)]
            for row in range(rows):
                share = splat(b, load(b, at(b, ahead(b, p, ROW_BYTES * row), each.index, 4), f32))
                for j in range(width):
                    b.store(fma(b, share, value[j], b.load(sums[row][j])), sums[row][j])
        for row in range(rows):
            for j in range(width):
                store(b, b.load(sums[row][j]), ahead(b, outs[row], 64 * j))

    return mix


_scores1, _scores2, _scores3, _scores4 = (_scores_of(rows) for rows in (1, 2, 3, 4))
_scores8 = _scores_of(_MOST)


def _mixer(rows: int) -> Callable[..., Any]:
    """(p, values, tokens, out, dimensions): add up to 32 values of a block by their shares."""
    width = {1: 4, 2: _VECTORS // 2 or 1}.get(rows, _VECTORS // 4 or 1)
    wide, narrow, step = _mix_of(rows, width), _mix_of(rows, 1), LANES * width

    @compiled
    def mix(p: Any, values: Any, tokens: Any, out: Any, dimensions: Any) -> None:
        column = 0
        while column + step <= dimensions:
            wide(p, values + 2 * column, 2 * dimensions, tokens, out + 4 * column, 4 * dimensions)
            column += step
        while column < dimensions:
            narrow(p, values + 2 * column, 2 * dimensions, tokens, out + 4 * column, 4 * dimensions)
            column += LANES

    return mix


_mix1, _mix2, _mix3, _mix4 = (_mixer(rows) for rows in (1, 2, 3, 4))
_mix8 = _mixer(_MOST)


@define(VOID, INT, INT)
def fetch_ahead(b: Builder, x: Value, count: Value) -> None:
    """Prefetch `count` cache lines."""
    one, most = ir.Constant(i32, 1), ir.Constant(i32, 3)
    with loop(b, count) as each:
        place = pointer(b, at(b, x, each.index, 64), i8)
        call(b, "llvm.prefetch.p0i8", ir.VoidType(), place, ir.Constant(i32, 0), most, one)


@define(VOID, INT, INT, INT)
def put_key(b: Builder, x: Value, out: Value, count: Value) -> None:
    """Write one token's column of a block of keys."""
    with loop(b, vectors(b, count)) as each:
        column = narrowed(b, load(b, at(b, x, each.index, 64)))
        place = at(b, out, each.index, 2 * BLOCK * LANES)
        for i in range(LANES):
            store(b, lane(b, column, i), ahead(b, place, 2 * BLOCK * i), 2)


@define(VOID, INT, INT, INT)
def put_value(b: Builder, x: Value, out: Value, count: Value) -> None:
    """Write one token's row of a block of values."""
    with loop(b, vectors(b, count)) as each:
        put_halves(b, load(b, at(b, x, each.index, 64)), at(b, out, each.index, 32))


# --- a tile of rows ---


@compiled
def _score_rows(q: Any, rows: Any, keys: Any, out: Any, dimensions: Any) -> None:
    width, row = 4 * dimensions, 0
    while row + _MOST <= rows:
        _scores8(q + row * width, width, keys, out + row * ROW_BYTES, dimensions)
        row += _MOST
    if row + 4 <= rows:
        _scores4(q + row * width, width, keys, out + row * ROW_BYTES, dimensions)
        row += 4
    left = rows - row
    if left == 3:
        _scores3(q + row * width, width, keys, out + row * ROW_BYTES, dimensions)
    elif left == 2:
        _scores2(q + row * width, width, keys, out + row * ROW_BYTES, dimensions)
    elif left == 1:
        _scores1(q + row * width, width, keys, out + row * ROW_BYTES, dimensions)


@compiled
def _mix_tile(p: Any, rows: Any, values: Any, tokens: Any, out: Any, dimensions: Any) -> None:
    """Add the values of a block to rows that all see the same tokens of it."""
    if tokens <= 0:
        return
    if rows == _MOST:
        _mix8(p, values, tokens, out, dimensions)
    elif rows == 4:
        _mix4(p, values, tokens, out, dimensions)
    elif rows == 3:
        _mix3(p, values, tokens, out, dimensions)
    elif rows == 2:
        _mix2(p, values, tokens, out, dimensions)
    else:
        _mix1(p, values, tokens, out, dimensions)


@inlined
def _seen(context: Any, row: Any, group: Any, start: Any, most: Any) -> Any:
    """How many tokens from `start` on a row sees, at most `most`. Rows differ at the end only."""
    return most if context - start >= most else max(0, min(most, context + row // group - start))


@compiled
def _mix_rows(
    p: Any, rows: Any, group: Any, context: Any, start: Any, values: Any, out: Any, size: Any
) -> None:
    """Add the values of one block, whose first token is at `start`, to all rows."""
    row = 0
    while row < rows:
        tokens = _seen(context, row, group, start, BLOCK)
        same = row + 1  # each row sums its own tokens and no others
        while same < rows and _seen(context, same, group, start, BLOCK) == tokens:
            same += 1
        while row < same:
            count = _MOST if same - row >= _MOST else min(4, same - row)
            _mix_tile(p + row * ROW_BYTES, count, values, tokens, out + row * size * 4, size)
            row += count


@compiled
def _mix_segment(
    rows: Any,
    group: Any,
    context: Any,
    begin: Any,
    end: Any,
    start: Any,
    values: Any,
    block_bytes: Any,
    table: Any,
    size: Any,
    scores: Any,
    acc: Any,
) -> None:
    """Add the values of tokens `begin` … `end` - 1 by their shares."""
    for position in range(begin, end, BLOCK):
        block = word(table + 8 * (position // BLOCK)) * block_bytes
        p = scores + 4 * (position - start)
        if rows <= _FEW and position + BLOCK < end:
            following = word(table + 8 * (position // BLOCK + 1)) * block_bytes
            fetch_ahead(values + following, size)
        _mix_rows(p, rows, group, context, position, values + block, acc, size)


@inlined
def _unseen(context: Any, row: Any, group: Any, start: Any, window: Any) -> Any:
    """How many tokens from `start` on lie before what a row sees."""
    return max(0, context + row // group - window - start) if window else 0


@compiled
def _score_segment(
    q: Any,
    rows: Any,
    begin: Any,
    end: Any,
    start: Any,
    keys: Any,
    values: Any,
    block_bytes: Any,
    table: Any,
    size: Any,
    scores: Any,
) -> None:
    """All rows against tokens `begin` … `end` - 1 of the segment at `start`."""
    for position in range(begin, end, BLOCK):
        block = word(table + 8 * (position // BLOCK)) * block_bytes
        if rows > _FEW:
            pass  # the rows of a prompt read the same blocks: they are in the cache
        elif position + BLOCK < end:
            following = word(table + 8 * (position // BLOCK + 1)) * block_bytes
            fetch_ahead(keys + following, size)
        else:
            fetch_ahead(values + word(table + 8 * (begin // BLOCK)) * block_bytes, size)
        _score_rows(q, rows, keys + block, scores + 4 * (position - start), size)


@compiled
def attend(
    q: Any,
    rows: Any,
    group: Any,
    context: Any,
    keys: Any,
    values: Any,
    block_bytes: Any,
    table: Any,
    size: Any,
    scratch: Any,
    out: Any,
    out_bytes: Any,
    window: Any,
    cap: Any,
    sinks: Any,
) -> None:
    """`rows` queries [rows][size], scaled: `group` heads a position, the first of which sees `context` tokens.

    `keys` and `values` are those of the head in block 0; the block table is at `table`. Results go to `out`, positions
    `out_bytes` apart. A row sees the last `window` tokens (0: all); `cap` (0: none) limits scores by tanh; `sinks`
    (0: none) is the address of one score per head that takes a share of the softmax but adds no value.
    """
    scores = scratch
    sums = scores + TILE_ROWS * ROW_BYTES
    all_sums = sums + TILE_ROWS * LANES * 4
    tops = all_sums + TILE_ROWS * LANES * 4
    total = tops + TILE_ROWS * LANES * 4
    part = total + TILE_ROWS * size * 4
    last = context + (rows - 1) // group
    first = max(0, context - window) // BLOCK * BLOCK if window else 0
    if window:
        _begin(rows, scratch, size)
    start = first // SEGMENT * SEGMENT
    while start < last:
        begin, end = max(first, start), min(last, start + SEGMENT)
        acc = total if start == 0 and window == 0 else part
        _score_segment(q, rows, begin, end, start, keys, values, block_bytes, table, size, scores)
        for row in range(rows):
            low = _unseen(context, row, group, start, window)
            count = _seen(context, row, group, start, SEGMENT)
            _weigh(row, low, count, acc == total, scratch, cap)
        clear(acc, rows * size)
        _mix_segment(
            rows, group, context, begin, end, start, values, block_bytes, table, size, scores, acc
        )
        if start or window:
            for row in range(rows):
                low = _unseen(context, row, group, start, window)
                if _seen(context, row, group, start, SEGMENT) > low:
                    _join(row, scratch, size)
        start += SEGMENT
    for row in range(rows):
        place = out + (row // group) * out_bytes + (row % group) * size * 4
        factor = np.float32(1) / total_of(all_sums + row * 64)
        if sinks:
            factor = _with_sink(real(tops + row * 64), factor, real(sinks + (row % group) * 4))
        scale(factor, total + row * size * 4, place, size)


@compiled
def _begin(rows: Any, scratch: Any, size: Any) -> None:
    """Clear sums and values. Rows with a window may begin in different segments: each joins its first one to these."""
    sums = scratch + TILE_ROWS * (ROW_BYTES + 64)
    tops = sums + TILE_ROWS * 64
    clear(sums, rows * LANES)
    clear(tops + TILE_ROWS * 64, rows * size)
    for row in range(rows):
        put_real(tops + row * 64, np.float32(NOTHING))


@compiled
def _with_sink(top: Any, factor: Any, sink: Any) -> Any:
    """The factor that makes a row's shares and the share of its sink add up to 1."""
    greatest = max(top, sink)
    part, rest = exp_one(top - greatest), exp_one(sink - greatest)
    return part / (part / factor + rest)


@compiled
def _weigh(row: Any, low: Any, count: Any, is_first: Any, scratch: Any, cap: Any) -> None:
    """Turn a row's scores of a segment into shares (not normalised). Stores the greatest score and the sum."""
    if count <= low:
        return
    scores = scratch + row * ROW_BYTES
    sums = scratch + TILE_ROWS * ROW_BYTES + row * 64
    all_sums = sums + TILE_ROWS * 64
    tops = scratch + TILE_ROWS * (ROW_BYTES + 128) + row * 64
    if cap != np.float32(0):
        cap_scores(scores, count, cap)
    if is_first:
        put_real(tops, shares(scores, low, count, all_sums))
    else:
        put_real(tops + 4, shares(scores, low, count, sums))


@compiled
def _join(row: Any, scratch: Any, size: Any) -> None:
    """Add a segment's values and sums to those before it, both rescaled to the greatest score so far."""
    sums = scratch + TILE_ROWS * ROW_BYTES + row * 64
    tops = scratch + TILE_ROWS * (ROW_BYTES + 128) + row * 64
    total = scratch + TILE_ROWS * (ROW_BYTES + 192) + row * size * 4
    before, now = real(tops), real(tops + 4)
    greatest = max(before, now)
    left, right = exp_one(before - greatest), exp_one(now - greatest)
    blend(left, total, right, total + TILE_ROWS * size * 4, size)
    blend(left, sums + TILE_ROWS * 64, right, sums, LANES)
    put_real(tops, greatest)


def scratch_bytes(size: int) -> int:
    """What one thread needs for heads of that size."""
    return TILE_ROWS * (ROW_BYTES + 192 + 2 * size * 4)
