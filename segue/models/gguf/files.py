"""The header of a model's GGUF files, validated before any library maps them.

Every count and length is checked against the size of its file, so a damaged or hostile file ends
in ModelUnavailable and never in a crash, an endless loop or a huge allocation.
"""

import mmap
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from segue.errors import ModelUnavailable
from segue.models.gguf import split
from segue.models.gguf.headers import GgufHeader
from segue.models.gguf.reader import MAGIC, Damaged, Reader

_HEADER_LIMIT = 256 << 20  # the largest vocabularies need about 20 MiB
_SETTLED_NS = (
    2 * 10**9
)  # since its last change: another within one tick of the file system's clock would not show
_MOST_NAMED = 3  # missing files in an error


def header(path: str | Path) -> GgufHeader:
    """Read and check the header of the model at `path`: of all its files, if this is the first of several.

    Raises ModelUnavailable.
    """
    path = Path(path)
    first = _of_file(path)
    count = split.num_files(first)
    if count > 1:
        return _of_files(path, first, count)
    if not first.architecture:
        raise _unsound(path, "it names no architecture (general.architecture)")
    return replace(first, files=(path,))


def modified(read: GgufHeader) -> float:
    """When the model was changed last, in seconds since 1970. Raises OSError."""
    return max(file.stat().st_mtime for file in read.files)


def check_magic(path: str | Path) -> None:
    """Raises ModelUnavailable unless a readable file at `path` begins as a GGUF does."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
            raise ModelUnavailable(f"{path} is not a file")  # a pipe would be waited for
        with open(path, "rb") as file:
            start = file.read(len(MAGIC))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ModelUnavailable(f"cannot read {path}: {reason}") from None
    if not start:
        raise ModelUnavailable(f"{path} is empty: fetch it again")
    if start != MAGIC:
        raise ModelUnavailable(
            f"{path} is not a GGUF file (it begins with {start!r}, not {MAGIC!r}); other formats must be converted to "
            "GGUF first, or their folder served with --engine vllm"
        )


def _of_file(path: Path) -> GgufHeader:
    """Of this file alone. Loading a model asks several times, and a large vocabulary takes long to pass over."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return _read(path)  # which says why it cannot
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _SETTLED_NS:
        return _read(path)
    marks = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return _remembered(path, marks)


@lru_cache(maxsize=8)
def _remembered(path: Path, marks: tuple[int, ...]) -> GgufHeader:
    """`marks`: by which a file that was changed is known."""
    return _read(path)


def _read(path: Path) -> GgufHeader:
    check_magic(path)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            with mmap.mmap(
                file.fileno(), min(size, _HEADER_LIMIT), access=mmap.ACCESS_READ
            ) as view:
                return Reader(view, size).header()
    except Damaged as damage:
        raise _unsound(path, str(damage)) from None
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"cannot read {path}: {error}") from None


def _of_files(path: Path, first: GgufHeader, count: int) -> GgufHeader:
    names = split.siblings(path.name)
    if (number := split.number(first)) > 0:
        named = names[0] if len(names) == count else "whose name ends in " + split.ending(0, count)
        raise ModelUnavailable(
            f"{path} is file {number + 1} of {count} that make one model: name the first, {named}"
        )
    if len(names) != count or names[0] != path.name:
        raise ModelUnavailable(
            f"{path} is the first of {count} files, but its name does not end in {split.ending(0, count)}: the others "
            "are found by it"
        )
    paths = [path.with_name(name) for name in names]
    if missing := [each.name for each in paths if not each.exists()]:
        raise ModelUnavailable(_missing(path, count, missing))
    parts = [first, *map(_of_file, paths[1:])]
    if wrong := split.wrong(parts, names):
        raise _unsound(path, wrong)
    return split.joined(parts, paths)


def _missing(path: Path, count: int, names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{path} is the first of {count} files, which must be in one folder; not there: {shown}{more}"


def _unsound(path: Path, damage: str) -> ModelUnavailable:
    return ModelUnavailable(f"{path} is not a sound GGUF file: {damage}; fetch it again")
