"""What the header of a GGUF file says, as values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from segue.models.gguf.types import FILE_TYPES

Value = int | float | bool | str


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple[int, ...]  # GGML's order: the contiguous dimension first
    type: str  # "F32", "Q4_1", ...
    offset: int  # from the start of the file
    num_bytes: int
    file: int = 0  # which of the model's files has it


@dataclass(frozen=True)
class GgufHeader:
    """Of a model: of all its files, if it is split. Places of arrays are in the first file."""

    architecture: str
    metadata: Mapping[str, Value]  # scalars and strings
    array_lengths: Mapping[str, int]
    tensors: tuple[Tensor, ...]
    num_bytes: int  # of all its files
    array_places: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # first byte, end
    array_types: Mapping[str, str] = field(default_factory=dict)  # struct's codes; "" for strings
    # The values of arrays of few numbers, such as measures of each layer.
    short_arrays: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    files: tuple[Path, ...] = ()  # the first has all metadata; more only if the model is split

    @property
    def n_vocab(self) -> int:
        """The size of the vocabulary; 0 if the file has none."""
        return self.array_lengths.get("tokenizer.ggml.tokens", 0) or self.count("vocab_size")

    @property
    def train_context(self) -> int:
        return self.count("context_length")

    @property
    def num_params(self) -> int:
        return sum(math.prod(tensor.shape) for tensor in self.tensors)

    @property
    def quantization(self) -> str:
        """The file's own name for it ("Q4_K_M"), or else the type of most of its bytes."""
        number = self.metadata.get("general.file_type")
        if isinstance(number, int) and number in FILE_TYPES:
            return FILE_TYPES[number]
        sizes: dict[str, int] = {}
        for tensor in self.tensors:
            sizes[tensor.type] = sizes.get(tensor.type, 0) + tensor.num_bytes
        return max(sizes, key=lambda kind: sizes[kind], default="unknown")

    def count(self, key: str) -> int:
        """A whole number of this architecture ("block_count"), 0 if it is not given."""
        value = self.metadata.get(f"{self.architecture}.{key}", 0)
        return value if isinstance(value, int) and value > 0 else 0

    def listed(self, key: str) -> tuple[Value, ...]:
        """Numbers of this architecture that are given as a list; none if they are not."""
        return self.short_arrays.get(f"{self.architecture}.{key}", ())
