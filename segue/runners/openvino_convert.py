"""From a GGUF to the arrays that the OpenVINO graph is built on: made once, kept in the cache, mapped at each start.

    <cache>/openvino/<sha256 of the GGUF>-<FORMAT>/   manifest.json  weights.bin

Products that share their input (q, k and v; gate and up) are laid one under the other and become one. An entry is
written beside its place and moved there whole; one whose bytes are not what its manifest says is made again.
"""

import fcntl
import hashlib
import logging
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import numpy as np
from gguf import GGMLQuantizationType
from msgspec import Struct
from numpy.typing import NDArray

from segue.errors import Incompatible
from segue.models import gguf
from segue.models.progress import Report, silent
from segue.models.requantise import GROUP, Form, floats, form_of, num_bytes, requantise
from segue.runners.openvino_shape import PAIRS_NEIGHBOURS, Shape, rotations, shape_of

log = logging.getLogger("segue")

FORMAT = 1  # part of every entry's name: raise it with any change to what is written
_ALIGNMENT = 64
_CHUNK_WEIGHTS = 1 << 22  # rows are converted so many weights at a time: 16 MiB of floats
_SPARE_BYTES = 64 << 20  # of disk space, that stay free

JOINED = {
    "attn_qkv": ("attn_q", "attn_k", "attn_v"),
    "ffn_gate_up": ("ffn_gate", "ffn_up"),
}


class Place(Struct, frozen=True):
    """Where an array lies in weights.bin."""

    form: Form
    shape: tuple[int, ...]
    at: int
    scales_at: int | None = None


class Manifest(Struct, frozen=True):
    shape: Shape
    places: dict[str, Place]
    num_bytes: int
    sha256: str


class Entry(NamedTuple):
    """A converted model, its weights mapped and not read."""

    shape: Shape
    places: dict[str, Place]
    data: NDArray[np.uint8]

    def values(self, name: str) -> NDArray[np.generic]:
        """Packed two in a byte where the form is i4."""
        place = self.places[name]
        *rows, columns = place.shape
        kind = {"i8": np.int8, "i4": np.uint8, "f16": np.float16, "f32": np.float32}[place.form]
        width = columns // 2 if place.form == "i4" else columns
        count = math.prod(rows) * width * np.dtype(kind).itemsize
        return self.data[place.at : place.at + count].view(kind).reshape(*rows, width)

    def scales(self, name: str) -> NDArray[np.float16]:
        place = self.places[name]
        if place.scales_at is None:
            raise KeyError(f"{name} has no scales")
        rows, groups = place.shape[0], place.shape[1] // GROUP
        end = place.scales_at + 2 * rows * groups
        return self.data[place.scales_at : end].view(np.float16).reshape(rows, groups, 1)


def is_converted(path: str | Path, cache_dir: str | Path, report: Report = silent) -> bool:
    """Whether there is an entry. `converted` will find out whether it is sound."""
    return _target(Path(path), Path(cache_dir), report).exists()


def converted(path: str | Path, cache_dir: str | Path, report: Report = silent) -> Entry:
    """The entry of this GGUF, made now if it is not there. Waits for another process that makes it."""
    target = _target(Path(path), Path(cache_dir), report)
    with _locked(target.parent / f"{target.name}.lock"):
        _remove_leftovers(target.parent)
        entry = _opened(target, report)
        if entry is None:
            _convert(Path(path), target, report)
            entry = _opened(target, report)
    if entry is None:
        raise Incompatible(f"{target} does not read back as it was written; is the disk sound?")
    return entry


# --- the cache ------------------------------------------------------------------------------------


def _target(path: Path, cache_dir: Path, report: Report) -> Path:
    folder = cache_dir / "openvino"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{_content_key(path, folder, report)}-{FORMAT}"


def _content_key(path: Path, folder: Path, report: Report) -> str:
    """The SHA-256 of the file, remembered for as long as its size and time stay the same."""
    stat = path.stat()
    seen = hashlib.sha256(f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}".encode())
    memo = folder / "seen" / seen.hexdigest()
    try:
        key = memo.read_text()
        if len(key) == 64:
            return key
    except FileNotFoundError:
        pass
    key = _sha256(path, f"checking {path.name}", report)
    memo.parent.mkdir(exist_ok=True)
    memo.write_text(key)
    return key


def _sha256(path: Path, what: str, report: Report) -> str:
    total, done, digest = path.stat().st_size, 0, hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 24):
            digest.update(chunk)
            done += len(chunk)
            report(what, done, total)
    return digest.hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # ends with the process, however it ends
        yield


