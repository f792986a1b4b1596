"""Statements of kernels → IR."""

import ast
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import Value, cell, i64, number
from segue.runners.cpu.translation.expressions import Expressions
from segue.runners.cpu.translation.numbers import Number, as_type, compute, is_known, type_of


class Statements:
    """The statements of one kernel. Every variable has a place in memory; LLVM puts it into a register."""

    def __init__(self, expressions: Expressions, name: str) -> None:
        """`name`: the kernel's, for errors."""
        self._b, self._expressions, self._name = expressions.b, expressions, name
        # Of the loops around: the block where the next round begins.
        self._next_rounds: list[Any] = []
        self._kinds: dict[type[ast.stmt], Callable[[Any], None]] = {
            ast.Expr: lambda node: self._expressions.value(node.value),
            ast.Assign: self._assign,
            ast.AugAssign: self._augment,
            ast.If: self._if,
            ast.While: self._while,
            ast.For: self._for,
            ast.Continue: lambda node: self._b.branch(self._next_rounds[-1]),
            ast.Return: self._return,
        }

    def run(self, body: list[ast.stmt]) -> None:
        """What follows a return is left out."""
        for node in body:
            if self._b.block.is_terminated:
                return
            try:
                if type(node) not in self._kinds:
                    raise TypeError(f"kernels have no {type(node).__name__}")
                self._kinds[type(node)](node)
            except Exception as error:
                if not getattr(error, "__notes__", None):  # the innermost statement says it best
                    statement, *_ = ast.unparse(node).splitlines()
                    error.add_note(f"in {self._name}: {statement}")
                raise

    def assign(self, name: str, number: Number) -> None:
        """A variable has the type of what it is given first."""
        b, places = self._b, self._expressions.places
        if name in places:
            place = places[name]
            b.store(as_type(b, number, place.type.pointee), place)
        else:
            places[name] = cell(b, as_type(b, number, type_of(number)))

    def _assign(self, node: ast.Assign) -> None:
        [target] = node.targets
        targets, values = (
            each.elts if isinstance(each, ast.Tuple) else [each] for each in (target, node.value)
        )
        found = [self._expressions.value(each) for each in values]
        for each, value in zip(targets, found, strict=True):
            self._put(each, value)

    def _put(self, target: ast.expr, value: Number) -> None:
        if not isinstance(target, ast.Name):
            raise TypeError("only variables are assigned to")
        self.assign(target.id, value)

    def _augment(self, node: ast.AugAssign) -> None:
        before, added = (self._expressions.value(each) for each in (node.target, node.value))
        self._put(node.target, compute(self._b, type(node.op), before, added))

    def _if(self, node: ast.If) -> None:
        test, b = self._expressions.truth(node.test), self._b
        if is_known(test):
            self.run(node.body if test else node.orelse)
            return
        with b.if_else(test) as (then, otherwise):
            with then:
                self.run(node.body)
            with otherwise:
                self.run(node.orelse)

    def _while(self, node: ast.While) -> None:
        b = self._b
        test, body, after = (b.append_basic_block(name) for name in ("test", "body", "after"))
        b.branch(test)
        b.position_at_end(test)
        b.cbranch(as_type(b, self._expressions.truth(node.test), ir.IntType(1)), body, after)
        b.position_at_end(body)
        self._round(node, test)
        b.position_at_end(after)

    def _for(self, node: ast.For) -> None:
        b = self._b
        start, stop, step = self._range(node.iter)
        counter = cell(b, start)
        names = ("test", "body", "following", "after")
        test, body, following, after = (b.append_basic_block(name) for name in names)
        b.branch(test)
        b.position_at_end(test)
        index = b.load(counter)
        b.cbranch(b.icmp_signed("<", index, stop), body, after)
        b.position_at_end(body)
        self._put(node.target, index)
        self._round(node, following)
        b.position_at_end(following)
        b.store(b.add(b.load(counter), number(step)), counter)
        b.branch(test)
        b.position_at_end(after)

    def _round(self, loop: ast.While | ast.For, following: Any) -> None:
        if loop.orelse:
            raise TypeError("a loop has no else")
        self._next_rounds.append(following)
        self.run(loop.body)
        self._next_rounds.pop()
        if not self._b.block.is_terminated:
            self._b.branch(following)

    def _range(self, node: ast.expr) -> tuple[Value, Value, int]:
        """start, stop and step of a range; the step is known, and upwards."""
        if not isinstance(node, ast.Call) or self._expressions.value(node.func) is not range:
            raise TypeError("only ranges are iterated over")
        bounds = [self._expressions.value(each) for each in node.args]
        if len(bounds) == 1:
            bounds = [0, *bounds]
        start, stop, step = bounds if len(bounds) == 3 else (*bounds, 1)
        if not isinstance(step, int) or step < 1:
            raise TypeError("the step of a range is a number above 0")
        return as_type(self._b, start, i64), as_type(self._b, stop, i64), step

    def _return(self, node: ast.Return) -> None:
        found = 0 if node.value is None else self._expressions.value(node.value)
        self._b.ret(as_type(self._b, found, i64))
