"""How fast a state fades: e^(a * softplus(x)), a at most 0. And a sigmoid of one number."""

from segue.runners.cpu.emit import Builder, Value, floats, fma, greater, splat
from segue.runners.cpu.kernel import FLOAT, define
from segue.runners.cpu.step.halves import lane
from segue.runners.cpu.step.lanes import absolute, exp, sigmoid

# log(1 + y) = 2 s (1 + s^2 / 3 + s^4 / 5 + …), s = y / (2 + y), which is at most 1/3 for y up to 1.
_SERIES = (1 / 17, 1 / 15, 1 / 13, 1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0)


def softplus(b: Builder, x: Value) -> Value:
    """log(1 + e^x) of each lane."""
    y = exp(b, b.fneg(absolute(b, x)))
    s = b.fdiv(y, b.fadd(y, floats(2.0)))
    square, total = b.fmul(s, s), floats(_SERIES[0])
    for factor in _SERIES[1:]:
        total = fma(b, total, square, floats(factor))
    return fma(b, b.fadd(s, s), total, greater(b, x, floats(0.0)))


@define(FLOAT, FLOAT, FLOAT)
def decay(b: Builder, a: Value, x: Value) -> Value:
    return lane(b, exp(b, b.fmul(splat(b, a), softplus(b, splat(b, x)))), 0)


@define(FLOAT, FLOAT)
def sigmoid_of(b: Builder, x: Value) -> Value:
    return lane(b, sigmoid(b, splat(b, x)), 0)
