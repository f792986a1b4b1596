"""The bytes of a GGUF file's header, checked one after another: each count and length against the size of the file."""

import math
import mmap
import struct
from itertools import pairwise
from operator import attrgetter

from segue.models.gguf.headers import GgufHeader, Tensor, Value
from segue.models.gguf.types import TENSOR_TYPES

MAGIC = b"GGUF"
_VERSIONS = (2, 3)  # version 1 counted with 32 bits and has not been written since 2023
_MAX_KEY, _MAX_TENSOR_NAME, _MAX_DIMS = 65535, 64, 4
_MAX_ENTRIES = 100_000  # of each kind: models have thousands, and millions took minutes
_MAX_SHOWN = 80  # characters of a name in a message

# GGUF's type numbers of metadata values.
_SCALARS = {
    number: struct.Struct("<" + code)
    for number, code in enumerate("BbHhIif?")  # 0 to 7
} | {10: struct.Struct("<Q"), 11: struct.Struct("<q"), 12: struct.Struct("<d")}
_STRING, _ARRAY = 8, 9
# What llama.cpp reads as of one type; a later file's number of another type would end the process.
_TYPES = {"split.no": 2, "split.count": 2, "split.tensors.count": 5}

_U64 = struct.Struct("<Q")
_MAX_SHORT = 1024  # values of an array that is read with the header: more than models have layers


class Damaged(Exception):
    """What is wrong with the file."""


