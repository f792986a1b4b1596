"""The shapes of xIELU, Apertus' activation, from numbers that its files give for each layer."""

import math

import numpy as np
from numpy.typing import NDArray

from segue.models.gguf import GgufHeader
from segue.runners.cpu.exact_math import logarithm, power

_KEYS = ("xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps")
_MOST = 1e4  # of a number's size
_LINEAR = 20.0  # above it softplus is as good as linear


def wrong_shapes(header: GgufHeader) -> str | None:
    """Why the file's numbers cannot be used, or None."""
    layers = header.count("block_count")
    for key in _KEYS:
        values = header.short_arrays.get(key, ())
        if len(values) != layers:
            return f"{key} has {len(values)} numbers for {layers} layers"
        if not all(type(value) is float and abs(value) <= _MOST for value in values):
            return f"{key} has numbers that make no sense"
    if any(float(value) > 0 for value in header.short_arrays[_KEYS[-1]]):
        return f"{_KEYS[-1]} is above 0"
    return None


def shapes(header: GgufHeader) -> NDArray[np.float32]:
    """For each layer: factors below and above 0, the slope at 0, the greatest exponent. See step/activations.py."""
    given = zip(*(header.short_arrays[key] for key in _KEYS), strict=True)
    rows = [
        (float(slope) + _softplus(float(below)), _softplus(float(above)), slope, most)
        for below, above, slope, most in given
    ]
    return np.array(rows, np.float32)


def _softplus(value: float) -> float:
    return value if value > _LINEAR else logarithm(1.0 + power(math.e, value))
