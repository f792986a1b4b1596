"""Exponentials, logarithms, powers and sums with the same bits on every machine.

Everything is made of operations that IEEE 754 rounds one way only: +, −, ×, ÷ of floats, comparisons and integers, in a
fixed order. A C library's exp, a vector library's log and the order in which numpy adds differ between platforms and
versions; none of them is used. Results below the smallest normal number are 0, so that nothing depends on how denormals
are treated. Arrays are numpy's, one operation at a time: it cannot fuse a product with a sum.
"""

import math
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

# ln 2 in two parts: the first has so few bits that a multiple of it by an exponent is exact.
LN2_HIGH, LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
BITS_A_NAT = 1.4426950408889634
HALF_ROOT = 0.7071067811865476

FACTORIALS = tuple(1.0 / math.factorial(n) for n in range(13, 1, -1))
ODD = tuple(1.0 / n for n in range(21, 1, -2))  # 1/21 … 1/3


# --- numbers --------------------------------------------------------------------------------------


def exp(x: float) -> float:
    """Of any number; 0 where the result is too small for a normal one."""
    if not x <= 709.7:
        return math.nan if math.isnan(x) else math.inf
    if x < -708.3:
        return 0.0
    power = math.floor(x * BITS_A_NAT + 0.5)
    rest = (x - power * LN2_HIGH) - power * LN2_LOW
    sum_ = 0.0
    for factor in FACTORIALS:
        sum_ = (sum_ + factor) * rest
    return math.ldexp(1.0 + (rest + sum_ * rest), power)


def log(x: float) -> float:
    """The natural logarithm of any number from 0 up."""
    if not 0.0 < x < math.inf:
        return x if x > 0 or math.isnan(x) else -math.inf if x == 0 else math.nan
    part, power = math.frexp(x)
    if part < HALF_ROOT:
        part, power = part * 2.0, power - 1
    return float(_log_of_parts(part, float(power)))


def logs(values: NDArray[np.floating]) -> Doubles:
    """The same of each; all must be finite, 0 or more."""
    part, power = np.frexp(values.astype(np.float64))
    is_low = part < HALF_ROOT
    part = np.where(is_low, part * 2.0, part)
    found = _log_of_parts(np.where(values > 0, part, 1.0), power - is_low.astype(np.float64))
    return np.where(values > 0, found, -np.inf)


def log2(x: float) -> float:
    return log(x) * BITS_A_NAT


def power(base: float, exponent: float) -> float:
    """base ** exponent, for a base from 0 up."""
    if exponent == 0 or base == 1:
        return 1.0
    return exp(exponent * log(base))


_Number = TypeVar("_Number", float, Doubles)


def _log_of_parts(part: _Number, power: _Number) -> _Number:
    """log(part × 2^power) for a part between √½ and √2: twice the area hyperbolic tangent of (p − 1)/(p + 1)."""
    ratio = (part - 1.0) / (part + 1.0)
    square = ratio * ratio
    sum_ = square * 0.0
    for factor in ODD:
        sum_ = (sum_ + factor) * square
    return power * LN2_HIGH + (2.0 * (ratio + ratio * sum_) + power * LN2_LOW)


_SMALLEST_NORMAL, _SMALLEST = 2.0**-1022, 5e-324


def keeps_denormals() -> bool:
    """Whether this thread computes with the numbers below the smallest normal one, as IEEE 754 says.

    Some libraries tell the processor to take them for 0, in threads they load in and those started from there.
    """
    return _SMALLEST_NORMAL * 0.5 > 0.0 and _SMALLEST * 2.0**60 > 0.0


# --- rows of logits -------------------------------------------------------------------------------

# 2 × 2^f for f in [−½, ½]: what is left of its first term, 2, within 1e-7 of the result.
POWERS_OF_2 = tuple(map(np.float32, (0.0026529455, 0.019343026, 0.11101467, 0.48044485, 1.386294)))
# Added to a number, it leaves its nearest integer in the last bits of the sum: + 126, as an exponent is written less 1.
ROUNDER = np.float32(3 * 2.0**22 + 126)
LOWEST = np.float32(-126.0)
TO_EXPONENT = np.int32(1 << 23)
LOG2_E = np.float32(BITS_A_NAT)
_AT_ONCE = 1 << 14  # numbers: three arrays of them stay in the processor's cache


