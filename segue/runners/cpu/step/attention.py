"""Attention over blocks of 32 cells: the query heads that share a key head, of one or several rows of a sequence.

A block holds keys as [dimension][32] (lanes are tokens, no sum crosses lanes) and values as [32][dimension], both f16.
A context is worked off in segments of 8 blocks: scores of a segment, their exponentials, the sum of values; segments
are then joined in order. That order is the same whatever rows share a tile, so a row's bits do not depend on company.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from segue.runners.cpu.emit import (
    INTS,
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
    greater,
    i8,
    i32,
    load,
    loop,
    number,
    pointer,
    splat,
    store,
    tree,
)
from segue.runners.cpu.kernel import FLOAT, INT, VOID, compiled, define, inlined
from segue.runners.cpu.step.atomics import real, word
from segue.runners.cpu.step.halves import lane, narrowed, put_halves, widened
from segue.runners.cpu.step.lanes import clear, exp, maximum, scale, vectors

BLOCK = 32  # tokens
SEGMENT_BLOCKS = 8
SEGMENT = BLOCK * SEGMENT_BLOCKS
TILE_ROWS = (
    32  # query heads worked on together: a segment's keys and values are read once for all of them
)

WIDE_REGISTERS = "SEGUE_WIDE_REGISTERS"  # set by compile.py
_FEW = 8  # rows: one token's, whose keys and values nobody has read before
_NOTHING = -1e30  # below every score
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
                    place = ahead(b, out, 4 * SEGMENT * row + 64 * (start + j))
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
                share = splat(b, load(b, at(b, ahead(b, p, 4 * SEGMENT * row), each.index, 4), f32))
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


@define(FLOAT, INT, INT, INT)
def _shares(b: Builder, scores: Value, count: Value, sums: Value) -> Value:
    """In place over `count` scores: e^(score - greatest), whose lanes' sums go to `sums`. Returns the greatest.

    What stands behind the last is not looked at, and becomes 0.
    """
    num_vectors = vectors(b, b.add(count, number(LANES - 1)))
    order = ir.Constant(INTS, list(range(LANES)))
    bound = splat(b, b.trunc(count, i32), INTS)

    def inside(index: Value) -> Value:
        first = splat(b, b.trunc(b.mul(index, number(LANES)), i32), INTS)
        return b.icmp_signed("<", b.add(first, order), bound)

    top, total = cell(b, floats(_NOTHING)), cell(b, floats(0.0))
    with loop(b, num_vectors) as each:
        values = load(b, at(b, scores, each.index, 64))
        values = b.select(inside(each.index), values, floats(_NOTHING))
        b.store(greater(b, values, b.load(top)), top)
    greatest = maximum(b, b.load(top))
    tops = splat(b, greatest)
    with loop(b, num_vectors) as each:
        place = at(b, scores, each.index, 64)
        power = exp(b, b.fsub(load(b, place), tops))
        power = b.select(inside(each.index), power, floats(0.0))
        store(b, power, place)
        b.store(b.fadd(b.load(total), power), total)
    store(b, b.load(total), sums)
    return greatest


@define(FLOAT, FLOAT)
def _exp_one(b: Builder, x: Value) -> Value:
    return b.extract_element(exp(b, splat(b, x)), ir.Constant(i32, 0))


@define(VOID, FLOAT, INT, FLOAT, INT, INT)
def _blend(b: Builder, left: Value, x: Value, right: Value, y: Value, count: Value) -> None:
    """x = x * left + y * right"""
    lefts, rights = splat(b, left), splat(b, right)
    with loop(b, vectors(b, count)) as each:
        place = at(b, x, each.index, 64)
        kept = b.fmul(load(b, place), lefts)
        store(b, fma(b, load(b, at(b, y, each.index, 64)), rights, kept), place)


@define(FLOAT, INT)
def _total(b: Builder, sums: Value) -> Value:
    return tree(b, load(b, sums), b.fadd)


@define(VOID, INT, FLOAT)
def _put_real(b: Builder, address: Value, value: Value) -> None:
    store(b, value, address)


@define(VOID, INT, INT)
def fetch_ahead(b: Builder, x: Value, count: Value) -> None:
    """Ask for so many lines of memory that are read soon."""
    one, most = ir.Constant(i32, 1), ir.Constant(i32, 3)
    with loop(b, count) as each:
        place = pointer(b, at(b, x, each.index, 64), i8)
        call(b, "llvm.prefetch.p0i8", ir.VoidType(), place, ir.Constant(i32, 0), most, one)


@define(VOID, INT, INT, INT)
def put_key(b: Builder, x: Value, out: Value, count: Value) -> None:
    """One token's column of a block of keys."""
    with loop(b, vectors(b, count)) as each:
        column = narrowed(b, load(b, at(b, x, each.index, 64)))
        place = at(b, out, each.index, 2 * BLOCK * LANES)
        for i in range(LANES):
            store(b, lane(b, column, i), ahead(b, place, 2 * BLOCK * i), 2)


@define(VOID, INT, INT, INT)
def put_value(b: Builder, x: Value, out: Value, count: Value) -> None:
    """One token's row of a block of values."""
    with loop(b, vectors(b, count)) as each:
        put_halves(b, load(b, at(b, x, each.index, 64)), at(b, out, each.index, 32))


# --- a tile of rows ---


