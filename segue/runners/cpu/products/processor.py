"""Which instructions this processor has, and so which flavour of the products it runs.

Every flavour computes the same integers and the same chain of float operations, so all give the same bits.
A flavour is one set of instructions and tile sizes. SEGUE_CPU can name another one than the best: code is then
compiled for the oldest processor that has it.
"""

import ctypes
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

from segue.errors import Incompatible

VARIABLE = "SEGUE_CPU"


@dataclass(frozen=True, kw_only=True)
class Flavour:
    name: str
    arch: str  # "x86_64", "aarch64", or "" for any
    needs: frozenset[str]  # instruction sets, as LLVM names them
    dot: str  # how four products are summed: see dots/
    lanes: int  # numbers of 32 bits in a register
    vectors: int  # registers of outputs in a tile
    rows: tuple[int, ...]  # how many rows a tile may take, most first; ends with 1
    cpu: str  # the oldest processor that has it, as LLVM names it

    @property
    def width(self) -> int:
        """Outputs of a tile."""
        return self.lanes * self.vectors

    @property
    def has_fma(self) -> bool:
        """Whether x * y + z rounded once is an instruction, or the compiler knows what to do instead."""
        return self.arch != _X86 or "fma" in self.needs

    @property
    def has_halves(self) -> bool:
        """Whether f16 becomes f32 by an instruction."""
        return self.arch == _ARM or "f16c" in self.needs


def _flavour(
    name: str,
    arch: str,
    needs: str,
    dot: str,
    *,
    tile: tuple[int, int],
    rows: tuple[int, ...],
    cpu: str,
) -> Flavour:
    """A row of the table. `needs`: words between spaces; `tile`: lanes and vectors."""
    lanes, vectors = tile
    return Flavour(
        name=name,
        arch=arch,
        needs=frozenset(needs.split()),
        dot=dot,
        lanes=lanes,
        vectors=vectors,
        rows=rows,
        cpu=cpu,
    )


_X86, _ARM = "x86_64", "aarch64"
_AVX2 = "avx2 fma f16c"
_AVX512 = f"{_AVX2} avx512f avx512bw avx512vl avx512dq"

# Best first. A tile for each number of rows: two smaller ones would expand the codes twice.
# Tiles of ARM have few outputs and many rows: expanding a code is then shared by more of them.
FLAVOURS: tuple[Flavour, ...] = (
    _flavour(
        "avx512vnni",
        _X86,
        f"{_AVX512} avx512vnni",
        "vnni",
        tile=(16, 2),
        rows=(8, 7, 6, 5, 4, 3, 2, 1),
        cpu="cascadelake",
    ),
    _flavour(
        "avx512",
        _X86,
        _AVX512,
        "maddubs",
        tile=(16, 2),
        rows=(8, 7, 6, 5, 4, 3, 2, 1),
        cpu="skylake-avx512",
    ),
    _flavour(
        "avxvnni", _X86, f"{_AVX2} avxvnni", "vnni", tile=(8, 2), rows=(4, 3, 2, 1), cpu="alderlake"
    ),
    _flavour("avx2", _X86, _AVX2, "maddubs", tile=(8, 2), rows=(4, 3, 2, 1), cpu="haswell"),
    _flavour(
        "i8mm",
        _ARM,
        "neon dotprod i8mm",
        "smmla",
        tile=(4, 2),
        rows=(8, 7, 6, 5, 4, 3, 2, 1),
        cpu="neoverse-v1",
    ),
    _flavour(
        "dotprod",
        _ARM,
        "neon dotprod",
        "sdot",
        tile=(4, 2),
        rows=(8, 7, 6, 5, 4, 3, 2, 1),
        cpu="neoverse-n1",
    ),
    _flavour("neon", _ARM, "neon", "smull", tile=(4, 2), rows=(2, 1), cpu="cortex-a72"),
    _flavour(
        "sse4",
        _X86,
        "ssse3 sse4.1 sse4.2 popcnt",
        "maddubs",
        tile=(4, 2),
        rows=(4, 3, 2, 1),
        cpu="nehalem",
    ),
    _flavour("generic", "", "", "generic", tile=(8, 2), rows=(1,), cpu=""),
)


