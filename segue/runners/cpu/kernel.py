"""Kernels: plain Python compiled by numba, and operations of emit.py made callable from kernels.

A kernel takes and returns numbers only (addresses too), so that its machine code can be cached and called without
numba. `fastmath` is never used: sums keep their order.
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import types
from numba.core.types.misc import unliteral
from numba.extending import intrinsic

from segue.runners.cpu.emit import Builder, Value, call, cell, i32, number

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# The parameters of kernels.
INT, FLOAT, VOID = types.int64, types.float32, types.void

COMPILED: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",  # a division by zero raises nothing
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def compiled(function: Kernel) -> Kernel:
    """Compile a function in plain Python as a kernel."""
    kernel: Any = numba.njit(**COMPILED)(function)
    template = kernel.get_call_template

    def of_plain_types(args: Any, kws: Any) -> Any:
        """One kernel for all callers: numba would compile another for every constant that is passed."""
        return template(tuple(map(unliteral, args)), kws)

    kernel.get_call_template = of_plain_types
    made: Kernel = kernel
    return made


def inlined(function: Kernel) -> Kernel:
    """The same, but inlined into every kernel that calls it."""
    kernel: Kernel = numba.njit(inline="always", **COMPILED)(function)
    return kernel


def define(result: Any, *parameters: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a kernel from a function that takes a builder and IR values, and returns the IR value of the result."""

    def make(body: Callable[..., Any]) -> Callable[..., Any]:
        signature = result(*parameters)

        def codegen(context: Any, builder: Builder, _: Any, args: Any) -> Value:
            value = body(builder, *args)
            return context.get_dummy_value() if value is None else value

        def declare(typing_context: Any, *_: Any) -> Any:
            return signature, codegen

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = ["typing_context", *(f"a{i}" for i in range(len(parameters)))]
        declare.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, kind) for name in names]
        )
        declare.__name__ = body.__name__
        kernel: Callable[..., Any] = intrinsic(declare)
        return kernel

    return make


def apart(name: str, num_ints: int) -> Callable[..., Any]:
    """A kernel of that many integers without a result, which another process compiles: called by its name."""

    @define(VOID, *[INT] * num_ints)
    def there(b: Builder, *args: Value) -> None:
        result, error = (
            cell(b, number(0)) for _ in range(2)
        )  # for what numba returns; nothing here
        call(b, name, i32, result, error, *args)

    return there
