"""Sums, norms and rounding of rows of floats.

Lengths are multiples of 16 (32 where rows are rounded). Sums run in 16 lanes and end in a fixed tree, so that a row
gives the same bits on every machine.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir

from segue.runners.cpu.emit import (
    BYTES,
    INTS,
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
    splat,
    store,
    tree,
)
from segue.runners.cpu.kernel import FLOAT, INT, VOID, compiled, define
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.vectors.elementwise import (
    ROW_IN,
    ROW_OUT,
    add_into,
    copy,
    elementwise,
    scale_by_row,
    vectors,
)
from segue.runners.cpu.step.vectors.functions import absolute, nearest

GROUP = 32  # columns that share a scale when rows are rounded to 8 bits
_LEAST_MAXIMUM = 1e-30  # a group below this becomes zeros: 1 / scale would not be finite


@define(FLOAT, INT, INT, INT)
def dot(b: Builder, x: Value, y: Value, count: Value) -> Value:
    total = cell(b, floats(0.0))
    with loop(b, vectors(b, count)) as each:
        left, right = (load(b, at(b, row, each.index, 64)) for row in (x, y))
        b.store(fma(b, left, right, b.load(total)), total)
    return tree(b, b.load(total), b.fadd)


@define(FLOAT, INT, INT)
def row_sum(b: Builder, x: Value, count: Value) -> Value:
    total = cell(b, floats(0.0))
    with loop(b, vectors(b, count)) as each:
        b.store(b.fadd(b.load(total), load(b, at(b, x, each.index, 64))), total)
    return tree(b, b.load(total), b.fadd)


@elementwise(FLOAT, ROW_IN, ROW_OUT)
def _shift(b: Builder, amount: Value, x: Value) -> Value:
    return b.fsub(x, amount)


@compiled
def norm(kind: Any, x: Any, w: Any, bias: Any, epsilon: Any, out: Any, count: Any) -> None:
    """out = x / sqrt(mean of squares + epsilon) * w + bias; a layer norm first subtracts the mean from x."""
    if kind == on.NO_NORM:
        copy(x, out, count)
        return
    source = x
    if kind == on.LAYER_NORM:
        _shift(row_sum(x, count) / np.float32(count), x, out, count)
        source = out
    mean = dot(source, source, count) / np.float32(count)
    factor = np.float32(1) / np.float32(math.sqrt(mean + epsilon))
    scale_by_row(factor, source, w, out, count)
    if bias:
        add_into(out, bias, count)


def _largest(b: Builder, x: Value, y: Value) -> Value:
    """The greatest size of all lanes of both; not a number if one is none. Bits of sizes have the order of numbers."""
    sizes = [b.bitcast(absolute(b, each), INTS) for each in (x, y)]

    def larger(one: Value, other: Value) -> Value:
        return b.select(b.icmp_signed(">", one, other), one, other)

    return b.bitcast(tree(b, larger(*sizes), larger), f32)


@define(VOID, INT, INT, INT, INT)
def quantise(b: Builder, x: Value, a: Value, scales: Value, groups: Value) -> None:
    """Round each group of 32 to bytes in `a`, and write its scale and sums to `scales` (see products/tiles/tile.py).

    The scale of a group in which one is no number is none: so are all products, and in the end the logits.
    """
    with loop(b, groups) as each:
        place = at(b, x, each.index, 4 * GROUP)
        halves = [load(b, ahead(b, place, offset)) for offset in (0, 4 * LANES)]
        top = _largest(b, *halves)
        zero = ir.Constant(f32, 0.0)
        is_zero = b.fcmp_ordered("<", top, ir.Constant(f32, float(np.float32(_LEAST_MAXIMUM))))
        inverse = b.select(is_zero, zero, b.fdiv(ir.Constant(f32, 127.0), top))
        one = b.select(is_zero, zero, b.fdiv(top, ir.Constant(f32, 127.0)))
        factors = splat(b, inverse)
        sums = []
        for half, values in enumerate(halves):
            rounded = b.fptosi(nearest(b, b.fmul(values, factors)), INTS)
            store(
                b, b.trunc(rounded, BYTES), ahead(b, at(b, a, each.index, GROUP), LANES * half), 1
            )
            sums.append(tree(b, rounded, b.add))
        added = b.fmul(one, b.sitofp(b.add(*sums), f32))
        for i, word in enumerate((one, added, *sums)):
            store(b, word, ahead(b, at(b, scales, each.index, 16), 4 * i))
