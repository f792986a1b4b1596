"""Synchronisation of threads: shared words in memory, and waiting by spin, yield and sleep."""

import platform
import sys
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import (
    Builder,
    Value,
    call,
    cell,
    f32,
    i8,
    i32,
    i64,
    load,
    number,
    pointer,
    store,
)
from segue.runners.cpu.kernel import FLOAT, INT, VOID, compiled, define

# Spins before yielding, about 25 µs: a pause instruction takes 40 to 140 cycles on x86, and about 20 on ARM.
SPINS = 500 if platform.machine().lower() in ("x86_64", "amd64") else 3000
# Yields before sleeping, some 500 µs: as long as another process may hold the processor of the thread that is awaited.
_YIELDS = 2000
_NAP_US = 50

# By system: the functions to yield and to sleep, and the unit of the sleep in µs.
_SYSTEMS = {"win32": ("SwitchToThread", "Sleep", 1000)}
_YIELD, _SLEEP, _SLEEP_UNIT_US = _SYSTEMS.get(sys.platform, ("sched_yield", "usleep", 1))


@define(INT, INT)
def word(b: Builder, address: Value) -> Value:
    """The integer at an address."""
    return load(b, address, i64, 8)


@define(FLOAT, INT)
def real(b: Builder, address: Value) -> Value:
    """The float at an address."""
    return load(b, address, f32)


@define(VOID, INT, INT)
def put_word(b: Builder, address: Value, value: Value) -> None:
    store(b, value, address, 8)


@define(VOID, INT, FLOAT)
def put_real(b: Builder, address: Value, value: Value) -> None:
    store(b, value, address)


@define(INT, INT, INT)
def fetch_add(b: Builder, address: Value, value: Value) -> Value:
    return b.atomic_rmw("add", pointer(b, address, i64), value, "seq_cst")


@define(INT, INT, INT)
def exchange(b: Builder, address: Value, value: Value) -> Value:
    return b.atomic_rmw("xchg", pointer(b, address, i64), value, "seq_cst")


@define(VOID, INT, INT, INT)
def replace_word(b: Builder, address: Value, old: Value, new: Value) -> None:
    """Write the word if it is `old` (compare and swap)."""
    b.cmpxchg(pointer(b, address, i64), old, new, "seq_cst", "seq_cst")


@define(INT, INT)
def shared_word(b: Builder, address: Value) -> Value:
    return b.load_atomic(pointer(b, address, i64), "seq_cst", 8)


# Linux lets a thread sleep until a word changes (futex). On other systems threads sleep in Python.
_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine(), 0) if sys.platform == "linux" else 0
_WAIT, _WAKE = 128, 129  # FUTEX_WAIT and FUTEX_WAKE with FUTEX_PRIVATE_FLAG
SLEEPS_HERE = _FUTEX != 0


def _futex(b: Builder, address: Value, operation: int, value: Value) -> None:
    kind = ir.FunctionType(i64, [i64], var_arg=True)
    name = "syscall"
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    b.call(function, [number(_FUTEX), address, number(operation), value, number(0)])


@define(VOID, INT, INT)
def sleep_while(b: Builder, address: Value, value: Value) -> None:
    """Sleep until woken. Returns at once if the word at the address is not `value`; may also wake without a cause."""
    _futex(b, address, _WAIT, b.and_(value, number(0xFFFFFFFF)))


@define(VOID, INT)
def wake(b: Builder, address: Value) -> None:
    """Wake a thread that sleeps on the word at the address."""
    _futex(b, address, _WAKE, number(1))


@define(VOID)
def pause(b: Builder) -> None:
    """Tell the processor that this thread spins."""
    triple = b.module.triple
    if triple.startswith("x86"):
        call(b, "llvm.x86.sse2.pause", ir.VoidType())
    elif triple.startswith(("aarch64", "arm64")):
        call(b, "llvm.aarch64.isb", ir.VoidType(), ir.Constant(i32, 15))


@define(VOID)
def plain_floats(b: Builder) -> None:
    """Keep denormals and round ties to even in this thread, even if a library has set something else."""
    triple = b.module.triple
    if triple.startswith("x86"):
        state = cell(b, ir.Constant(i32, 0x1F80))
        call(b, "llvm.x86.sse.ldmxcsr", ir.VoidType(), b.bitcast(state, i8.as_pointer()))
    elif triple.startswith(("aarch64", "arm64")):
        call(b, "llvm.aarch64.set.fpcr", ir.VoidType(), number(0))


@define(VOID)
def give_way(b: Builder) -> None:
    call(b, _YIELD, i32)


@define(VOID)
def nap(b: Builder) -> None:
    units = max(1, _NAP_US // _SLEEP_UNIT_US)
    call(b, _SLEEP, ir.VoidType() if sys.platform == "win32" else i32, ir.Constant(i32, units))


@compiled
def await_told(address: Any, naps: Any, most: Any) -> Any:
    """The word at an address once it is not 0; -1 if that takes too long.

    `naps`: address of the number of naps of all who wait; `most`: how many they may be. A thread that naps leaves its
    processor to whoever is to tell.
    """
    spins = 0
    while True:
        told = shared_word(address)
        if told != 0:
            return told
        spins += 1
        if spins < SPINS:
            pause()
        elif fetch_add(naps, 1) < most:
            nap()
        else:
            return -1


@compiled
def await_at_least(address: Any, goal: Any) -> None:
    """Wait until the word is at least `goal`: spin, then yield, then sleep."""
    rounds = 0
    while shared_word(address) < goal:
        rounds += 1
        if rounds < SPINS:
            pause()
        elif rounds < SPINS + _YIELDS:
            give_way()
        else:
            nap()
