"""Types of tensors over which llama.cpp ends the process, where it could refuse the file."""

from segue.models.gguf import GgufHeader
from segue.models.gguf.types import NO_WEIGHTS

_ADDED = ("norm.weight", ".bias")  # how names of what is added, or multiplied number by number, end
_FLOATS = "F32"
_TABLES = ("I32", "I64")  # which some architectures have


def tensor_types_obstacle(header: GgufHeader) -> str | None:
    """Why llama.cpp cannot run this file, or None."""
    for tensor in header.tensors:
        if tensor.name.endswith(_ADDED) and tensor.type != _FLOATS:
            return f"tensor {tensor.name} is of type {tensor.type}, not {_FLOATS}"
        if tensor.type in NO_WEIGHTS and tensor.type not in _TABLES:
            return f"tensor {tensor.name} is of type {tensor.type}, which weights cannot have"
    return None
