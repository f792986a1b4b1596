"""A GGUF in several files, as llama.cpp's `gguf-split` writes them: all metadata in the first, tensors in each."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
from gguf import GGUFValueType as Kind

NUMBER, COUNT, TENSORS = "split.no", "split.count", "split.tensors.count"
KINDS = {NUMBER: Kind.UINT16, COUNT: Kind.UINT16, TENSORS: Kind.INT32}

Entries = Mapping[str, tuple[Any, Kind] | None]  # metadata by key; None: it is left out


def cut(total: int, places: Sequence[int]) -> list[int]:
    """How many of `total` tensors each file has, by the places where the list of them is cut."""
    ends = [0, *sorted(places), total]
    return [end - start for start, end in pairwise(ends)]


def split_gguf(
    source: Path,
    folder: Path,
    sizes: Sequence[int],
    *,
    stem: str = "split",
    changed: Mapping[int, Entries] | None = None,
) -> list[Path]:
    """The paths. `sizes`: how many tensors each file has. `changed`: metadata of some files, counted from 0."""
    reader = gguf.GGUFReader(source)
    tensors = iter(reader.tensors)
    assert sum(sizes) == len(reader.tensors)
    paths = [folder / f"{stem}-{i:05d}-of-{len(sizes):05d}.gguf" for i in range(1, len(sizes) + 1)]
    for i, (path, size) in enumerate(zip(paths, sizes, strict=True)):
        writer = gguf.GGUFWriter(path, "left out below")
        writer.kv_data[0].clear()
        if i == 0:
            copy_metadata(reader, writer)
        own = {NUMBER: i, COUNT: len(sizes), TENSORS: len(reader.tensors)}
        entries: Entries = {key: (value, KINDS[key]) for key, value in own.items()}
        _add(writer, {**entries, **(changed or {}).get(i, {})})
        for _ in range(size):
            tensor = next(tensors)
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return paths


def copy_metadata(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    for field in reader.fields.values():
        if not field.name.startswith("GGUF."):
            inner = field.types[-1] if field.types[0] == Kind.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], inner)


def _add(writer: gguf.GGUFWriter, entries: Entries) -> None:
    for key, entry in entries.items():
        writer.kv_data[0].pop(key, None)
        if entry is not None:
            writer.add_key_value(key, *entry)
