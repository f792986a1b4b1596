"""Kernels that do the same with every number of a row, or of several rows side by side."""

from collections.abc import Callable
from typing import Any

from segue.runners.cpu.emit import (
    Builder,
    Value,
    at,
    floats,
    fma,
    load,
    loop,
    number,
    splat,
    store,
)
from segue.runners.cpu.kernel import FLOAT, INT, VOID, define
from segue.runners.cpu.step.vectors.functions import sigmoid, softplus

# What a kernel does with a row of floats.
ROW_IN, ROW_OUT, ROW_IN_OUT = "read", "written", "changed"


def vectors(b: Builder, count: Value) -> Value:
    return b.lshr(count, number(4))


def elementwise(*roles: Any) -> Callable[[Callable[..., Value]], Callable[..., Any]]:
    """Make a kernel over whole rows from a function of 16 numbers of each: from a builder and vectors to a vector.

    The kernel takes the address of a row for each role, of which one is ROW_OUT or ROW_IN_OUT, or with FLOAT a number,
    which the function gets in every lane; then a count.
    """

    def make(function: Callable[..., Value]) -> Callable[..., Any]:
        def kernel(b: Builder, *values: Value) -> None:
            *given, count = values
            args = list(zip(roles, given, strict=True))
            numbers = {i: splat(b, x) for i, (role, x) in enumerate(args) if role is FLOAT}
            with loop(b, vectors(b, count)) as each:
                places = {
                    i: at(b, x, each.index, 64) for i, (_, x) in enumerate(args) if i not in numbers
                }
                taken = [
                    numbers[i] if role is FLOAT else load(b, places[i])
                    for i, role in enumerate(roles)
                    if role != ROW_OUT
                ]
                [out] = [places[i] for i, role in enumerate(roles) if role in (ROW_OUT, ROW_IN_OUT)]
                store(b, function(b, *taken), out)

        return define(VOID, *(FLOAT if role is FLOAT else INT for role in roles), INT)(kernel)

    return make


@elementwise(ROW_IN_OUT, ROW_IN)
def add_into(b: Builder, x: Value, y: Value) -> Value:
    return b.fadd(x, y)


@elementwise(FLOAT, ROW_IN, ROW_IN_OUT)
def add_scaled(b: Builder, factor: Value, y: Value, x: Value) -> Value:
    return fma(b, y, factor, x)


@elementwise(FLOAT, ROW_IN, ROW_IN, ROW_OUT)
def scale_by_row(b: Builder, factor: Value, x: Value, w: Value) -> Value:
    return b.fmul(b.fmul(x, factor), w)


@elementwise(ROW_IN, ROW_IN, ROW_OUT)
def multiply(b: Builder, x: Value, y: Value) -> Value:
    return b.fmul(x, y)


@elementwise(ROW_IN_OUT, ROW_IN)
def multiply_into(b: Builder, x: Value, y: Value) -> Value:
    return b.fmul(x, y)


@elementwise(FLOAT, ROW_IN, ROW_OUT)
def scale(b: Builder, factor: Value, x: Value) -> Value:
    return b.fmul(x, factor)


@elementwise(ROW_IN_OUT, FLOAT, FLOAT)
def clamp(b: Builder, x: Value, least: Value, most: Value) -> Value:
    """What is not a number stays so."""
    x = b.select(b.fcmp_ordered("<", x, least), least, x)
    return b.select(b.fcmp_ordered(">", x, most), most, x)


@elementwise(ROW_IN_OUT, ROW_IN)
def multiply_by_sigmoid(b: Builder, x: Value, y: Value) -> Value:
    return b.fmul(x, sigmoid(b, y))


@elementwise(ROW_IN, ROW_IN, ROW_IN, ROW_OUT)
def blend(b: Builder, x: Value, other: Value, share: Value) -> Value:
    """x + share (other - x)"""
    return fma(b, b.fsub(other, x), share, x)


@elementwise(ROW_OUT)
def clear(b: Builder) -> Value:
    return floats(0.0)


@elementwise(ROW_IN, ROW_OUT)
def copy(b: Builder, x: Value) -> Value:
    return x


@elementwise(ROW_IN_OUT, ROW_IN)
def multiply_by_softplus(b: Builder, x: Value, y: Value) -> Value:
    return b.fmul(x, softplus(b, y))
