"""What rows of instructions are made of, and the numbers of what a family names."""

import struct
from collections.abc import Sequence

from segue.runners.cpu.architectures.states.recurrence import Recurrence
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.recurrent.scratch import record_of

Row = list[int]

NORMS = {"rms": on.RMS_NORM, "layer": on.LAYER_NORM}
ACTIVATIONS = {
    "silu": on.SILU,
    "bounded silu": on.BOUNDED_SILU,
    "limited silu": on.LIMITED_SILU,
    "gelu": on.GELU,
    "relu": on.RELU,
    "squared relu": on.SQUARED_RELU,
    "clamped silu": on.CLAMPED_SILU,
    "xielu": on.XIELU,
}


def product(
    out: int, row_floats: int, source: int, matrices: Sequence[tuple[int, int]], rows: int = on.ROWS
) -> Row:
    """Products of one input. `matrices`: each with the bytes before its outputs in a row."""
    return products(out, row_floats, [(*each, source) for each in matrices], rows)


def products(
    out: int, row_floats: int, parts: Sequence[tuple[int, int, int]], rows: int = on.ROWS
) -> Row:
    """Products in one phase: the words of step/products.py, in its order. `parts`: matrices, where their outputs begin,
    and the board's index of what each takes.
    """
    return [
        on.PRODUCT,
        rows,
        out,
        row_floats,
        len(parts),
        *(word for part in parts for word in part),
    ]


def matrices(layer: Recurrence, place: int) -> Row:
    """The first words of step/recurrent/matrices.py, in its order. `place`: of the layer in a slot's state."""
    record = record_of(layer.mixer, layer.size)
    return [
        layer.heads,
        layer.size,
        place + 4 * layer.convolution_floats,
        4 * layer.head_floats,
        4 * record.floats,
        4 * record.start,
        layer.change_floats,
    ]


def float_word(value: float) -> int:
    """A word whose first four bytes are the float."""
    word: int = struct.unpack("<q", struct.pack("<fI", value, 0))[0]
    return word
