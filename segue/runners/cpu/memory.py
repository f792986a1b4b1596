"""Memory that compiled code reads and writes: aligned to pages, zero, and taken from the system when it is touched."""

import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def zeros(shape: tuple[int, ...] | int, kind: Any) -> NDArray[Any]:
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    size = max(1, count) * np.dtype(kind).itemsize
    return np.frombuffer(mmap.mmap(-1, size), kind, count).reshape(shape)


def address(array: NDArray[Any]) -> int:
    place: int = array.__array_interface__["data"][0]
    return place


def available_bytes() -> int:
    """What can still be used, here and in the container's limit; 8 GiB where nobody tells."""
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
