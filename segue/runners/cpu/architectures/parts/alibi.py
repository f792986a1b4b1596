"""ALiBi, attention with linear biases: how far the scores of each head fall with every token of distance."""

import numpy as np
from numpy.typing import NDArray

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.family import Family
from segue.runners.cpu.architectures.scaling import real
from segue.runners.cpu.exact_math import power

MOST = "attention.max_alibi_bias"


def max_bias(header: GgufHeader, family: Family) -> float:
    """The exponent of the last head's slope, by which those of all are made; 0: the model has no biases."""
    if MOST in family.settings:
        return real(header, MOST)
    has_any = family.biased_depth in (0, header.count("block_count"))
    return family.max_bias if has_any else 0.0


def slopes(most: float, heads: int) -> NDArray[np.float64]:
    """Powers of two for each head: 2^-most for the last of the first `even` heads, which are a power of two, and roots
    of it for those before, in even steps; heads beyond have every other step of half the size.
    """
    even = 1 << (heads.bit_length() - 1)
    steps = [float(i + 1) for i in range(even)] + [i + 0.5 for i in range(heads - even)]
    return np.array([power(2.0, -most * step / even) for step in steps], np.float64)
