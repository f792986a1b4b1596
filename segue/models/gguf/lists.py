"""The lists in a GGUF file as JSON: arrays of its metadata, and its tensors, for pages that tell everything."""

import contextlib
import logging
import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from segue.errors import ModelUnavailable
from segue.models.gguf.arrays import mapped, numbers, texts
from segue.models.gguf.files import header, modified
from segue.models.gguf.headers import GgufHeader
from segue.types import Origin

log = logging.getLogger("segue")

TENSORS = "tensors"  # no key of metadata: those have a dot


def lists_of_loaded(path: str | Path, origin: Origin) -> dict[str, bytes]:
    """By key, and the tensors, of the file that a model was loaded from: nothing if it has been changed since."""
    with contextlib.suppress(OSError, ModelUnavailable):
        read = header(path)
        if (read.num_bytes, modified(read)) == (origin.num_bytes, origin.modified):
            return _lists(path, read)
    log.warning("%s was changed since the model was loaded: its lists are not shown", path)
    return {}


def _lists(path: str | Path, read: GgufHeader) -> dict[str, bytes]:
    with mapped(path) as view:
        lists = {key: msgspec.json.encode(_values(view, read, key)) for key in read.array_lengths}
    tensors = [
        {"name": tensor.name, "type": tensor.type, "shape": tensor.shape} for tensor in read.tensors
    ]
    return {**lists, TENSORS: msgspec.json.encode(tensors)}


def _values(view: mmap.mmap, read: GgufHeader, key: str) -> Sequence[Any]:
    if read.array_types[key]:
        return numbers(view, read, key)
    return [text.decode(errors="replace") for text in texts(view, read, key)]
