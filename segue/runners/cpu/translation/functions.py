"""A module of LLVM's with kernels: each is translated once, with all that it calls."""

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import Value, i64
from segue.runners.cpu.kernel import Written
from segue.runners.cpu.translation.expressions import Expressions
from segue.runners.cpu.translation.statements import Statements


class Functions:
    """The kernels of a module."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._made: dict[Written, ir.Function] = {}

    def entry(self, kernel: Any, num_ints: int) -> None:
        """A kernel of integers that can be called by its name from outside."""
        self.function(kernel, [i64] * num_ints).linkage = "external"

    def function(self, kernel: Written, kinds: Sequence[Any]) -> Value:
        """A kernel as a function of parameters of these types."""
        found = self._made.get(kernel)
        if found is None:
            found = self._made[kernel] = self._translated(kernel, kinds)
        if [arg.type for arg in found.args] != [*kinds]:
            raise TypeError(f"{kernel.function.__name__} takes other types elsewhere")
        return found

    def _translated(self, kernel: Written, kinds: Sequence[Any]) -> ir.Function:
        plain = kernel.function
        parameters = _parameters(plain)
        if len(parameters) != len(kinds):
            raise TypeError(f"{plain.__name__} takes {len(parameters)} numbers")
        name = self._module.get_unique_name(plain.__name__)
        function = ir.Function(self._module, ir.FunctionType(i64, kinds), name)
        function.linkage = "internal"
        function.attributes.add("nounwind")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        statements = Statements(Expressions(b, plain, self.function), plain.__qualname__)
        for parameter, value in zip(parameters, function.args, strict=True):
            statements.assign(parameter, value)
        statements.run(_definition(plain).body)
        if not b.block.is_terminated:
            b.ret(ir.Constant(i64, 0))
        return function


def _definition(plain: Callable[..., Any]) -> ast.FunctionDef:
    """A function's source. `inspect` would look for its end token by token."""
    code = plain.__code__
    text = "".join(linecache.getlines(code.co_filename, plain.__globals__))
    return _definitions(text)[code.co_firstlineno]


@cache
def _definitions(text: str) -> dict[int, ast.FunctionDef]:
    """The functions of a module by their first lines: that of a decorator, if they have one."""
    return {
        min([node.lineno, *(each.lineno for each in node.decorator_list)]): node
        for node in _functions(ast.parse(text).body)
    }


def _functions(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node
        yield from _functions(getattr(node, "body", ()))


def _parameters(plain: Callable[..., Any]) -> list[str]:
    """The names of what a kernel takes: numbers one by one."""
    found = inspect.signature(plain).parameters
    if any(each.kind is not each.POSITIONAL_OR_KEYWORD for each in found.values()):
        raise TypeError(f"{plain.__name__} takes more than plain numbers")
    return [*found]
