"""Softmax's numerators and their sums in compiled code, with the bits of exact_math.

The same operations in the same order: multiplications and additions are not fused here, as numpy cannot fuse them.
"""

import ctypes
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from segue import exact_math
from segue.exact_math import Floats
from segue.runners.cpu.emit import (
    FLOATS,
    LANES,
    Builder,
    Value,
    at,
    every,
    f32,
    i32,
    i64,
    load,
    loop,
    number,
    splat,
    store,
)
from segue.runners.cpu.memory import address
from segue.runners.cpu.products import machine_code
from segue.runners.cpu.products.machine_code import Kept, nothing_kept
from segue.runners.cpu.products.processor import Target

_LAYERS = exact_math.LAYERS
_FLOAT_BYTES = 4
_FEW = 1024
_FLOAT, _INT = struct.Struct("f"), struct.Struct("i")


class _Near(threading.local):
    """A small buffer per thread with a known address: copying to it is faster than finding an array's address."""

    def __init__(self) -> None:
        self.values = np.empty(_FEW, np.float32)
        self.place = address(self.values)


class Softmax:
    """Implements exact_math.Compiled."""

    def __init__(self, target: Target, kept: Kept = nothing_kept) -> None:
        found = machine_code.load_module("softmax", module, ["weigh", "fold"], target, kept)
        self._weigh, self._fold = (_callable(found[name]) for name in ("weigh", "fold"))

        self._near = _Near()

    def weigh(self, logits: Floats, best: float, out: Floats) -> None:
        [bits] = _INT.unpack(_FLOAT.pack(best))
        if logits.size > _FEW:
            self._weigh(address(logits), logits.size, bits, address(out))
            return
        near = self._near
        near.values[: logits.size] = logits
        self._weigh(near.place, logits.size, bits, near.place)
        out[:] = near.values[: logits.size]

    def fold(self, values: Floats, out: Floats) -> None:
        self._fold(address(values), values.size, out.size, address(out))


def _callable(place: int) -> Callable[..., None]:
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(place)


def module(target: Target) -> ir.Module:
    made = ir.Module("softmax")
    made.triple = target.triple
    _build_weigh(made)
    _build_fold(made)
    return made


def _function(made: ir.Module, name: str) -> tuple[Builder, list[Value]]:
    function = ir.Function(made, ir.FunctionType(ir.VoidType(), [i64] * 4), name)
    return ir.IRBuilder(function.append_basic_block()), list(function.args)


def _build_weigh(made: ir.Module) -> None:
    b, (logits, count, bits, out) = _function(made, "weigh")
    weigh_into(b, logits, count, b.bitcast(b.trunc(bits, i32), f32), out)
    b.ret_void()


def weigh_into(b: Builder, logits: Value, count: Value, best: Value, out: Value) -> None:
    """exact_math.weights: `count` floats from one address to another."""
    many = splat(b, best)
    num_vectors = b.udiv(count, number(LANES))
    with loop(b, num_vectors) as each:
        place = b.mul(each.index, number(LANES))
        logit = load(b, at(b, logits, place, _FLOAT_BYTES))
        store(b, weight(b, b.fsub(logit, many)), at(b, out, place, _FLOAT_BYTES))
    first = b.mul(num_vectors, number(LANES))
    with loop(b, b.sub(count, first)) as each:
        place = b.add(first, each.index)
        logit = load(b, at(b, logits, place, _FLOAT_BYTES), f32)
        store(b, weight(b, b.fsub(logit, best)), at(b, out, place, _FLOAT_BYTES))


def weight(b: Builder, depth: Value) -> Value:
    """exact_math's _exponentiate, for one number or a vector of 16."""
    kind = depth.type
    whole_kind = i32 if kind == f32 else ir.VectorType(i32, LANES)

    def constant(value: Any, of: Any = kind) -> Value:
        return ir.Constant(of, value.item()) if of in (f32, i32) else every(of, value.item())

    x = b.fmul(depth, constant(exact_math.LOG2_E))
    lowest = constant(exact_math.LOWEST)
    x = b.select(b.fcmp_ordered("<", x, lowest), lowest, x)
    rounder = constant(exact_math.ROUNDER)
    whole = b.fadd(x, rounder)
    shift = constant(exact_math.TO_EXPONENT, whole_kind)
    half_power = b.bitcast(b.mul(b.bitcast(whole, whole_kind), shift), kind)
    x = b.fsub(x, b.fsub(whole, rounder))
    first, *rest = map(constant, exact_math.POWERS_OF_2)
    found = b.fmul(x, first)
    for factor in rest:
        found = b.fmul(b.fadd(found, factor), x)
    return b.fmul(b.fadd(found, constant(np.float32(2.0))), half_power)


def _build_fold(made: ir.Module) -> None:
    b, (values, count, width, out) = _function(made, "fold")
    fold_into(b, values, count, width, out)
    b.ret_void()


def _as_it_is(value: Value) -> Value:
    return value


def fold_into(
    b: Builder,
    values: Value,
    count: Value,
    width: Value,
    out: Value,
    change: Callable[[Value], Value] = _as_it_is,
    *,
    out_bytes: int = _FLOAT_BYTES,
) -> None:
    """exact_math.folded, for more than exact_math.FEW values: then only the last layer can be short.

    `change`: what is added is made of each value, one number or a vector of 16. `out_bytes`: of what it makes.
    """
    last = b.sub(count, b.mul(width, number(_LAYERS - 1)))  # how many the last layer has
    num_vectors = b.udiv(last, number(LANES))

    def item(column: Value, kind: Any, layer: int) -> Value:
        at_all = column if not layer else b.add(column, b.mul(width, number(layer)))
        if kind == FLOATS or layer < _LAYERS - 1:
            return change(load(b, at(b, values, at_all, _FLOAT_BYTES), kind))
        is_there = b.icmp_signed("<", column, last)
        value = change(
            load(b, at(b, values, b.select(is_there, at_all, column), _FLOAT_BYTES), kind)
        )
        return b.select(is_there, value, ir.Constant(value.type, -0.0))  # which changes no sum

    def tree(column: Value, kind: Any, layer: int = 0, stride: int = 1) -> Value:
        """The sum of one column: recursively the sum of its even layers plus that of its odd layers."""
        if stride == _LAYERS:
            return item(column, kind, layer)
        front = tree(column, kind, layer, 2 * stride)
        return b.fadd(front, tree(column, kind, layer + stride, 2 * stride))

    def columns(first: Value, until: Value, kind: Any, step: int) -> None:
        with loop(b, b.udiv(b.sub(until, first), number(step))) as each:
            column = b.add(first, b.mul(each.index, number(step)))
            store(b, tree(column, kind), at(b, out, column, out_bytes))

    in_vectors = b.mul(num_vectors, number(LANES))
    columns(number(0), in_vectors, FLOATS, LANES)
    columns(in_vectors, width, f32, 1)