@compiled
def _score_rows(q: Any, rows: Any, keys: Any, out: Any, dimensions: Any) -> None:
    width, row = 4 * dimensions, 0
    while row + _MOST <= rows:
        _scores8(q + row * width, width, keys, out + row * SEGMENT * 4, dimensions)
        row += _MOST
    if row + 4 <= rows:
        _scores4(q + row * width, width, keys, out + row * SEGMENT * 4, dimensions)
        row += 4
    left = rows - row
    if left == 3:
        _scores3(q + row * width, width, keys, out + row * SEGMENT * 4, dimensions)
    elif left == 2:
        _scores2(q + row * width, width, keys, out + row * SEGMENT * 4, dimensions)
    elif left == 1:
        _scores1(q + row * width, width, keys, out + row * SEGMENT * 4, dimensions)


@compiled
def _mix_tile(p: Any, rows: Any, values: Any, tokens: Any, out: Any, dimensions: Any) -> None:
    """Rows that see the same tokens of a block."""
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
    """How many tokens from `start` on a row sees, at most `most`."""
    return max(0, min(most, context + row // group - start))


@compiled
def _mix_rows(
    p: Any, rows: Any, group: Any, context: Any, start: Any, values: Any, out: Any, size: Any
) -> None:
    """One block, whose first token is at `start`, for all rows."""
    row = 0
    while row < rows:
        tokens = _seen(context, row, group, start, BLOCK)
        same = row + 1  # each row sums its own tokens and no others
        while same < rows and _seen(context, same, group, start, BLOCK) == tokens:
            same += 1
        while row < same:
            count = _MOST if same - row >= _MOST else min(4, same - row)
            _mix_tile(p + row * SEGMENT * 4, count, values, tokens, out + row * size * 4, size)
            row += count


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
) -> None:
    """`rows` queries [rows][size], scaled: `group` heads a position, the first of which sees `context` tokens.

    `keys` and `values` are those of the head in block 0; the block table is at `table`. Results go to `out`, positions
    `out_bytes` apart.
    """
    scores = scratch
    sums = scores + TILE_ROWS * SEGMENT * 4
    all_sums = sums + TILE_ROWS * LANES * 4
    tops = all_sums + TILE_ROWS * LANES * 4
    total = tops + TILE_ROWS * LANES * 4
    part = total + TILE_ROWS * size * 4
    last = context + (rows - 1) // group
    start = 0
    while start < last:
        end = min(last, start + SEGMENT)
        acc = total if start == 0 else part
        for position in range(start, end, BLOCK):
            block = word(table + 8 * (position // BLOCK)) * block_bytes
            if rows > _FEW:
                pass  # what several rows of a prompt read is near already
            elif position + BLOCK < end:
                following = word(table + 8 * (position // BLOCK + 1)) * block_bytes
                fetch_ahead(keys + following, size)
            else:
                fetch_ahead(values + word(table + 8 * (start // BLOCK)) * block_bytes, size)
            _score_rows(q, rows, keys + block, scores + 4 * (position - start), size)
        for row in range(rows):
            _weigh(row, _seen(context, row, group, start, SEGMENT), start, scratch, size)
        clear(acc, rows * size)
        for position in range(start, end, BLOCK):
            block = word(table + 8 * (position // BLOCK)) * block_bytes
            p = scores + 4 * (position - start)
            if rows <= _FEW and position + BLOCK < end:
                following = word(table + 8 * (position // BLOCK + 1)) * block_bytes
                fetch_ahead(values + following, size)
            _mix_rows(p, rows, group, context, position, values + block, acc, size)
        if start:
            for row in range(rows):
                if _seen(context, row, group, start, SEGMENT) > 0:
                    _join(row, scratch, size)
        start += SEGMENT
    for row in range(rows):
        place = out + (row // group) * out_bytes + (row % group) * size * 4
        scale(np.float32(1) / _total(all_sums + row * 64), total + row * size * 4, place, size)


@compiled
def _weigh(row: Any, count: Any, start: Any, scratch: Any, size: Any) -> None:
    """Turn a row's scores of a segment into shares; keep the greatest and the sum."""
    if count <= 0:
        return
    sums = scratch + TILE_ROWS * SEGMENT * 4 + row * 64
    all_sums = sums + TILE_ROWS * 64
    tops = scratch + TILE_ROWS * (SEGMENT * 4 + 128) + row * 64
    if start == 0:
        _put_real(tops, _shares(scratch + row * SEGMENT * 4, count, all_sums))
    else:
        _put_real(tops + 4, _shares(scratch + row * SEGMENT * 4, count, sums))


@compiled
def _join(row: Any, scratch: Any, size: Any) -> None:
    """Add a segment's values and sums to those before it, both by the greatest score of all."""
    sums = scratch + TILE_ROWS * SEGMENT * 4 + row * 64
    tops = scratch + TILE_ROWS * (SEGMENT * 4 + 128) + row * 64
    total = scratch + TILE_ROWS * (SEGMENT * 4 + 192) + row * size * 4
    before, now = real(tops), real(tops + 4)
    greatest = max(before, now)
    left, right = _exp_one(before - greatest), _exp_one(now - greatest)
    _blend(left, total, right, total + TILE_ROWS * size * 4, size)
    _blend(left, sums + TILE_ROWS * 64, right, sums, LANES)
    _put_real(tops, greatest)


def scratch_bytes(size: int) -> int:
    """What one thread needs for heads of that size."""
    return TILE_ROWS * (SEGMENT * 4 + 192 + 2 * size * 4)
