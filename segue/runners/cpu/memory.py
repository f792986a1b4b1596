"""Memory that compiled code reads and writes: aligned to pages, zero, and taken from the system when it is touched."""

import contextlib
import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Private: mmap gives shared memory by default, and that gets no huge pages.
_PRIVATE: dict[str, Any] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)


def zeros(shape: tuple[int, ...] | int, kind: Any, huge: bool = False) -> NDArray[Any]:
    """An array of zeros. `huge`: in huge pages if the system offers them."""
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    pages = mmap.mmap(-1, max(1, count) * np.dtype(kind).itemsize, **_PRIVATE)
    if huge and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # the system may have no huge pages
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, kind, count).reshape(shape)


def address(array: NDArray[Any]) -> int:
    place: int = array.__array_interface__["data"][0]
    return place


def available_bytes() -> int:
    """Memory available on the machine and within the container's limit; 8 GiB if neither is known."""
    found = []
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) << 10)
    limit, used = _lines("/sys/fs/cgroup/memory.max"), _lines("/sys/fs/cgroup/memory.current")
    if limit and used and limit[0].isdigit():
        found.append(max(0, int(limit[0]) - int(used[0])))
    return min(found, default=8 << 30)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