class Reader:
    def __init__(self, view: mmap.mmap, file_size: int):
        self.view = view
        self.file_size = file_size
        self.limit = len(view)
        self.at = len(MAGIC)
        self.array_places: dict[str, tuple[int, int]] = {}
        self.array_types: dict[str, str] = {}
        self.short_arrays: dict[str, tuple[Value, ...]] = {}

    def header(self) -> GgufHeader:
        """The architecture is empty where none is named, as in later files of a split model."""
        version = int.from_bytes(self.take(4), "little")
        if version not in _VERSIONS:
            # A big-endian file shows its version in the high bytes.
            kind = "big-endian" if version & 0xFFFF == 0 and version else f"version {version}"
            raise Damaged(f"it is {kind}, and only little-endian versions 2 and 3 can be read")
        num_tensors = self.counted("tensors", 8 + 4 + 8 + 4 + 8)
        num_pairs = self.counted("metadata entries", 8 + 4 + 1)
        for count, what in ((num_tensors, "tensors"), (num_pairs, "metadata entries")):
            if count > _MAX_ENTRIES:
                raise Damaged(f"it claims {count} {what}, more than {_MAX_ENTRIES}")
        metadata, lengths = self.pairs(num_pairs)
        entries = [self.tensor_entry() for _ in range(num_tensors)]
        alignment = metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 0 < alignment <= 1 << 20 or alignment % 8:
            raise Damaged(f"its alignment is {alignment!r}")
        start = -(-self.at // alignment) * alignment
        tensors = [self.placed(entry, start, alignment) for entry in entries]
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise Damaged("two tensors have the same name")
        for before, tensor in pairwise(sorted(tensors, key=attrgetter("offset"))):
            if before.offset + before.num_bytes > tensor.offset:
                raise Damaged(f"tensors {before.name} and {tensor.name} overlap")
        architecture = metadata.get("general.architecture", "")
        if not isinstance(architecture, str):
            raise Damaged("it names no architecture (general.architecture)")
        if len(architecture) > _MAX_TENSOR_NAME or not architecture.isprintable():
            raise Damaged(f"its architecture cannot be named {architecture!r:.{_MAX_SHOWN}}")
        return GgufHeader(
            architecture=architecture,
            metadata=metadata,
            array_lengths=lengths,
            tensors=tuple(tensors),
            num_bytes=self.file_size,
            array_places=self.array_places,
            array_types=self.array_types,
            short_arrays=self.short_arrays,
        )

    # --- primitives: each checks before it moves ---

    def take(self, length: int) -> bytes:
        if length > self.limit - self.at:
            raise Damaged(f"it ends inside its header (at byte {self.at})")
        start = self.at
        self.at += length
        return self.view[start : self.at]

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def counted(self, what: str, least_bytes: int) -> int:
        """A count of things that take at least so many bytes each."""
        count = self.u64()
        if count > (self.limit - self.at) // least_bytes:
            raise Damaged(
                f"it claims {count} {what}, more than its {self.file_size} bytes can hold"
            )
        return count

    def name(self, what: str, longest: int) -> str:
        length = self.u64()
        if not 0 < length <= longest:
            raise Damaged(f"a {what} has a name of {length} bytes")
        try:
            name = self.take(length).decode()
        except UnicodeDecodeError:
            raise Damaged(f"a {what} has a name that is not UTF-8") from None
        if not name.isprintable():  # messages have it, and a terminal would obey it
            raise Damaged(f"a {what} has the name {name!r:.{_MAX_SHOWN}}")
        return name

    # --- metadata ---

    def pairs(self, count: int) -> tuple[dict[str, Value], dict[str, int]]:
        scalars: dict[str, Value] = {}
        lengths: dict[str, int] = {}
        for _ in range(count):
            key = self.name("metadata entry", _MAX_KEY)
            if key in scalars or key in lengths:
                raise Damaged(f"{key:.{_MAX_SHOWN}} is given twice")
            kind = self.u32()
            if _TYPES.get(key, kind) != kind:
                raise Damaged(f"{key} is not of the type that it must have")
            if kind == _ARRAY:
                lengths[key] = self.skip_array(key)
            else:
                scalars[key] = self.scalar(key, kind)
        return scalars, lengths

    def scalar(self, key: str, kind: int) -> Value:
        if kind == _STRING:
            return self.take(self.u64()).decode(errors="replace")
        form = _SCALARS.get(kind)
        if form is None:
            raise Damaged(f"{key:.{_MAX_SHOWN}} has the unknown type {kind}")
        value: Value = form.unpack(self.take(form.size))[0]
        return value

    def skip_array(self, key: str) -> int:
        kind = self.u32()
        if kind == _STRING:
            length = self.counted(f"strings in {key:.{_MAX_SHOWN}}", 8)
            start = self.at
            self.skip_strings(length)
            self.array_places[key], self.array_types[key] = (start, self.at), ""
            return length
        form = _SCALARS.get(kind)
        if form is None:
            raise Damaged(f"{key:.{_MAX_SHOWN}} is an array of the unknown type {kind}")
        length = self.counted(f"values in {key:.{_MAX_SHOWN}}", form.size)
        start = self.at
        self.at += length * form.size
        code = form.format[1:]
        self.array_places[key], self.array_types[key] = (start, self.at), code
        if length <= _MAX_SHORT:
            self.short_arrays[key] = struct.unpack(f"<{length}{code}", self.view[start : self.at])
        return length

    def skip_strings(self, count: int) -> None:
        # The one hot loop: a vocabulary and its merges are hundreds of thousands of strings.
        at, unpack, view = self.at, _U64.unpack_from, self.view
        try:
            for _ in range(count):
                at += 8 + unpack(view, at)[0]
        except (struct.error, OverflowError):
            at = self.limit + 1
        if at > self.limit:
            raise Damaged(f"it ends inside its header (at byte {self.at})")
        self.at = at

    # --- tensors ---

    def tensor_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self.name("tensor", _MAX_TENSOR_NAME)
        num_dims = self.u32()
        if num_dims > _MAX_DIMS:
            raise Damaged(f"tensor {name} has {num_dims} dimensions")
        shape = tuple(self.u64() for _ in range(num_dims))
        return name, shape, self.u32(), self.u64()

    def placed(
        self, entry: tuple[str, tuple[int, ...], int, int], start: int, alignment: int
    ) -> Tensor:
        name, shape, number, offset = entry
        if number not in TENSOR_TYPES:
            raise Damaged(
                f"tensor {name} has the unknown type {number} (a newer version may know it)"
            )
        kind, block, block_bytes = TENSOR_TYPES[number]
        if 0 in shape or (shape or (1,))[0] % block:
            raise Damaged(f"tensor {name} cannot have the shape {shape} as {kind}")
        num_bytes = math.prod(shape) // block * block_bytes
        if offset % alignment or start + offset + num_bytes > self.file_size:
            raise Damaged(f"tensor {name} does not lie within the file; it may be cut off")
        return Tensor(name, shape, kind, start + offset, num_bytes)
