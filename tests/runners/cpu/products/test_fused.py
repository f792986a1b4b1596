"""x * y + z rounded once, without an instruction for it: every bit, also where rounding twice would err."""

import ctypes
from fractions import Fraction

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir
from numpy.typing import NDArray

from segue.runners.cpu.emit import at, f32, fma, i64, load, loop, store
from segue.runners.cpu.native import link
from segue.runners.cpu.products import machine_code
from segue.runners.cpu.products.fused import spelled_out
from segue.runners.cpu.products.processor import this_target

Floats = NDArray[np.float32]
_HIGHEST = 1 << 7  # 2 to this is no float


def applied(count: int, x: Floats, y: Floats, z: Floats) -> Floats:
    """fma of vectors of so many lanes, spelled out; 0: of floats."""
    module = ir.Module("applied")
    module.triple = llvm.get_process_triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [i64] * 5), "applied")
    *sources, target, times = function.args
    b, size = ir.IRBuilder(function.append_basic_block()), 4 * max(count, 1)
    kind = ir.VectorType(f32, count) if count else f32
    with loop(b, times) as each:
        loaded = [load(b, at(b, source, each.index, size), kind) for source in sources]
        store(b, fma(b, *loaded), at(b, target, each.index, size))
    b.ret_void()
    text = spelled_out(str(module))
    assert "llvm.fma" not in text
    target_ = this_target({})
    address = link(machine_code.compile_text(text, target_), ["applied"], target_)["applied"]
    out = np.empty(x.size, np.float32)
    places = [each.ctypes.data for each in (x, y, z, out)]
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)(address)(*places, x.size // max(count, 1))
    return out


def rounded_once(x: float, y: float, z: float) -> float:
    """By whole numbers, which have no limits."""
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if not exact:
        return x * y + z  # its sign
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, -126) - 23)
    whole = float(round(size / step) * step)  # ties to even
    found = whole if whole < 2.0**_HIGHEST else np.inf
    return -found if exact < 0 else found


def numbers(rng: np.random.Generator, first: int, last: int, count: int) -> Floats:
    """Floats with these exponents, many of them with few bits: sums lie half way between two floats, or nearly."""
    kept = rng.choice(np.array([0x7FFFFF, 0x7FF000, 0x700000, 1, 0], np.uint32), count)
    bits = rng.integers(0, 1 << 23, count, np.uint32) & kept
    bits |= rng.integers(first, last, count).astype(np.uint32) << 23
    bits |= rng.integers(0, 2, count, np.uint32) << 31
    made: Floats = bits.view(np.float32)
    return made


# Usual numbers; all; products and sums without a whole float's bits; a sum far above or below what is added.
RANGES = [
    ((110, 140), (110, 140)),
    ((0, 255), (0, 255)),
    ((55, 70), (0, 4)),
    ((100, 128), (80, 150)),
    ((190, 200), (240, 255)),
]


@pytest.mark.parametrize("count", [0, 4, 16])
def test_every_bit_is_that_of_a_sum_rounded_once(count: int) -> None:
    rng, size = np.random.default_rng(7), 1600
    for factors, added in RANGES:
        x, y = (numbers(rng, *factors, size) for _ in range(2))
        z = numbers(rng, *added, size)
        # What is added is half a step of the product, a little more or less: where rounding twice errs.
        with np.errstate(over="ignore", under="ignore"):
            z[::4] = x[::4] * y[::4] * np.float32(2.0**24) * rng.choice([1, -1, 3, 5], size // 4)
        z[~np.isfinite(z)] = 1
        right = [rounded_once(*each) for each in zip(*(v.tolist() for v in (x, y, z)), strict=True)]
        got = applied(count, x, y, z)
        np.testing.assert_array_equal(
            got.view(np.int32), np.array(right, np.float32).view(np.int32)
        )


def test_half_of_the_least_step_is_rounded_once_too() -> None:
    """Below the least normal number a float has fewer bits, and so is another double half way between two."""
    x = np.full(4, (1 + 2.0**-23) * 2.0**-75, np.float32)
    y = np.array([1 - 2.0**-23, 1, 1 + 2.0**-23, -(1 - 2.0**-23)], np.float32) * np.float32(
        2.0**-75
    )
    z = np.array([1, 1, 0, 1], np.float32) * np.float32(2.0**-149) + np.float32(2.0**-127)
    right = [rounded_once(*each) for each in zip(x.tolist(), y.tolist(), z.tolist(), strict=True)]
    np.testing.assert_array_equal(applied(4, x, y, z), np.array(right, np.float32))
    assert right[0] == z[0] != right[1]


def test_what_is_no_number_stays_none_and_infinities_infinite() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([inf, inf, 0, nan, 1, 3e38, -3e38, inf], np.float32)
    y = np.array([1, 0, inf, 1, nan, 10, 10, 1], np.float32)
    z = np.array([1, 1, 1, 1, 1, 1, 1, -inf], np.float32)
    got = applied(4, x, y, z)
    np.testing.assert_array_equal(
        got, np.array([inf, nan, nan, nan, nan, inf, -inf, nan], np.float32)
    )


def test_a_text_without_fma_is_as_it_was() -> None:
    assert spelled_out("define void @x() { ret void }") == "define void @x() { ret void }"
