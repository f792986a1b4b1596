"""Memory that compiled code reads and writes: aligned to pages, zero, and taken from the system when it is touched."""

import contextlib
import math
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segue import machine
from segue.errors import Incompatible

# Private: mmap gives shared memory by default, and that gets no huge pages.
_PRIVATE: dict[str, Any] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)


def zeros(shape: tuple[int, ...] | int, kind: Any, huge: bool = False) -> NDArray[Any]:
    """An array of zeros. `huge`: in huge pages if the system offers them."""
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    taken = pages(max(1, count) * np.dtype(kind).itemsize, huge)
    return np.frombuffer(taken, kind, count).reshape(shape)


def pages(num_bytes: int, huge: bool) -> mmap.mmap:
    """Memory filled with zeros. Raises Incompatible if the system does not give so much."""
    try:
        taken = mmap.mmap(-1, num_bytes, **_PRIVATE)
    except (OSError, OverflowError):
        raise Incompatible(
            f"the system does not give {num_bytes / 2**30:.1f} GiB of memory at once: choose a smaller model, "
            "a shorter --context-length or less --kv-memory-mib"
        ) from None
    if huge and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # the system may have no huge pages
            taken.madvise(mmap.MADV_HUGEPAGE)
    return taken


def let_go(taken: mmap.mmap) -> None:
    """Give memory of `pages` back, where the system can: it is taken again when it is touched. What it held is lost."""
    if hasattr(mmap, "MADV_DONTNEED"):
        taken.madvise(mmap.MADV_DONTNEED)


def address(array: NDArray[Any]) -> int:
    place: int = array.__array_interface__["data"][0]
    return place


def available_bytes() -> int:
    """Memory that is available on the machine and within its limits; 8 GiB if the system does not say."""
    available = machine.memory().available
    return 8 << 30 if available is None else available
