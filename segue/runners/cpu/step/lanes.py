"""Rows of floats, 16 lanes at a time: sums, norms, rotations, and rounding to 8 bits.

Lengths are multiples of 16 (32 where rows are rounded). Sums run in 16 lanes and end in a fixed tree, so that a row
gives the same bits on every machine.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from segue.runners.cpu.emit import (
    BYTES,
    FLOATS,
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
    i32,
    ints,
    load,
    loop,
    number,
    splat,
    store,
    tree,
)
from segue.runners.cpu.kernel import FLOAT, INT, VOID, compiled, define
from segue.runners.cpu.step import board as on

GROUP = 32  # columns that share a scale when rows are rounded to 8 bits
_LEAST_MAXIMUM = 1e-30  # a group below this becomes zeros: 1 / scale would not be finite
_EXP_LEAST = -87.0  # below it e^x is no normal number
ROUNDER = 1.5 * 2**23  # a small number added to it is rounded to a whole one, ties to even
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.428606765330187e-06
_LEAST_POWER = -126.0  # below it 2^x is no normal number
# 2^x from -1/2 to 1/2, off by at most 1.7e-7 of it.
_POWERS = (0.0013264727, 0.009671513, 0.055507336, 0.24022242, 0.693147, 1.0)
_TAYLOR = (0.0013888889, 0.008333334, 0.041666668, 0.16666667, 0.5, 1.0, 1.0)


def vectors(b: Builder, count: Value) -> Value:
    return b.lshr(count, number(4))


def absolute(b: Builder, x: Value) -> Value:
    return call(b, "llvm.fabs.v16f32", FLOATS, x)


def nearest(b: Builder, x: Value) -> Value:
    """Round to whole numbers, ties to even."""
    return call(b, "llvm.rint.v16f32", FLOATS, x)


def exp(b: Builder, x: Value) -> Value:
    """e^x for x <= 0: 2^k times a polynomial of the remainder. Uses only operations that IEEE 754 defines."""
    x = greater(b, x, floats(_EXP_LEAST))
    shifted = b.fadd(b.fmul(x, floats(1.4426950408889634)), floats(ROUNDER))
    k = b.fsub(shifted, floats(ROUNDER))
    for part in (-_LN2_HIGH, -_LN2_LOW):
        x = fma(b, k, floats(part), x)
    value = floats(_TAYLOR[0])
    for factor in _TAYLOR[1:]:
        value = fma(b, value, x, floats(factor))
    return _times_power(b, value, shifted)


def powers_of_2(b: Builder, xs: list[Value]) -> list[Value]:
    """2^x for x from -126 (less is taken as that) to 126, by the same operations; whole numbers have exact ones.

    Several vectors step by step side by side: none of them waits for its own last result.
    """
    xs = [greater(b, x, floats(_LEAST_POWER)) for x in xs]
    shifted = [b.fadd(x, floats(ROUNDER)) for x in xs]
    xs = [b.fsub(x, b.fsub(k, floats(ROUNDER))) for x, k in zip(xs, shifted, strict=True)]
    values = [floats(_POWERS[0]) for _ in xs]
    for factor in _POWERS[1:]:
        values = [fma(b, value, x, floats(factor)) for value, x in zip(values, xs, strict=True)]
    return [_times_power(b, value, k) for value, k in zip(values, shifted, strict=True)]


def _times_power(b: Builder, value: Value, shifted: Value) -> Value:
    """value * 2^k. The last bits of `shifted` are those of k: they are added to the exponent. The result is normal."""
    power = b.shl(b.bitcast(shifted, INTS), ints(23))
    return b.bitcast(b.add(b.bitcast(value, INTS), power), FLOATS)


def sigmoid(b: Builder, x: Value) -> Value:
    """1 / (1 + e^-x)"""
    is_negative = b.fcmp_ordered("<", x, floats(0.0))
    power = exp(b, b.fneg(absolute(b, x)))
    return b.fdiv(b.select(is_negative, power, floats(1.0)), b.fadd(power, floats(1.0)))


@define(FLOAT, FLOAT)
def sigmoid_of(b: Builder, x: Value) -> Value:
    """Of one number."""
    return b.extract_element(sigmoid(b, splat(b, x)), ir.Constant(i32, 0))


def capped(b: Builder, x: Value, cap: Value) -> Value:
    """cap * tanh(x / cap)"""
    x = b.fdiv(x, cap)
    is_negative = b.fcmp_ordered("<", x, floats(0.0))
    power = exp(b, b.fmul(absolute(b, x), floats(-2.0)))
    bent = b.fmul(b.fdiv(b.fsub(floats(1.0), power), b.fadd(floats(1.0), power)), cap)
    return b.select(is_negative, b.fneg(bent), bent)


def maximum(b: Builder, x: Value) -> Value:
    """The greatest of all lanes."""
    return tree(b, x, lambda left, right: greater(b, left, right))


# --- whole rows ---

# What a kernel does with a row of floats.
ROW_IN, ROW_OUT, ROW_IN_OUT = "read", "written", "changed"


def elementwise(*roles: Any) -> Callable[[Callable[..., Value]], Callable[..., Any]]:
    """Make a kernel over whole rows from a function of 16 numbers of each: from a builder and vectors to a vector.

    The kernel takes the address of a row for each role, of which one is ROW_OUT or ROW_IN_OUT, or with FLOAT a number,
    which the function gets in every lane; then a count.
    """

    def make(function: Callable[..., Value]) -> Callable[..., Any]:
        def kernel(b: Builder, *values: Value) -> None:
            *given, count = values
            args = list(zip(roles, given, strict=True))
            numbers = {i: splat(b, x) for i, (role, x) in enumerate(args) if role is FLOAT}
            with loop(b, vectors(b, count)) as each:
                places = {
                    i: at(b, x, each.index, 64) for i, (_, x) in enumerate(args) if i not in numbers
                }
                taken = [
                    numbers[i] if role is FLOAT else load(b, places[i])
                    for i, role in enumerate(roles)
                    if role != ROW_OUT
                ]
                [out] = [places[i] for i, role in enumerate(roles) if role in (ROW_OUT, ROW_IN_OUT)]
                store(b, function(b, *taken), out)

        return define(VOID, *(FLOAT if role is FLOAT else INT for role in roles), INT)(kernel)

    return make


@define(FLOAT, INT, INT, INT)
def dot(b: Builder, x: Value, y: Value, count: Value) -> Value:
    total = cell(b, floats(0.0))
    with loop(b, vectors(b, count)) as each:
        left, right = (load(b, at(b, row, each.index, 64)) for row in (x, y))
        b.store(fma(b, left, right, b.load(total)), total)
    return tree(b, b.load(total), b.fadd)


@elementwise(ROW_IN_OUT, ROW_IN)
def add_into(b: Builder, x: Value, y: Value) -> Value:
    return b.fadd(x, y)


@elementwise(FLOAT, ROW_IN, ROW_IN_OUT)
def add_scaled(b: Builder, factor: Value, y: Value, x: Value) -> Value:
    return fma(b, y, factor, x)


@elementwise(FLOAT, ROW_IN, ROW_IN, ROW_OUT)
def scale_by_row(b: Builder, factor: Value, x: Value, w: Value) -> Value:
    return b.fmul(b.fmul(x, factor), w)


@elementwise(ROW_IN, ROW_IN, ROW_OUT)
def multiply(b: Builder, x: Value, y: Value) -> Value:
    return b.fmul(x, y)


@elementwise(ROW_IN_OUT, ROW_IN)
def multiply_into(b: Builder, x: Value, y: Value) -> Value:
    return b.fmul(x, y)


@elementwise(FLOAT, ROW_IN, ROW_OUT)
def scale(b: Builder, factor: Value, x: Value) -> Value:
    return b.fmul(x, factor)


@elementwise(ROW_IN_OUT, FLOAT, FLOAT)
def clamp(b: Builder, x: Value, least: Value, most: Value) -> Value:
    """What is not a number stays so."""
    x = b.select(b.fcmp_ordered("<", x, least), least, x)
    return b.select(b.fcmp_ordered(">", x, most), most, x)


@elementwise(ROW_IN_OUT, ROW_IN)
def multiply_by_sigmoid(b: Builder, x: Value, y: Value) -> Value:
    return b.fmul(x, sigmoid(b, y))


@elementwise(ROW_IN, ROW_IN, ROW_IN, ROW_OUT)
def blend(b: Builder, x: Value, other: Value, share: Value) -> Value:
    """x + share (other - x)"""
    return fma(b, b.fsub(other, x), share, x)


@elementwise(ROW_OUT)
def clear(b: Builder) -> Value:
    return floats(0.0)


@elementwise(ROW_IN, ROW_OUT)
def copy(b: Builder, x: Value) -> Value:
    return x


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


# --- rounding to 8 bits ---


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


# --- rotations ---


def _turned(b: Builder, x: Value, y: Value, cosine: Value, sine: Value) -> tuple[Value, Value]:
    return (
        fma(b, x, cosine, b.fneg(b.fmul(y, sine))),
        fma(b, x, sine, b.fmul(y, cosine)),
    )


@define(VOID, INT, INT, INT, INT, INT, INT)
def _turn_halves(
    b: Builder, x: Value, cosines: Value, sines: Value, out: Value, first: Value, pairs: Value
) -> None:
    """Rotate 16 pairs (i, i + pairs) from `first` on."""
    offset, gap = b.mul(first, number(4)), b.mul(pairs, number(4))
    low, high = b.add(x, offset), b.add(b.add(x, offset), gap)
    cosine, sine = (load(b, b.add(table, offset)) for table in (cosines, sines))
    u, v = _turned(b, load(b, low), load(b, high), cosine, sine)
    store(b, u, b.add(out, offset))
    store(b, v, b.add(b.add(out, offset), gap))


@define(VOID, INT, INT, INT, INT, INT)
def _turn_neighbours(
    b: Builder, x: Value, cosines: Value, sines: Value, out: Value, first: Value
) -> None:
    """Rotate 16 pairs (2i, 2i + 1) from pair `first` on."""
    offset = b.mul(first, number(4))
    place = b.add(x, b.mul(first, number(8)))
    low, high = load(b, place), load(b, ahead(b, place, 64))
    pick = ir.VectorType(i32, LANES)
    evens, odds = (
        b.shuffle_vector(low, high, ir.Constant(pick, [2 * i + odd for i in range(LANES)]))
        for odd in (0, 1)
    )
    cosine, sine = (load(b, b.add(table, offset)) for table in (cosines, sines))
    u, v = _turned(b, evens, odds, cosine, sine)
    target = b.add(out, b.mul(first, number(8)))
    for half in range(2):
        order = [half * 8 + i // 2 + LANES * (i % 2) for i in range(LANES)]
        store(b, b.shuffle_vector(u, v, ir.Constant(pick, order)), ahead(b, target, 64 * half))


@define(VOID, INT, INT, INT, INT, INT, INT, INT)
def _turn_one(
    b: Builder,
    x: Value,
    y: Value,
    cosine: Value,
    sine: Value,
    out_x: Value,
    out_y: Value,
    index: Value,
) -> None:
    """Rotate the pair of floats at x and y."""
    c, s = (load(b, at(b, table, index, 4), f32) for table in (cosine, sine))
    left, right = load(b, x, f32), load(b, y, f32)
    name = "llvm.fma.f32"
    u = call(b, name, f32, left, c, b.fneg(b.fmul(right, s)))
    v = call(b, name, f32, left, s, b.fmul(right, c))
    store(b, u, out_x)
    store(b, v, out_y)


@compiled
def rotate(x: Any, cosines: Any, sines: Any, out: Any, pairs: Any, neighbours: Any) -> None:
    """Rotate `pairs` pairs of dimensions: neighbours, or dimensions i and i + `pairs`."""
    first = 0
    while first + 16 <= pairs:
        if neighbours:
            _turn_neighbours(x, cosines, sines, out, first)
        else:
            _turn_halves(x, cosines, sines, out, first, pairs)
        first += 16
    for i in range(first, pairs):
        if neighbours:
            place = 8 * i
            _turn_one(x + place, x + place + 4, cosines, sines, out + place, out + place + 4, i)
        else:
            low, high = 4 * i, 4 * (i + pairs)
            _turn_one(x + low, x + high, cosines, sines, out + low, out + high, i)
