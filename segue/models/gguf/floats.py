"""A tensor's weights as floats, in Python: for what is small, or is measured against.

The package gguf knows most types; those that its version 0.19 does not know are read here.
"""

import numpy as np
from numpy.typing import NDArray

_BLOCK_BYTES = 18  # of both types: an f16 scale, then codes side by side
_BITS = {"Q1_0": 1, "Q2_0": 2}  # of a code
_DOUBLED = ("Q1_0",)  # its codes mean -1 and 1, those of Q2_0 -1, 0, 1 and 2


def as_floats(kind: str, rows: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Rows of whole blocks → rows of weights."""
    if bits := _BITS.get(kind):
        return _of_few_bits(rows, bits, 1 + (kind in _DOUBLED))
    from gguf import GGMLQuantizationType, dequantize  # a tenth of a second: not at every start

    found: NDArray[np.float32] = dequantize(rows, GGMLQuantizationType[kind])
    return found


def _of_few_bits(rows: NDArray[np.uint8], bits: int, factor: int) -> NDArray[np.float32]:
    blocks = np.ascontiguousarray(rows).reshape(-1, _BLOCK_BYTES)
    scales = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
    each = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little").reshape(len(blocks), -1, bits)
    codes = (each.astype(np.int8) << np.arange(bits, dtype=np.int8)).sum(2) * factor - 1
    weights: NDArray[np.float32] = (scales * codes.astype(np.float32)).reshape(len(rows), -1)
    return weights