@dataclass(frozen=True)
class Target:
    """What machine code is made for: a flavour, and the processor as LLVM knows it."""

    flavour: Flavour
    triple: str
    cpu: str
    features: str  # "+avx2,-sse4a,..."

    @property
    def has_fma(self) -> bool:
        """Whether x * y + z rounded once is an instruction."""
        own = self.features.split(",")
        return not self.triple.startswith(_X86) or "fma" in self.flavour.needs or "+fma" in own


@cache
def arch() -> str:
    machine = platform.machine().lower()
    return {"amd64": _X86, "arm64": _ARM}.get(machine, machine)


# Linux' AT_HWCAP and AT_HWCAP2 on aarch64: which vector, and which bit of it.
_ARM_BITS = {"dotprod": (16, 20), "i8mm": (26, 13)}
# The same as macOS names it.
_APPLE_NAMES = {"dotprod": b"FEAT_DotProd", "i8mm": b"FEAT_I8MM"}


@cache
def instructions() -> frozenset[str]:
    """The instruction sets of this processor, as LLVM names them."""
    found = {name for name, has in llvm.get_host_cpu_features().items() if has}
    if arch() == _ARM:
        found |= {"neon", *_arm_instructions()}
    return frozenset(found)


def _arm_instructions() -> Iterable[str]:
    """Dot and matrix product instructions, which LLVM does not report on ARM."""
    if platform.system() == "Darwin":
        return [name for name, feature in _APPLE_NAMES.items() if _has_apple(feature)]
    return [name for name, (vector, bit) in _ARM_BITS.items() if _auxiliary(vector) >> bit & 1]


def _auxiliary(vector: int) -> int:
    """An entry of the auxiliary vector, in which Linux describes the processor; 0 if it cannot be read."""
    try:
        ask = ctypes.CDLL(None).getauxval
    except (AttributeError, OSError, TypeError):
        return 0
    ask.restype, ask.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return int(ask(vector))


def _has_apple(feature: bytes) -> bool:
    """Whether macOS says that the processor has it; not, if it cannot be asked."""
    value = ctypes.c_int(0)
    size = ctypes.c_size_t(ctypes.sizeof(value))
    try:
        ask = ctypes.CDLL(None).sysctlbyname
    except (AttributeError, OSError, TypeError):
        return False
    name = b"hw.optional.arm." + feature
    told = ask(name, ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return told == 0 and value.value == 1


def possible() -> tuple[Flavour, ...]:
    """The flavours this machine can execute, best first."""
    return tuple(
        flavour
        for flavour in FLAVOURS
        if flavour.arch in ("", arch()) and flavour.needs <= instructions()
    )


def is_possible(name: str) -> bool:
    """Whether this machine can execute the flavour of this name, as SEGUE_CPU would give it."""
    return name.strip().lower() in {"", *(flavour.name for flavour in possible())}


def this_target(environ: Mapping[str, str] = os.environ) -> Target:
    """The target for this machine. Raises Incompatible if SEGUE_CPU names a flavour that cannot run here."""
    name = environ.get(VARIABLE, "").strip().lower()
    best, *_ = possible()
    if not name or name == best.name:
        return _target(best, llvm.get_host_cpu_name(), _said(instructions()))
    for flavour in possible():
        if flavour.name == name:
            return target_of(flavour)
    names = ", ".join(flavour.name for flavour in possible())
    raise Incompatible(f"{VARIABLE}={name}: this processor can run {names}")


def target_of(flavour: Flavour) -> Target:
    """The target for the oldest processor that has the flavour."""
    if not flavour.arch:
        return _target(flavour, "generic", "")
    return _target(flavour, flavour.cpu, "")


def _target(flavour: Flavour, cpu: str, features: str) -> Target:
    triples = {_X86: "x86_64-unknown-linux-gnu", _ARM: "aarch64-unknown-linux-gnu"}
    own = flavour.arch in ("", arch())
    triple = llvm.get_process_triple() if own else triples[flavour.arch]
    return Target(flavour, triple, cpu, features)


def _said(found: frozenset[str]) -> str:
    known = llvm.get_host_cpu_features()
    words = [f"+{name}" for name in sorted(found)]
    return ",".join([*words, *(f"-{name}" for name in sorted(known) if name not in found)])
