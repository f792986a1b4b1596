"""Sines, cosines, powers and logarithms from IEEE operations only: those of C libraries may differ in the last bit.

float64 addition, multiplication and division are the same everywhere, and so is Python's decimal arithmetic.
"""

from decimal import Context, Decimal

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

_DIGITS = Context(prec=40)

# A quarter turn as a sum of three parts. The first two have 33 bits each, so their multiples up to 2^20 are exact.
_QUARTERS = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21)
_SINE = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
_COSINE = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)


def power(base: float, exponent: float) -> float:
    """base ** exponent for a base above 0."""
    logarithm = _DIGITS.multiply(_DIGITS.ln(Decimal(base)), Decimal(exponent))
    return float(_DIGITS.exp(logarithm))


def logarithm(value: float) -> float:
    """The natural logarithm of a number above 0."""
    return float(_DIGITS.ln(Decimal(value)))


def cosines_and_sines(angles: Doubles) -> tuple[Doubles, Doubles]:
    """For angles from 0 to about a million."""
    quarters = np.rint(angles * (1 / (_QUARTERS[0] + _QUARTERS[1])))
    rest = angles
    for part in _QUARTERS:
        rest = rest - quarters * part
    square = rest * rest
    sine = rest + rest * square * _polynomial(square, _SINE)
    cosine = 1.0 - (0.5 * square - square * square * _polynomial(square, _COSINE))
    turn = quarters.astype(np.int64) & 3
    cosines = np.select([turn == 0, turn == 1, turn == 2], [cosine, -sine, -cosine], sine)
    sines = np.select([turn == 0, turn == 1, turn == 2], [sine, cosine, -sine], -cosine)
    return cosines, sines


def _polynomial(x: Doubles, factors: tuple[float, ...]) -> Doubles:
    value = np.full_like(x, factors[-1])
    for factor in factors[-2::-1]:
        value = value * x + factor
    return value
