"""Kernels: plain Python that translation/ makes LLVM IR of, and operations of emit.py that such Python may call.

A kernel takes and returns numbers only (addresses too), so that its machine code can be cached and called without
what made it. No operation is marked as fast: sums keep their order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from llvmlite import ir

from segue.runners.cpu.emit import Value, f32, i64

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# The parameters of kernels.
INT, FLOAT, VOID = i64, f32, ir.VoidType()


@dataclass(frozen=True, eq=False)
class Written:
    """A kernel in plain Python, translated where it is first called."""

    function: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Emitted:
    """A kernel as a function that takes a builder and IR values: part of every kernel that calls it."""

    body: Callable[..., Value]
    result: Any
    parameters: tuple[Any, ...]


def compiled(function: Kernel) -> Kernel:
    """A function in plain Python as a kernel. It takes integers and floats, and returns an integer or nothing."""
    made: Any = Written(function)
    kernel: Kernel = made
    return kernel


def define(result: Any, *parameters: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a kernel from a function that takes a builder and IR values, and returns the IR value of the result."""

    def make(body: Callable[..., Any]) -> Callable[..., Any]:
        made: Any = Emitted(body, result, parameters)
        kernel: Callable[..., Any] = made
        return kernel

    return make
