"""Facts about this machine that matter for serving, as the operating system reports them."""

import os
import platform
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path

# Instructions for products of weights, the best first.
INSTRUCTIONS = {
    "x86": ("amx_int8", "avx512_vnni", "avx512f", "avx_vnni", "avx2", "f16c", "fma"),
    "arm": ("sme", "sve", "i8mm", "asimddp", "asimd"),
}


# Lines of /proc/cpuinfo that tell kinds of processors apart, on x86 and on ARM; others change while it runs.
_KIND = (
    ("vendor_id", "cpu family", "model", "model name", "flags"),
    ("Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part"),
)


@dataclass(frozen=True)
class Memory:
    """None: the system does not say."""

    total: int | None
    available: int | None


def processor(root: Path = Path("/")) -> str:
    for line in lines(root / "proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "Hardware"):
            return value.strip()
    return platform.processor() or platform.machine()


def kind_of_processor(root: Path = Path("/")) -> str:
    """Words that differ where a compiler would make different code, as far as the system says."""
    try:
        with (root / "proc/cpuinfo").open(encoding="utf-8") as file:
            first = list(takewhile(str.strip, file))  # of the first one: there may be hundreds
    except (OSError, UnicodeDecodeError):
        first = []
    told = [line.strip() for line in first if line.partition(":")[0].strip() in chain(*_KIND)]
    return "\n".join([platform.machine(), *(told or [platform.processor()])])


def instructions(root: Path = Path("/")) -> list[str]:
    """The INSTRUCTIONS that the processor has. None: the system does not say."""
    for line in lines(root / "proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            has = set(value.split())
            return [each for family in INSTRUCTIONS.values() for each in family if each in has]
    return []


def memory(root: Path = Path("/")) -> Memory:
    """Of the machine, and within the limits of containers and services."""
    told = {}
    for line in lines(root / "proc/meminfo"):
        name, _, value = line.partition(":")
        told[name] = int(value.split()[0]) * 1024 if value.split()[:1] else 0
    if "MemTotal" not in told:
        return Memory(_sysconf_bytes(), None)
    limits = [(told["MemTotal"], told.get("MemAvailable", told["MemTotal"])), *_memory_limits(root)]
    return Memory(min(total for total, _ in limits), min(left for _, left in limits))


def control_groups(controller: str, root: Path) -> Iterator[Path]:
    """The folder of this process's control group and of all above it (Linux): each may have a limit.

    A container is one, and so is a service of systemd. There are two versions of their file system.
    """
    for line in lines(root / "proc/self/cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / (controller if controllers else "")  # version 2 names none
        group = Path(path.lstrip("/"))
        # In a container the path may be the host's and not exist; the mount itself does.
        yield from (mount / folder for folder in (group, *group.parents))


def lines(path: Path) -> list[str]:
    """Of a file; none if it cannot be read."""
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def words(path: Path) -> list[str]:
    """Of a file; none if it cannot be read."""
    return " ".join(lines(path)).split()


def _sysconf_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, AttributeError, OSError):
        return None


# Files of a control group in either version: its limit, what it uses, and the row of memory.stat that says how much of
# that are pages of files, such as a model's, which the system takes back.
_GROUP_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def _memory_limits(root: Path) -> Iterator[tuple[int, int]]:
    """The limit of each group that has one, and what is left of it."""
    for folder in control_groups("memory", root):
        for limit_name, used_name, cached_name in _GROUP_FILES:
            limit, used = words(folder / limit_name)[:1], words(folder / used_name)[:1]
            if not (limit and limit[0].isdigit()):  # "max" is none
                continue
            rows = dict(line.split()[:2] for line in lines(folder / "memory.stat") if " " in line)
            in_use = int(used[0]) - int(rows.get(cached_name, 0)) if used else 0
            yield int(limit[0]), max(0, int(limit[0]) - max(0, in_use))


def huge_pages(root: Path = Path("/")) -> str:
    """always, madvise or never; empty where the system does not say."""
    for line in lines(root / "sys/kernel/mm/transparent_hugepage/enabled"):
        start, end = line.find("["), line.find("]")
        return line[start + 1 : end] if start >= 0 else ""
    return ""


def free_bytes(folder: Path) -> int:
    """Free bytes on the disk of this path, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def is_writable(folder: Path) -> bool:
    """Whether files can be made in this folder, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK)


def file_problem(file: Path) -> str | None:
    """Why this file cannot be written, or None."""
    if file.is_dir():
        return "it is a folder"
    if not file.parent.is_dir():
        return f"there is no folder {file.parent}"
    is_permitted = os.access(file if file.exists() else file.parent, os.W_OK)
    return None if is_permitted else "it is not permitted"


def port_problem(host: str, port: int) -> str | None:
    """Why a server cannot listen there, or None."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
    except OSError as error:
        return error.strerror or str(error)
    return None
