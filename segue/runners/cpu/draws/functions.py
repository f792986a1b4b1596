"""The logarithm and the exponential of a double, with the bits of exact_math: the same operations in the same order."""

from typing import Any

from llvmlite import ir

from segue import exact_math
from segue.runners.cpu.draws.writing import Num, Var, Writer, f64
from segue.runners.cpu.emit import i64

_BIAS = 1023  # of an exponent as it is stored
_FRACTION = (1 << 52) - 1
_SMALLEST_NORMAL, _UP = 2.0**-1022, 54


class Functions:
    """Of a module; each takes a double."""

    def __init__(self, made: ir.Module) -> None:
        self.log = _log(made)
        self.exp = _exp(made)


def _bits(x: Num) -> Num:
    return Num(x.b, x.b.bitcast(x.value, i64))


def _double(bits: Num) -> Num:
    return Num(bits.b, bits.b.bitcast(bits.value, f64))


def _power_of_2(exponent: Num) -> Num:
    return _double((exponent + _BIAS) * (1 << 52))


def _log(made: ir.Module) -> Any:
    """exact_math.log of a number above 0 that is not infinite."""
    w = Writer(made, "log_of", f64, f64)
    [x] = w.args
    is_small = x < _SMALLEST_NORMAL
    bits = _bits(is_small.pick(x * 2.0**_UP, x))
    exponent = bits / (1 << 52) - (_BIAS - 1) - is_small.pick(w.whole(_UP), 0)
    half = _double((bits & _FRACTION) + ((_BIAS - 1) << 52))  # the number between ½ and 1
    is_low = half < exact_math.HALF_ROOT
    part = is_low.pick(half * 2.0, half)
    power = (exponent - is_low.pick(w.whole(1), 0)).as_double()
    ratio = (part - 1.0) / (part + 1.0)
    square = ratio * ratio
    sum_ = square * 0.0
    for factor in exact_math.ODD:
        sum_ = (sum_ + factor) * square
    rest = (ratio + ratio * sum_) * 2.0 + power * exact_math.LN2_LOW
    w.give(power * exact_math.LN2_HIGH + rest)
    return w.function


def _exp(made: ir.Module) -> Any:
    """exact_math.exp of any number but NaN."""
    w = Writer(made, "exp_of", f64, f64)
    [x] = w.args
    with w.when(x > 709.7):
        w.give(w.double(float("inf")))
    with w.when(x < -708.3):
        w.give(w.double(0.0))
    shifted = x * exact_math.BITS_A_NAT + 0.5
    whole = Var(shifted.truncated())
    with w.when(whole.now.as_double() > shifted):  # it was rounded towards 0, not down
        whole.set(whole.now - 1)
    power = whole.now.as_double()
    rest = (x - power * exact_math.LN2_HIGH) - power * exact_math.LN2_LOW
    sum_ = w.double(0.0)
    for factor in exact_math.FACTORIALS:
        sum_ = (sum_ + factor) * rest
    found = w.double(1.0) + (rest + sum_ * rest)
    # In two factors: the power of 2 alone may be too large for a double.
    half = (whole.now + 2048) / 2 - 1024
    w.give(found * _power_of_2(half) * _power_of_2(whole.now - half))
    return w.function
