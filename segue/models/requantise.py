"""GGUF weights in the few forms that the OpenVINO graph multiplies with.

Q8_0 and Q4_0 keep their exact numbers, F16 and F32 stay what they are. Every other type becomes Q8_0: its own
numbers to within 1/254 of the largest one in each group of 32.
"""

from typing import Literal, NamedTuple

import numpy as np
from gguf import GGMLQuantizationType, dequantize, quantize
from gguf.constants import GGML_QUANT_SIZES
from numpy.typing import NDArray

Form = Literal["i8", "i4", "f16", "f32"]
Raw = NDArray[np.uint8]

GROUP = 32  # weights that share a scale, in Q8_0 and Q4_0 alike

KEPT: dict[str, Form] = {"Q8_0": "i8", "Q4_0": "i4", "F16": "f16", "F32": "f32"}
BITS: dict[Form, int] = {"i8": 8, "i4": 4, "f16": 16, "f32": 32}


class Weights(NamedTuple):
    """Rows of a matrix. A group's numbers are its integers times its scale."""

    values: NDArray[np.generic]  # i4: two in a byte, the first in the low half; both signed
    scales: NDArray[np.float16] | None  # [rows, groups]; None for floats


def form_of(tensor_type: str, row_length: int) -> Form:
    if tensor_type in KEPT:
        return KEPT[tensor_type]
    return "i8" if row_length % GROUP == 0 else "f32"


def num_bytes(form: Form, num_weights: int) -> int:
    """What `requantise` makes of so many weights, scales included."""
    scales = 2 * num_weights // GROUP if form in ("i8", "i4") else 0
    return num_weights * BITS[form] // 8 + scales


def requantise(rows: Raw, tensor_type: str, form: Form) -> Weights:
    """`rows`: the bytes of some whole rows of a tensor, [rows, bytes a row]."""
    kind = GGMLQuantizationType[tensor_type]
    if form == "i8":
        blocks = rows if tensor_type == "Q8_0" else quantize(floats(rows, kind), _Q8_0)
        scales, quants = _split(np.ascontiguousarray(blocks), _Q8_0)
        return Weights(quants.view(np.int8).reshape(len(rows), -1), scales)
    if form == "i4":
        scales, quants = _split(rows, _Q4_0)
        return Weights(_in_order(quants).reshape(len(rows), -1), scales)
    values = floats(rows, kind)
    return Weights(values.astype(np.float16 if form == "f16" else np.float32, copy=False), None)


def floats(rows: Raw, kind: GGMLQuantizationType) -> NDArray[np.float32]:
    """What the numbers are, [rows, columns]."""
    values: NDArray[np.float32] = dequantize(np.ascontiguousarray(rows), kind)
    return values.reshape(len(rows), -1)


_Q8_0, _Q4_0 = GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q4_0


def _split(rows: Raw, kind: GGMLQuantizationType) -> tuple[NDArray[np.float16], Raw]:
    """Blocks are a half-float scale and then their integers."""
    blocks = rows.reshape(len(rows), -1, GGML_QUANT_SIZES[kind][1])
    scales = np.ascontiguousarray(blocks[..., :2]).view(np.float16)[..., 0]
    return scales, np.ascontiguousarray(blocks[..., 2:])


def _in_order(quants: Raw) -> Raw:
    """Q4_0 keeps weight i and i + 16 in one byte, counted from −8; make it neighbours, signed."""
    low, high = quants & np.uint8(15), quants >> np.uint8(4)
    signed = np.concatenate([low, high], axis=-1) ^ np.uint8(8)
    packed: Raw = signed[..., 0::2] | (signed[..., 1::2] << np.uint8(4))
    return packed
