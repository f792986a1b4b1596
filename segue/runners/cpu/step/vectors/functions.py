"""Functions of 16 numbers at once. They use only operations that IEEE 754 defines: the same bits on every machine."""

from segue.runners.cpu.emit import (
    FLOATS,
    INTS,
    Builder,
    Value,
    call,
    floats,
    fma,
    greater,
    ints,
    splat,
    tree,
)
from segue.runners.cpu.kernel import FLOAT, define
from segue.runners.cpu.step.halves import lane

_EXP_LEAST = -87.0  # below it e^x is no normal number
_ROUNDER = 1.5 * 2**23  # a small number added to it is rounded to a whole one, ties to even
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.428606765330187e-06
_LEAST_POWER = -126.0  # below it 2^x is no normal number
# 2^x from -1/2 to 1/2, off by at most 1.7e-7 of it.
_POWERS = (0.0013264727, 0.009671513, 0.055507336, 0.24022242, 0.693147, 1.0)
_TAYLOR = (0.0013888889, 0.008333334, 0.041666668, 0.16666667, 0.5, 1.0, 1.0)
# log(1 + y) = 2 s (1 + s^2 / 3 + s^4 / 5 + …), s = y / (2 + y), which is at most 1/3 for y up to 1.
_SERIES = (1 / 17, 1 / 15, 1 / 13, 1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0)
# 2^x = 1 + x (…) for x of at most a half, to 1.3 units of the last place.
_DECAY_POWERS = (
    0.0013264728477,
    0.0096715129912,
    0.0555073358119,
    0.2402224242687,
    0.6931470036507,
    1.0,
)
_LEAST_DECAY = -125.0  # below it 2^x may be no normal number


def absolute(b: Builder, x: Value) -> Value:
    return call(b, "llvm.fabs.v16f32", FLOATS, x)


def nearest(b: Builder, x: Value) -> Value:
    """Round to whole numbers, ties to even."""
    return call(b, "llvm.rint.v16f32", FLOATS, x)


def exp(b: Builder, x: Value) -> Value:
    """e^x for x <= 0: 2^k times a polynomial of the remainder."""
    x = greater(b, x, floats(_EXP_LEAST))
    shifted = b.fadd(b.fmul(x, floats(1.4426950408889634)), floats(_ROUNDER))
    k = b.fsub(shifted, floats(_ROUNDER))
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
    shifted = [b.fadd(x, floats(_ROUNDER)) for x in xs]
    xs = [b.fsub(x, b.fsub(k, floats(_ROUNDER))) for x, k in zip(xs, shifted, strict=True)]
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
    return lane(b, sigmoid(b, splat(b, x)), 0)


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


def power_of_two(b: Builder, x: Value) -> Value:
    """2^x of each lane, for x <= 0: a fourth fewer operations than e^x."""
    x = greater(b, x, floats(_LEAST_DECAY))
    shifted = b.fadd(x, floats(_ROUNDER))
    rest, value = b.fsub(x, b.fsub(shifted, floats(_ROUNDER))), floats(_DECAY_POWERS[0])
    for factor in _DECAY_POWERS[1:]:
        value = fma(b, value, rest, floats(factor))
    return _times_power(b, value, shifted)


def softplus(b: Builder, x: Value) -> Value:
    """log(1 + e^x) of each lane."""
    y = exp(b, b.fneg(absolute(b, x)))
    s = b.fdiv(y, b.fadd(y, floats(2.0)))
    square, total = b.fmul(s, s), floats(_SERIES[0])
    for factor in _SERIES[1:]:
        total = fma(b, total, square, floats(factor))
    return fma(b, b.fadd(s, s), total, greater(b, x, floats(0.0)))


@define(FLOAT, FLOAT)
def softplus_of(b: Builder, x: Value) -> Value:
    """Of one number."""
    return lane(b, softplus(b, splat(b, x)), 0)
