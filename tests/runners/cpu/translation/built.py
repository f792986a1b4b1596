"""Functions of Python as kernels, each compiled once in a process."""

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir

from segue.runners.cpu.native import kernel, link
from segue.runners.cpu.products.machine_code import compile_text
from segue.runners.cpu.products.processor import Target, this_target
from segue.runners.cpu.translation.functions import Functions


def module(written: Any, num_ints: int) -> ir.Module:
    made = ir.Module("test")
    made.triple = this_target({}).triple
    Functions(made).entry(written, num_ints)
    return made


@cache
def built(written: Any, num_ints: int, target: Target | None = None) -> Callable[..., int]:
    target, name = target or this_target({}), written.function.__name__
    code = compile_text(str(module(written, num_ints)), target)
    return kernel(link(code, [name], target)[name], num_ints, keeps_gil=False)
