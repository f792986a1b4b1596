"""What operators mean. A number is an IR value of type i64, f32 or i1, or a number of Python's that is known already.

A number of Python's takes the type of the other operand.
"""

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, call, f32, i64
from segue.runners.cpu.emit import number as as_constant

Number = Any
i1 = ir.IntType(1)

_FOLDED: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_OF_FLOATS = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_OF_INTS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and_"}
_COMPARISONS = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


def is_known(number: Number) -> bool:
    return isinstance(number, int | float | np.float32)


def type_of(number: Number) -> Any:
    """The type that a number has in memory."""
    if isinstance(number, ir.Value):
        return number.type
    if not is_known(number):
        raise TypeError(f"{number!r} is not a number of kernels")
    if isinstance(number, bool):
        return i1
    return i64 if isinstance(number, int) else f32


def as_type(b: Builder, number: Number, kind: Any) -> Value:
    """The IR value of a number as that type. Only truth values become another one by themselves: integers."""
    if is_known(number):
        if kind == f32:
            return ir.Constant(f32, float(np.float32(number)))
        if isinstance(number, bool):
            return ir.Constant(kind, int(number))
        if isinstance(number, int) and kind == i64:
            return _in_64_bits(number)
    elif type_of(number) == kind:
        return number
    elif (number.type, kind) == (i1, i64):
        return b.zext(number, i64)
    raise TypeError(f"{type_of(number)} where {kind} is needed")


def _in_64_bits(number: int) -> Value:
    if not -(2**63) <= number < 2**63:  # LLVM would leave out the bits above
        raise OverflowError(f"{number} has more than 64 bits")
    return as_constant(number)


def truth(b: Builder, number: Number) -> Number:
    """Whether Python takes it for true."""
    if is_known(number):
        return bool(number)
    if type_of(number) == i1:
        return number
    return compare(b, ast.NotEq, number, 0)


def negated(b: Builder, number: Number) -> Number:
    if is_known(number):
        return -number
    return b.fneg(number) if number.type == f32 else b.neg(as_type(b, number, i64))


def opposite(b: Builder, number: Number) -> Number:
    found = truth(b, number)
    return not found if is_known(found) else b.not_(found)


def as_int(b: Builder, number: Number) -> Number:
    """Python's int, of integers and truth values."""
    return int(number) if is_known(number) else as_type(b, number, i64)


def as_float(b: Builder, number: Number) -> Number:
    """np.float32"""
    if is_known(number):
        return np.float32(number)
    return number if number.type == f32 else b.sitofp(as_type(b, number, i64), f32)


def root(b: Builder, number: Number) -> Number:
    return call(b, "llvm.sqrt.f32", f32, as_type(b, number, f32))


def least(b: Builder, x: Number, y: Number) -> Number:
    return _chosen(b, ast.Lt, x, y)


def greatest(b: Builder, x: Number, y: Number) -> Number:
    return _chosen(b, ast.Gt, x, y)


def _chosen(b: Builder, operation: type[ast.cmpop], x: Number, y: Number) -> Number:
    """As Python's min and max: y where the comparison holds, else x, also if one is not a number."""
    takes_second = compare(b, operation, y, x)
    if is_known(takes_second):
        return y if takes_second else x
    x, y = _alike(b, x, y)
    return b.select(takes_second, y, x)


def compute(b: Builder, operation: type[ast.operator], x: Number, y: Number) -> Number:
    if is_known(x) and is_known(y):
        return _FOLDED[operation](x, y)
    if operation is ast.FloorDiv or operation is ast.Mod:
        return _divided(b, operation, x, y)
    x, y = _alike(b, x, y)
    table = _OF_FLOATS if x.type == f32 else _OF_INTS
    if operation not in table:
        raise TypeError(f"{operation.__name__} of {x.type}")
    return getattr(b, table[operation])(x, y)


def compare(b: Builder, operation: type[ast.cmpop], x: Number, y: Number) -> Number:
    if is_known(x) and is_known(y):
        return bool(_FOLDED[operation](x, y))
    x, y = _alike(b, x, y)
    sign = _COMPARISONS[operation]
    if x.type != f32:
        return b.icmp_signed(sign, x, y)
    # A float that is not a number differs from all, itself too, and is neither more nor less.
    return b.fcmp_unordered(sign, x, y) if sign == "!=" else b.fcmp_ordered(sign, x, y)


def _alike(b: Builder, x: Number, y: Number) -> tuple[Value, Value]:
    """Both as floats if one is, else as integers."""
    kind = f32 if f32 in (type_of(x), type_of(y)) else i64
    return as_type(b, x, kind), as_type(b, y, kind)


def _divided(b: Builder, operation: type[ast.operator], x: Number, y: Number) -> Value:
    """Of integers, rounded down; what is left has the sign of the divisor. That must not be 0."""
    if is_known(y) and not y:
        raise ZeroDivisionError("division by zero")
    is_power = is_known(y) and y > 0 and y & (y - 1) == 0
    x, many = as_type(b, x, i64), as_type(b, y, i64)
    if is_power and operation is ast.FloorDiv:
        return b.ashr(x, ir.Constant(i64, y.bit_length() - 1))
    if is_power:
        return b.and_(x, ir.Constant(i64, y - 1))
    left, nothing = b.srem(x, many), ir.Constant(i64, 0)
    has_other_sign = b.icmp_signed("<", b.xor(left, many), nothing)
    is_down = b.and_(b.icmp_signed("!=", left, nothing), has_other_sign)
    if operation is ast.Mod:
        return b.select(is_down, b.add(left, many), left)
    return b.sub(b.sdiv(x, many), b.zext(is_down, i64))
