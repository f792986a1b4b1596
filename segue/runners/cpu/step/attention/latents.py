"""Scores of a block whose keys lie token by token, since values are a part of them: lanes are dimensions.

A score's 16 lanes are added up by the tree of emit.py, those of several tokens side by side; its bits do not depend on
which rows and tokens are worked on together.
"""

from functools import partial
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import (
    LANES,
    Builder,
    Value,
    ahead,
    at,
    cell,
    floats,
    fma,
    i32,
    load,
    loop,
    number,
    store,
)
from segue.runners.cpu.kernel import INT, VOID, compiled, define
from segue.runners.cpu.step.attention.loading import (
    FLOATS,
    HALVES,
    KEPT,
    LINE,
    Codes,
    Plain,
    fetch,
)
from segue.runners.cpu.step.attention.scratch import BLOCK, ROW_BYTES
from segue.runners.cpu.step.attention.tiles import by_rows, is_wide
from segue.runners.cpu.step.vectors.elementwise import vectors

ARE_COPIED = isinstance(KEPT, Codes)  # even if the rows are few
# Rows and tokens worked on together: 24 sums in registers of 512 bits, 6 in narrower ones.
_ROWS, _TOKENS = 3, 8 if is_wide else 2


def _picked(b: Builder, x: Value, y: Value, places: list[int]) -> Value:
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(i32, len(places)), places))


def added_up(b: Builder, sums: list[Value]) -> Value:
    """The lanes of each vector added up, as emit.tree does it: one lane for each of a power of 2 of vectors."""
    lanes = LANES  # of each sum
    while lanes > 1:
        pairs = [*zip(sums[::2], sums[1::2], strict=True)] if len(sums) > 1 else [(sums[0],) * 2]
        half, count = lanes // 2, (2 if len(sums) > 1 else 1) * sums[0].type.count
        low = [i for i in range(count) if i % lanes < half]
        high = [i + half for i in low]
        sums = [b.fadd(_picked(b, x, y, low), _picked(b, x, y, high)) for x, y in pairs]
        lanes = half
    return sums[0]


def _score(b: Builder, rows: int, args: list[Value], numbers: Plain) -> None:
    """q, row_bytes, keys, following, out, dimensions: _TOKENS tokens. f16: prefetches as much at `following`."""
    q, row_bytes, keys, following, out, dimensions = args
    queries = [b.add(q, b.mul(row_bytes, number(row))) for row in range(rows)]
    key_bytes = b.mul(dimensions, number(numbers.size))
    tokens = [b.add(keys, b.mul(key_bytes, number(i))) for i in range(_TOKENS)]
    sums = [[cell(b, floats(0.0)) for _ in tokens] for _ in queries]
    with loop(b, vectors(b, dimensions)) as each:
        if numbers is HALVES:
            place = at(b, following, each.index, numbers.size * LANES * _TOKENS)
            for line in range(0, numbers.size * LANES * _TOKENS, LINE):
                fetch(b, ahead(b, place, line))
        left = [load(b, at(b, query, each.index, 4 * LANES)) for query in queries]
        for i, token in enumerate(tokens):
            key = numbers.read(b, at(b, token, each.index, numbers.size * LANES))
            for query, own in zip(left, sums, strict=True):
                b.store(fma(b, query, key, b.load(own[i])), own[i])
    for row, own in enumerate(sums):
        store(b, added_up(b, [b.load(each) for each in own]), ahead(b, out, ROW_BYTES * row))


_score_halves, _score_floats = (
    by_rows(6, partial(_score, numbers=numbers), _ROWS) for numbers in (HALVES, FLOATS)
)


@define(VOID, INT, INT, INT, INT)
def _widen(b: Builder, x: Value, following: Value, out: Value, size: Value) -> None:
    """Copy a block as floats, [32][size]. Prefetches the one at `following`."""
    if isinstance(KEPT, Codes):
        _widen_codes(b, x, following, out, size)
    else:
        _widen_halves(b, x, following, out, b.mul(size, number(BLOCK)))


def _widen_halves(b: Builder, x: Value, following: Value, out: Value, count: Value) -> None:
    with loop(b, b.udiv(count, number(2 * LANES))) as each:
        fetch(b, at(b, following, each.index, LINE))
        for half in range(2):
            value = HALVES.read(b, ahead(b, at(b, x, each.index, LINE), 2 * LANES * half))
            store(b, value, ahead(b, at(b, out, each.index, 2 * LINE), 4 * LANES * half))


def _widen_codes(b: Builder, x: Value, following: Value, out: Value, size: Value) -> None:
    with loop(b, vectors(b, size)) as each:
        column = b.mul(each.index, number(LANES))
        read = KEPT.values(b, x, following, column, 1, size)
        with loop(b, number(BLOCK)) as token:
            [value] = read(token.index)
            store(b, value, at(b, out, b.add(b.mul(token.index, size), column), 4))


@compiled
def score_latents(
    q: Any, rows: Any, keys: Any, following: Any, floats_out: Any, out: Any, size: Any
) -> None:
    """`rows` queries against 32 tokens. Many rows read a copy as floats, which is made at `floats_out`, and few rows do
    too if keys are codes.
    """
    if floats_out:
        _widen(keys, following, floats_out, size)
    for token in range(0, BLOCK, _TOKENS):
        for row in range(0, rows, _ROWS):
            query, place = q + row * size * 4, out + row * ROW_BYTES + 4 * token
            if floats_out:
                some = floats_out + token * size * 4
                _score_floats(rows - row, query, size * 4, some, 0, place, size)
            else:
                some, later = keys + token * size * 2, following + token * size * 2
                _score_halves(rows - row, query, size * 4, some, later, place, size)