def _remove_leftovers(folder: Path) -> None:
    """Of conversions that were killed: those whose lock nobody holds."""
    for part in folder.glob("*.part"):
        with open(part.with_suffix(".lock"), "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # being written
        shutil.rmtree(part, ignore_errors=True)


def _opened(target: Path, report: Report) -> Entry | None:
    """The entry, or None where it is missing or not what it should be."""
    data = target / "weights.bin"
    try:
        manifest = msgspec.json.decode((target / "manifest.json").read_bytes(), type=Manifest)
        if data.stat().st_size != manifest.num_bytes:
            raise ValueError("its size is wrong")
        if _sha256(data, "checking the converted model", report) != manifest.sha256:
            raise ValueError("its contents are damaged")
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        log.warning("the converted model %s is made again: %s", target.name, error)
        return None
    # Private, because OpenVINO shares writable arrays only.
    return Entry(manifest.shape, manifest.places, np.memmap(data, np.uint8, "c"))


# --- the conversion -------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Rows of one GGUF tensor, in the order in which they are wanted."""

    tensor: gguf.Tensor
    rows: NDArray[np.uint8]  # [rows, bytes a row]
    order: NDArray[np.intp] | None = None


def _convert(path: Path, target: Path, report: Report) -> None:
    header = gguf.header(path)
    source = np.memmap(path, np.uint8, "r")
    matrices = dict(_matrices(header, source))
    needed = sum(
        num_bytes(_form(parts), math.prod(part.tensor.shape))
        for parts in matrices.values()
        for part in parts
    )
    free = shutil.disk_usage(target.parent).free
    if free < needed + _SPARE_BYTES:
        raise Incompatible(
            f"converting {path.name} for OpenVINO takes {needed >> 20} MiB in {target.parent}, but "
            f"{free >> 20} MiB are free; make room, or choose another --cache-dir or --runner llama"
        )
    part = target.parent / f"{target.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    with open(part / "weights.bin", "wb") as file:
        writer = _Writer(file, needed, report)
        writer.array("rope", rotations(header, _rope_factors(header, source)))
        for name, parts in matrices.items():
            writer.matrix(name, parts)
        os.fsync(file.fileno())
    manifest = Manifest(shape_of(header), writer.places, writer.at, writer.digest.hexdigest())
    (part / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    shutil.rmtree(target, ignore_errors=True)  # damaged, or it would not be made again
    part.rename(target)
    _sync_folder(target.parent)


def _matrices(
    header: gguf.GgufHeader, source: NDArray[np.uint8]
) -> Iterator[tuple[str, list[_Part]]]:
    """What is stored under which name: products of the same input joined where their forms agree."""
    tensors = {tensor.name: tensor for tensor in header.tensors}
    tensors.pop("rope_freqs.weight", None)
    head_dim = shape_of(header).head_dim
    is_paired = PAIRS_NEIGHBOURS[header.architecture]
    parts = {}
    for name, tensor in tensors.items():
        rows = source[tensor.offset : tensor.offset + tensor.num_bytes]
        rows = rows.reshape(math.prod(tensor.shape[1:]), -1)
        is_rotated = is_paired and name.endswith(("attn_q.weight", "attn_k.weight"))
        parts[name] = _Part(
            tensor, rows, _halves_first(len(rows), head_dim) if is_rotated else None
        )
    for layer in range(shape_of(header).layers):
        for joined, names in JOINED.items():
            for kind in ("weight", "bias"):
                members = [parts.get(f"blk.{layer}.{name}.{kind}") for name in names]
                found = [part for part in members if part is not None]
                if len(found) == len(names) and len({_form([part]) for part in found}) == 1:
                    for name in names:
                        del parts[f"blk.{layer}.{name}.{kind}"]
                    yield f"blk.{layer}.{joined}.{kind}", found
    for name, part in parts.items():
        yield name, [part]


def _halves_first(num_rows: int, head_dim: int) -> NDArray[np.intp]:
    """Rows of neighbouring pairs, reordered so that a head's first half holds the first of each."""
    heads = np.arange(num_rows).reshape(-1, head_dim // 2, 2)
    return heads.transpose(0, 2, 1).reshape(-1)


def _form(parts: list[_Part]) -> Form:
    tensor = parts[0].tensor
    return "f32" if len(tensor.shape) == 1 else form_of(tensor.type, tensor.shape[0])


def _rope_factors(header: gguf.GgufHeader, source: NDArray[np.uint8]) -> NDArray[np.float32] | None:
    for tensor in header.tensors:
        if tensor.name == "rope_freqs.weight":
            raw = source[tensor.offset : tensor.offset + tensor.num_bytes].reshape(1, -1)
            return floats(raw, GGMLQuantizationType[tensor.type])
    return None


class _Writer:
    """weights.bin, from front to back."""

    def __init__(self, file: BinaryIO, total: int, report: Report):
        self._file, self._total, self._report = file, total, report
        self.at = 0
        self.digest = hashlib.sha256()
        self.places: dict[str, Place] = {}

    def array(self, name: str, values: NDArray[np.float32]) -> None:
        self._align()
        self.places[name] = Place("f32", values.shape, self.at)
        self._write(values)

    def matrix(self, name: str, parts: list[_Part]) -> None:
        form, columns = _form(parts), parts[0].tensor.shape[0]
        count = sum(math.prod(part.tensor.shape) for part in parts)
        is_vector = len(parts[0].tensor.shape) == 1
        self._align()
        start, scales = self.at, []
        for part in parts:
            for rows in _chunks(part, max(1, _CHUNK_WEIGHTS // columns)):
                weights = requantise(rows, part.tensor.type, form)
                self._write(weights.values)
                if weights.scales is not None:
                    scales.append(weights.scales)
        self._align()
        scales_at = self.at if scales else None
        for chunk in scales:
            self._write(chunk)
        shape = (count,) if is_vector else (count // columns, columns)
        self.places[name] = Place(form, shape, start, scales_at)

    def _write(self, values: NDArray[np.generic]) -> None:
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
        self._file.write(data)
        self.digest.update(data)
        self.at += len(data)
        self._report("converting the model for OpenVINO", min(self.at, self._total), self._total)

    def _align(self) -> None:
        padding = bytes(-self.at % _ALIGNMENT)
        self._file.write(padding)
        self.digest.update(padding)
        self.at += len(padding)


def _chunks(part: _Part, num_rows: int) -> Iterator[NDArray[np.uint8]]:
    for start in range(0, len(part.rows), num_rows):
        end = start + num_rows
        yield part.rows[start:end] if part.order is None else part.rows[part.order[start:end]]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
