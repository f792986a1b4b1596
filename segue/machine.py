"""Facts about this machine that matter for serving, as the operating system reports them."""

import os
import platform
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

# Instructions for products of weights, the best first.
INSTRUCTIONS = {
    "x86": ("amx_int8", "avx512_vnni", "avx512f", "avx_vnni", "avx2", "f16c", "fma"),
    "arm": ("sme", "sve", "i8mm", "asimddp", "asimd"),
}


@dataclass(frozen=True)
class Memory:
    total: int
    available: int  # both 0 where the system does not say


def processor(root: Path = Path("/")) -> str:
    for line in _lines(root / "proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "Hardware"):
            return value.strip()
    return platform.processor() or platform.machine()


def instructions(root: Path = Path("/")) -> list[str]:
    """The INSTRUCTIONS that the processor has. None: the system does not say."""
    for line in _lines(root / "proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            has = set(value.split())
            return [each for family in INSTRUCTIONS.values() for each in family if each in has]
    return []


def memory(root: Path = Path("/")) -> Memory:
    told = {}
    for line in _lines(root / "proc/meminfo"):
        name, _, value = line.partition(":")
        told[name] = int(value.split()[0]) * 1024 if value.split()[:1] else 0
    if "MemTotal" not in told:
        return Memory(_sysconf_bytes(), 0)
    available = told.get("MemAvailable", told["MemTotal"])
    limit = _memory_limit(root)
    return Memory(min(told["MemTotal"], limit), min(available, limit))


def _sysconf_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, AttributeError, OSError):
        return 0


def _memory_limit(root: Path) -> int:
    """The memory limit of the container, if there is one."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        for line in _lines(root / "sys/fs/cgroup" / name):
            if line.strip().isdigit():
                return int(line)
    return 1 << 62


def huge_pages(root: Path = Path("/")) -> str:
    """always, madvise or never; empty where the system does not say."""
    for line in _lines(root / "sys/kernel/mm/transparent_hugepage/enabled"):
        start, end = line.find("["), line.find("]")
        return line[start + 1 : end] if start >= 0 else ""
    return ""


def free_bytes(folder: Path) -> int:
    """Free bytes on the disk of this path, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def is_writable(folder: Path) -> bool:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK)


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


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
