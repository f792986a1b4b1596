"""Operations as LLVM IR.

Vectors have 16 lanes on every machine: LLVM splits them to fit the processor's registers. A multiplication and an
addition are fused only by fma().
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from llvmlite import ir

Value = Any  # a value of llvmlite.ir
Builder = Any

LANES = 16

i1, i8, i16, i32, i64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
f16, f32 = ir.HalfType(), ir.FloatType()
FLOATS, INTS = ir.VectorType(f32, LANES), ir.VectorType(i32, LANES)
HALVES, BYTES = ir.VectorType(f16, LANES), ir.VectorType(i8, LANES)


# --- values: a constant is made once, and its text too ---


@cache
def number(value: int) -> Value:
    return ir.Constant(i64, value)


def every(kind: Any, value: float) -> Value:
    """The same number in every lane of a vector of this kind."""
    return _every(kind, value, math.copysign(1, value))


@cache
def _every(kind: Any, value: float, sign: float) -> Value:
    """`sign`: 0.0 and -0.0 are equal, but not the same."""
    return ir.Constant(kind, [value] * kind.count)


def floats(value: float) -> Value:
    return every(FLOATS, value)


def ints(value: int) -> Value:
    return every(INTS, value)


@cache
def lanes(*places: int) -> Value:
    """Which lanes a shuffle takes."""
    return ir.Constant(ir.VectorType(i32, len(places)), places)


@cache
def _nothing(kind: Any) -> Value:
    return ir.Constant(kind, ir.Undefined)


_FIRST = ir.Constant(i32, 0)


def splat(b: Builder, value: Value, kind: Any = FLOATS) -> Value:
    """A scalar in every lane."""
    empty = _nothing(kind)
    first = b.insert_element(empty, value, _FIRST)
    return b.shuffle_vector(first, empty, lanes(*[0] * kind.count))


def cell(b: Builder, value: Value) -> Value:
    """A variable that begins as this value; LLVM keeps it in a register."""
    place = _allocated(b, value.type)
    b.store(value, place)
    return place


def room(b: Builder, kind: Any, count: int) -> Value:
    """The address of room for so many values, with whatever was there: LLVM would clear it byte by byte."""
    return b.ptrtoint(_allocated(b, ir.ArrayType(kind, count)), i64)


def _allocated(b: Builder, kind: Any) -> Value:
    with b.goto_entry_block():  # once per function, even inside a loop
        return b.alloca(kind)


# --- memory ---


def pointer(b: Builder, address: Value, kind: Any) -> Value:
    return b.inttoptr(address, kind.as_pointer())


def load(b: Builder, address: Value, kind: Any = FLOATS, align: int = 4) -> Value:
    return b.load(pointer(b, address, kind), align=align)


def store(b: Builder, value: Value, address: Value, align: int = 4) -> None:
    b.store(value, pointer(b, address, value.type), align=align)


def at(b: Builder, base: Value, index: Value, size: int) -> Value:
    """The address of item `index`, where items have `size` bytes."""
    return b.add(base, b.mul(index, number(size)))


def ahead(b: Builder, base: Value, offset: int) -> Value:
    return b.add(base, number(offset)) if offset else base


# --- control ---


class Iteration(NamedTuple):
    index: Value


@contextmanager
def loop(b: Builder, count: Value) -> Iterator[Iteration]:
    """`with loop(b, n) as each`: each.index goes from 0 to n - 1."""
    before = b.block
    test, body, after = (b.append_basic_block(name) for name in ("test", "body", "after"))
    b.branch(test)
    b.position_at_end(test)
    index = b.phi(i64)
    index.add_incoming(number(0), before)
    b.cbranch(b.icmp_signed("<", index, count), body, after)
    b.position_at_end(body)
    yield Iteration(index)
    index.add_incoming(b.add(index, number(1)), b.block)
    b.branch(test)
    b.position_at_end(after)


def call(b: Builder, name: str, result: Any, *args: Value) -> Value:
    """An intrinsic of LLVM's, or a function of the C library."""
    function = b.module.globals.get(name) or ir.Function(
        b.module, ir.FunctionType(result, [arg.type for arg in args]), name
    )
    return b.call(function, list(args))


# --- arithmetic ---


def fma(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """x * y + z, rounded once."""
    kind = x.type
    suffix = "f32" if kind == f32 else f"v{kind.count}f32"
    return call(b, f"llvm.fma.{suffix}", kind, x, y, z)


def greater(b: Builder, x: Value, y: Value) -> Value:
    """The greater of two numbers or of each pair of lanes; y where x is not a number."""
    return b.select(b.fcmp_ordered(">", x, y), x, y)


def tree(b: Builder, vector: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Reduce all lanes to one: the lower half is combined with the upper half, until one lane is left."""
    count = vector.type.count
    while count > 1:
        half = count // 2
        empty = _nothing(vector.type)
        lower, upper = (
            b.shuffle_vector(vector, empty, lanes(*range(start, start + half)))
            for start in (0, half)
        )
        vector, count = combine(lower, upper), half
    return b.extract_element(vector, _FIRST)
