"""A model in several files, as llama.cpp splits them: PREFIX-00001-of-00003.gguf has all metadata, each has tensors.

Later files say of themselves only which they are, of how many. No file is opened here.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from segue.models.gguf.headers import GgufHeader

_NUMBER, _COUNT, _TENSORS = "split.no", "split.count", "split.tensors.count"
_NAME = re.compile(r"(.*)-([0-9]{5})-of-([0-9]{5})\.gguf", re.DOTALL)


# --- names ---


def ending(number: int, count: int) -> str:
    """Of a file's name; files are counted from 0."""
    return f"-{number + 1:05d}-of-{count:05d}.gguf"


def siblings(name: str) -> list[str]:
    """The names of all files of a model, by the name or path of any of them; only this one if it is none of several."""
    found = _NAME.fullmatch(name)
    if found is None or not 1 <= int(found[2]) <= int(found[3]):
        return [name]
    count = int(found[3])
    return [found[1] + ending(number, count) for number in range(count)]


def is_later(name: str) -> bool:
    """Whether it is the name of a file after the first: one that no model is named by."""
    return siblings(name)[0] != name


# --- headers ---


def num_files(first: GgufHeader) -> int:
    """How many files the model has, as this one says."""
    count = first.metadata.get(_COUNT, 1)
    return count if isinstance(count, int) and count > 1 else 1


def number(part: GgufHeader) -> int:
    """Which of the files it is, from 0; -1: it does not say."""
    given = part.metadata.get(_NUMBER)
    return given if isinstance(given, int) else -1


def wrong(parts: Sequence[GgufHeader], names: Sequence[str]) -> str | None:
    """Why these files, in this order, are not one model, or None if they are."""
    first = parts[0]
    for i, (part, name) in enumerate(zip(parts, names, strict=True)):
        if number(part) != i:
            return f"{name} has {_NUMBER} {part.metadata.get(_NUMBER)}, not {i}"
        if part.architecture not in ("", first.architecture):
            return f"{name} is for {part.architecture}, the first file for {first.architecture}"
        for key in (_COUNT, _TENSORS):
            if (given := part.metadata.get(key, first.metadata.get(key))) != first.metadata.get(
                key
            ):
                return f"{name} has {key} {given}, the first file {first.metadata.get(key)}"
    if not first.architecture:
        return "it names no architecture (general.architecture)"
    return _wrong_tensors(parts, names)


def _wrong_tensors(parts: Sequence[GgufHeader], names: Sequence[str]) -> str | None:
    places: dict[str, str] = {}
    for part, name in zip(parts, names, strict=True):
        for tensor in part.tensors:
            if tensor.name in places:
                return f"tensor {tensor.name} is in {places[tensor.name]} and in {name}"
            places[tensor.name] = name
    promised = parts[0].metadata.get(_TENSORS)
    if promised != len(places):
        return f"{_TENSORS} is {promised}, but its {len(parts)} files have {len(places)} tensors"
    return None


def joined(parts: Sequence[GgufHeader], files: Sequence[Path]) -> GgufHeader:
    """The header of the model: metadata of the first file, tensors of all. Of parts that nothing is wrong with."""
    return replace(
        parts[0],
        tensors=tuple(
            replace(tensor, file=i) for i, part in enumerate(parts) for tensor in part.tensors
        ),
        num_bytes=sum(part.num_bytes for part in parts),
        files=tuple(files),
    )