def weights(logits: Floats, best: float) -> Floats:
    """exp(logit − best) of each, to within 1e-7 × (2 + best − logit) of it. None may be above best.

    Below 2^-125.5 it is 0.
    """
    if _compiled is not None and logits.flags.c_contiguous:
        found = np.empty_like(logits)
        _compiled.weigh(logits, best, found)
        return found
    return _weights(logits, best)


def _weights(logits: Floats, best: float) -> Floats:
    found = np.subtract(logits, np.float32(best))
    for start in range(0, found.size, _AT_ONCE):
        _exponentiate(found[start : start + _AT_ONCE])
    return found


def _exponentiate(x: Floats) -> None:
    """In place: 2^(n + f) with n an integer, as the product of a float made of its exponent and a polynomial."""
    x *= LOG2_E
    np.maximum(x, LOWEST, out=x)
    whole = x + ROUNDER
    half_powers = whole.view(np.int32) * TO_EXPONENT  # 2^(n − 1), or 0 for the lowest
    whole -= ROUNDER
    x -= whole
    found = np.multiply(x, POWERS_OF_2[0], out=whole)
    for factor in POWERS_OF_2[1:]:
        found += factor
        found *= x
    found += np.float32(2.0)
    np.multiply(found, half_powers.view(np.float32), out=x)


# --- sums -----------------------------------------------------------------------------------------

LAYERS = 64
FEW = 4096  # up to so many are added one after another


_Precision = TypeVar("_Precision", np.float32, np.float64)


def running_sums(values: NDArray[np.floating]) -> Doubles:
    """The sum of each and all before it, one after another: that is what numpy says accumulate is."""
    return np.add.accumulate(values, dtype=np.float64)


def total(values: NDArray[np.floating]) -> float:
    """The sum of all. Many are folded first, in their own precision."""
    if values.size == 0:
        return 0.0
    return float(running_sums(values if values.size <= FEW else folded(values))[-1])


def folded(values: NDArray[_Precision]) -> NDArray[_Precision]:
    """Sums of 64 values each: number j of n is that of values j, j + n, j + 2n … as halves are laid on each other."""
    width = -(-values.size // LAYERS)
    is_known = values.size > FEW and values.dtype == np.float32 and values.flags.c_contiguous
    if _compiled is None or not is_known:
        return _folded(values, width)
    sums: NDArray[_Precision] = np.empty(width, values.dtype)
    _compiled.fold(values, sums)  # type: ignore[arg-type]
    return sums


def _folded(values: NDArray[_Precision], width: int) -> NDArray[_Precision]:
    layers = LAYERS
    while layers > 1:
        layers //= 2
        front = values[: layers * width].copy()
        back = values[layers * width :]
        front[: back.size] += back
        values = front
    return values


def log_sum_exp(logits: Floats, best: float) -> float:
    """The logarithm of the sum of all exponentials; `best` is the highest logit."""
    return best + log(total(weights(logits, best)))


# --- faster, with the same bits -------------------------------------------------------------------


class Compiled(Protocol):
    """What a runner with a compiler can do instead: contiguous arrays only, and folding only of more than FEW."""

    def weigh(self, logits: Floats, best: float, out: Floats) -> None: ...

    def fold(self, values: Floats, out: Floats) -> None: ...


_compiled: Compiled | None = None


def use(compiled: Compiled | None) -> None:
    """From now on in this process. Raises ValueError where its bits are not the same."""
    global _compiled
    if compiled is not None and not _agrees(compiled):
        raise ValueError("compiled softmax does not give the bits of exact_math")
    _compiled = compiled


def _agrees(compiled: Compiled) -> bool:
    logits = np.linspace(-140.0, 0.0, 5003, dtype=np.float32)[::-1].copy()
    logits[7::11] = -np.inf
    weighed, width = np.empty_like(logits), -(-logits.size // LAYERS)
    compiled.weigh(logits, 0.0, weighed)
    sums = np.empty(width, np.float32)
    compiled.fold(weighed, sums)
    slow = _weights(logits, 0.0)
    return np.array_equal(weighed, slow) and np.array_equal(sums, _folded(slow, width))
