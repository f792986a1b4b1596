"""Arrays of a GGUF file, whose places were checked when its header was read."""

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from segue.models.gguf.headers import GgufHeader, Value

_U64 = struct.Struct("<Q")


@contextmanager
def mapped(path: str | Path) -> Iterator[mmap.mmap]:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        yield view


def texts(view: mmap.mmap, read: GgufHeader, key: str) -> list[bytes]:
    start, end = read.array_places[key]
    data = view[start:end]
    found, at, unpack = [], 0, _U64.unpack_from
    for _ in range(read.array_lengths[key]):
        start = at + _U64.size
        at = start + unpack(data, at)[0]
        found.append(data[start:at])
    return found


def numbers(view: mmap.mmap, read: GgufHeader, key: str) -> tuple[Value, ...]:
    start, end = read.array_places[key]
    return struct.unpack(f"<{read.array_lengths[key]}{read.array_types[key]}", view[start:end])
