"""What rows of instructions are made of, and the numbers of what a family names."""

import struct

from segue.runners.cpu.step import board as on

Row = list[int]

NORMS = {"rms": on.RMS_NORM, "layer": on.LAYER_NORM}
ACTIVATIONS = {
    "silu": on.SILU,
    "gelu": on.GELU,
    "squared relu": on.SQUARED_RELU,
    "clamped silu": on.CLAMPED_SILU,
    "xielu": on.XIELU,
}


def float_word(value: float) -> int:
    """A word whose first four bytes are the float."""
    word: int = struct.unpack("<q", struct.pack("<fI", value, 0))[0]
    return word
