"""Random weights as a GGUF tensor has them: blocks of random bits, with scales that keep the size of what passes."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from segue.models.gguf.types import TENSOR_TYPES

Blocks = NDArray[np.uint8]  # a row of bytes for each


@dataclass(frozen=True)
class Form:
    """Where a block of random bits has its f16 scale and minimum, and how large its weights are without the scale."""

    scale_at: int
    spread: float  # standard deviation
    min_at: int | None = None
    minimum: float = 0.0  # in scales: what makes the mean about 0
    # The scale is in the high halves of four bytes, each followed by another.
    is_quartered: bool = False
    has_signs: bool = False  # half of the scales are negative, or the mean would not be about 0


# The types that the gguf package cannot write, but NVFP4.
FORMS = {
    "IQ4_NL": Form(0, 70.0),
    "IQ4_XS": Form(0, 1300.0),
    "Q2_K": Form(80, 12.0, 82, 1.5),
    "Q3_K": Form(108, 42.0),
    "Q4_K": Form(0, 250.0, 2, 7.5),
    "Q5_K": Form(0, 500.0, 2, 15.5),
    "Q6_K": Form(208, 1370.0),
    "IQ1_S": Form(0, 7.2),
    "IQ1_M": Form(49, 7.2, is_quartered=True),
    "IQ2_XXS": Form(0, 53.0),
    "IQ2_XS": Form(0, 56.0),
    "IQ2_S": Form(0, 56.0),
    "IQ3_XXS": Form(0, 143.0),
    "IQ3_S": Form(0, 141.0),
    "Q1_0": Form(0, 1.0),
    "Q2_0": Form(0, 1.2, has_signs=True),
}
NUMBERS = {kind.name: number for number, kind in TENSOR_TYPES.items()}
_FLOATS = 2.9  # spread of NVFP4's numbers, whose scales are floats of 8 bits


def is_made_of_bits(kind: str) -> bool:
    """Whether tensors of this type are made here; the gguf package quantises those of others."""
    return kind in FORMS or kind == "NVFP4"


def num_bytes(kind: str, rows: int, columns: int) -> tuple[int, int]:
    """How many blocks such a tensor has, and the bytes of each."""
    _, size, of_block = TENSOR_TYPES[NUMBERS[kind]]
    return rows * columns // size, of_block


def scaled(kind: str, blocks: Blocks, columns: int, gain: float) -> Blocks:
    """The blocks of random bits, changed: a row of so many columns multiplies the size of what passes by the gain."""
    if kind == "NVFP4":
        exponent = math.floor(math.log2(gain / math.sqrt(columns) / _FLOATS)) + 7
        blocks[:, :4] = blocks[:, :4] & 7 | max(exponent, 0) << 3
        return blocks
    form = FORMS[kind]
    scales = gain / math.sqrt(columns) / form.spread * (0.75 + blocks[:, :1] / 512)
    if form.has_signs:
        scales = np.where(blocks[:, :1] & 1, scales, -scales)
    if form.is_quartered:
        _put_quarters(blocks, form.scale_at, scales)
    else:
        _put(blocks, form.scale_at, scales)
    if form.min_at is not None:
        _put(blocks, form.min_at, scales * form.minimum)
    return blocks


def _put(blocks: Blocks, place: int, numbers: NDArray[np.float64]) -> None:
    blocks[:, place : place + 2] = numbers.astype(np.float16).view(np.uint8)


def _put_quarters(blocks: Blocks, place: int, numbers: NDArray[np.float64]) -> None:
    bits = numbers[:, 0].astype(np.float16).view(np.uint16)
    for i in range(4):
        quarter = (bits >> np.uint16(4 * i) & np.uint16(15)).astype(np.uint8)
        blocks[:, place + 2 * i] = blocks[:, place + 2 * i] & 15 | quarter << 4
