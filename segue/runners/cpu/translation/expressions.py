"""Expressions of kernels → IR."""

import ast
import builtins
import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from segue.runners.cpu.emit import Builder, Value, cell, i64
from segue.runners.cpu.kernel import VOID, Emitted, Written
from segue.runners.cpu.translation.numbers import (
    Number,
    as_float,
    as_int,
    as_type,
    compare,
    compute,
    greatest,
    i1,
    is_known,
    least,
    negated,
    opposite,
    root,
    truth,
    type_of,
)

# Functions of Python's: from a builder and numbers to a number.
_FUNCTIONS: dict[Any, Callable[..., Number]] = {
    min: lambda b, *numbers: reduce(lambda x, y: least(b, x, y), numbers),
    max: lambda b, *numbers: reduce(lambda x, y: greatest(b, x, y), numbers),
    int: as_int,
    np.float32: as_float,
    math.sqrt: root,
}
_UNARY: dict[type[ast.unaryop], Callable[[Builder, Number], Number]] = {
    ast.USub: negated,
    ast.Not: opposite,
}


def _names_around(function: Callable[..., Any]) -> dict[str, Any]:
    """What a kernel takes of the function that it was made in."""
    cells = function.__closure__ or ()
    return {
        name: cell.cell_contents
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True)
    }


class Expressions:
    """The expressions of one kernel. `places`: its variables so far."""

    def __init__(
        self,
        b: Builder,
        function: Callable[..., Any],
        callee: Callable[[Written, Sequence[Any]], Value],
    ) -> None:
        """`callee`: the IR function of another kernel, for parameters of these types."""
        self.b = b
        self.places: dict[str, Value] = {}
        self._names = vars(builtins) | function.__globals__ | _names_around(function)
        self._locals = {*function.__code__.co_varnames}
        self._callee = callee
        self._kinds: dict[type[ast.expr], Callable[[Any], Any]] = {
            ast.Constant: lambda node: node.value,
            ast.Name: self._name,
            ast.Attribute: lambda node: getattr(self.value(node.value), node.attr),
            ast.BinOp: self._binary,
            ast.UnaryOp: self._unary,
            ast.Compare: self._comparison,
            ast.BoolOp: self._junction,
            ast.IfExp: self._choice,
            ast.Call: self._call,
        }

    def value(self, node: ast.expr) -> Any:
        """A number; or what a name outside of the kernel stands for."""
        if type(node) not in self._kinds:
            raise TypeError(f"kernels have no {type(node).__name__}")
        return self._kinds[type(node)](node)

    def truth(self, node: ast.expr) -> Number:
        """Whether Python takes it for true."""
        if isinstance(node, ast.BoolOp):
            return self._joined(node.values, isinstance(node.op, ast.And), self.truth)
        return truth(self.b, self.value(node))

    def _name(self, node: ast.Name) -> Any:
        if node.id in self._locals:
            return self.b.load(self.places[node.id])
        return self._names[node.id]

    def _unary(self, node: ast.UnaryOp) -> Number:
        is_not = isinstance(node.op, ast.Not)
        operand = self.truth(node.operand) if is_not else self.value(node.operand)
        return _UNARY[type(node.op)](self.b, operand)

    def _binary(self, node: ast.BinOp) -> Number:
        left, right = self.value(node.left), self.value(node.right)
        return compute(self.b, type(node.op), left, right)

    def _comparison(self, node: ast.Compare) -> Number:
        if len(node.ops) > 1:
            raise TypeError("a comparison is of two numbers")
        [operation], [right] = node.ops, node.comparators
        return compare(self.b, type(operation), self.value(node.left), self.value(right))

    def _junction(self, node: ast.BoolOp) -> Number:
        """As a number. Python's is one of the operands, so they must be truth values."""
        return self._joined(node.values, isinstance(node.op, ast.And), self._truth_value)

    def _truth_value(self, node: ast.expr) -> Number:
        found = self.value(node)
        if type_of(found) != i1:
            raise TypeError("`and` and `or` of numbers that are not truth values")
        return found

    def _joined(
        self, nodes: list[ast.expr], are_all: bool, part: Callable[[ast.expr], Number]
    ) -> Number:
        """Whether all are true, or any. What follows the one that decides is not computed."""
        first, *rest = nodes
        found = part(first)
        if not rest or (is_known(found) and found != are_all):
            return found
        if is_known(found):
            return self._joined(rest, are_all, part)
        b = self.b
        place = cell(b, found)
        with b.if_then(found if are_all else b.not_(found)):
            b.store(as_type(b, self._joined(rest, are_all, part), i1), place)
        return b.load(place)

    def _choice(self, node: ast.IfExp) -> Number:
        test, b = self.truth(node.test), self.b
        if is_known(test):
            return self.value(node.body if test else node.orelse)
        with b.if_else(test) as (then, otherwise):
            with then:
                number = self.value(node.body)
                kind = type_of(number)
                place = cell(b, as_type(b, number, kind))
            with otherwise:
                b.store(as_type(b, self.value(node.orelse), kind), place)
        return b.load(place)

    def _call(self, node: ast.Call) -> Any:
        callee, b = self.value(node.func), self.b
        if node.keywords:
            raise TypeError("kernels have no names for what they are given")
        numbers = [self.value(each) for each in node.args]
        if isinstance(callee, Emitted):
            found = callee.body(b, *self._as_types(numbers, callee.parameters))
            kind = VOID if found is None else found.type
            if kind != callee.result:
                raise TypeError(f"{kind} where {callee.result} is promised")
            return found
        if isinstance(callee, Written):
            kinds = [i64 if type_of(each) == i1 else type_of(each) for each in numbers]
            return b.call(self._callee(callee, kinds), self._as_types(numbers, kinds))
        return _FUNCTIONS[callee](b, *numbers)

    def _as_types(self, numbers: list[Number], kinds: Sequence[Any]) -> list[Value]:
        return [as_type(self.b, each, kind) for each, kind in zip(numbers, kinds, strict=True)]
