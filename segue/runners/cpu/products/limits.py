"""Measures the processor's upper limits: multiply-adds of its dot products, and bytes read from memory."""

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from segue.runners.cpu.emit import ahead, at, cell, i32, i64, load, loop, store
from segue.runners.cpu.products import machine_code
from segue.runners.cpu.products.dots.table import sums
from segue.runners.cpu.products.dots.vectors import Codes, Kind, Part
from segue.runners.cpu.products.layout import STEP
from segue.runners.cpu.products.processor import Target

_KERNEL = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)
_ROWS = 4
_STEPS = 8
_SAMPLES = 5


def peak_gmacs(target: Target, threads: int) -> float:
    """Billions of products of 4-bit codes per second, without any other work."""
    code, repeats = _kernel(target, "peak"), 200_000
    scratch = np.zeros((threads, 4096), np.uint8)
    seconds = _best(threads, lambda i: code(scratch[i].ctypes.data, repeats, 0))
    each = _ROWS * _STEPS * STEP * target.flavour.width
    return threads * repeats * each / seconds / 1e9


def read_gbytes(target: Target, threads: int, data: NDArray[np.uint8]) -> float:
    """Billions of bytes per second, read once in order by all threads together."""
    code = _kernel(target, "read")
    lines = data.size // 256 // threads
    scratch = np.zeros((threads, 4096), np.uint8)
    start = data.ctypes.data
    seconds = _best(threads, lambda i: code(scratch[i].ctypes.data, lines, start + i * lines * 256))
    return threads * lines * 256 / seconds / 1e9


def _best(threads: int, work: Callable[[int], None]) -> float:
    with ThreadPoolExecutor(threads) as team:
        found = []
        for _ in range(_SAMPLES):
            start = time.perf_counter()
            list(team.map(work, range(threads)))
            found.append(time.perf_counter() - start)
    return min(found)


def _kernel(target: Target, name: str) -> Callable[..., None]:
    build = {"peak": _build_peak, "read": _build_read}[name]

    def made() -> ir.Module:
        module = ir.Module(name)
        module.triple = target.triple
        build(module, Kind(target.flavour), name)
        return module

    return _KERNEL(machine_code.load(name, made, [name], target)[name])


def _build_peak(module: ir.Module, kind: Kind, name: str) -> None:
    """(scratch, repeats, -): dot products of data that stays in registers and the first-level cache."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [i64] * 3), name)
    b = ir.IRBuilder(function.append_basic_block())
    scratch, repeats, _ = function.args
    vectors = range(kind.flavour.vectors)
    codes = [load(b, ahead(b, scratch, 64 * v), kind.bytes, 1) for v in vectors]
    acc = [cell(b, kind.all(kind.ints, 0)) for _ in range(_ROWS * len(vectors))]
    with loop(b, repeats):
        rows = [ahead(b, scratch, 2048 + 64 * m) for m in range(_ROWS)]
        part = Part(
            kind,
            Codes(lambda _: codes, 15, False, 0, len(codes), kind.flavour.dot == "smmla"),
            range(_STEPS),
            rows,
            [ir.Constant(i32, 0)] * _ROWS,
        )
        found = sums(b, part)
        for place, value in zip(acc, (x for own in found for x in own), strict=True):
            b.store(b.add(b.load(place), value), place)
        # The loop must change its input, or LLVM would compute the dot products only once.
        store(b, b.load(acc[0]), rows[0], 1)
    for i, place in enumerate(acc):
        store(b, b.load(place), ahead(b, scratch, 64 * i), 1)
    b.ret_void()


def _build_read(module: ir.Module, kind: Kind, name: str) -> None:
    """(scratch, pieces of 256 bytes, start)"""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [i64] * 3), name)
    b = ir.IRBuilder(function.append_basic_block())
    scratch, pieces, start = function.args
    size = kind.flavour.lanes * 4
    acc = [cell(b, kind.all(kind.ints, 0)) for _ in range(256 // size)]
    with loop(b, pieces) as each:
        place = at(b, start, each.index, 256)
        for v, total in enumerate(acc):
            found = load(b, ahead(b, place, v * size), kind.ints, 1)
            b.store(b.xor(b.load(total), found), total)
    for v, total in enumerate(acc):
        store(b, b.load(total), ahead(b, scratch, v * size), 1)
    b.ret_void()
