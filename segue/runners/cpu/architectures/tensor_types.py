"""Types of tensors that no runner computes with: whole numbers as weights, blocks as norms. llama.cpp would end the
process over them.
"""

from segue.models.gguf import GgufHeader
from segue.models.gguf.types import NO_WEIGHTS
from segue.runners.cpu.architectures.tensors import VECTOR_TYPES, is_vector
from segue.runners.cpu.products.formats import FLOATS, FORMATS

MATRIX_TYPES = (*FLOATS, *FORMATS)
_MATRIX_THERE = "inp_shexp.weight"  # of one row, that is read as floats here


def wrong_type(header: GgufHeader) -> str | None:
    """Which tensor of a known architecture is of such a type, or None."""
    for tensor in header.tensors:
        if is_vector(tensor.name) and not tensor.name.endswith(_MATRIX_THERE):
            if tensor.type not in VECTOR_TYPES:
                return f"tensor {tensor.name} is of type {tensor.type}, not of floats"
        elif tensor.type in NO_WEIGHTS:
            return f"tensor {tensor.name} is of type {tensor.type}, which weights cannot have"
    return None
