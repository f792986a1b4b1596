"""A module of LLVM's with kernels: each is translated once, with all that it calls."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
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
        tree: Any = ast.parse(textwrap.dedent(inspect.getsource(plain))).body[0]
        b = ir.IRBuilder(function.append_basic_block("entry"))
        statements = Statements(Expressions(b, plain, self.function), plain.__qualname__)
        for parameter, value in zip(parameters, function.args, strict=True):
            statements.assign(parameter, value)
        statements.run(tree.body)
        if not b.block.is_terminated:
            b.ret(ir.Constant(i64, 0))
        return function


def _parameters(plain: Callable[..., Any]) -> list[str]:
    """The names of what a kernel takes: numbers one by one."""
    found = inspect.signature(plain).parameters
    if any(each.kind is not each.POSITIONAL_OR_KEYWORD for each in found.values()):
        raise TypeError(f"{plain.__name__} takes more than plain numbers")
    return [*found]
