"""LLVM IR written with Python operators: numbers, variables, branches and loops over a builder.

For code with more branches than vectors.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Union

from llvmlite import ir

from segue.runners.cpu.emit import (
    Builder,
    Value,
    call,
    cell,
    f32,
    i32,
    i64,
    load,
    loop,
    number,
    store,
)

f64 = ir.DoubleType()
_FLOATS = (f32, f64)
Operand = Union["Num", int, float]


class Num:
    """A value of type i64, f32, f64 or i1. A Python number as operand takes the type of the other operand."""

    def __init__(self, b: Builder, value: Value) -> None:
        self.b = b
        self.value = value

    def __add__(self, other: Operand) -> "Num":
        return self._op("add", other)

    def __sub__(self, other: Operand) -> "Num":
        return self._op("sub", other)

    def __mul__(self, other: Operand) -> "Num":
        return self._op("mul", other)

    def __truediv__(self, other: Operand) -> "Num":
        """Integers must not be negative; their quotient is rounded down."""
        return self._op("fdiv" if self._is_float else "udiv", other, is_whole_name=True)

    def __and__(self, other: Operand) -> "Num":
        return self._op("and_", other, is_whole_name=True)

    def __or__(self, other: Operand) -> "Num":
        return self._op("or_", other, is_whole_name=True)

    def __lt__(self, other: Operand) -> "Num":
        return self._compare("<", other)

    def __le__(self, other: Operand) -> "Num":
        return self._compare("<=", other)

    def __gt__(self, other: Operand) -> "Num":
        return self._compare(">", other)

    def __ge__(self, other: Operand) -> "Num":
        return self._compare(">=", other)

    def equals(self, other: Operand) -> "Num":
        return self._compare("==", other)

    def differs(self, other: Operand) -> "Num":
        """Not equal. False if an operand is NaN."""
        return self._compare("!=", other)

    def rounded(self) -> "Num":
        """A double rounded to a float."""
        return Num(self.b, self.b.fptrunc(self.value, f32))

    def widened(self) -> "Num":
        """A float as a double."""
        return Num(self.b, self.b.fpext(self.value, f64))

    def as_double(self) -> "Num":
        """An integer as a double."""
        return Num(self.b, self.b.sitofp(self.value, f64))

    def truncated(self) -> "Num":
        """A double as an integer, rounded towards 0. It must not be too large for one."""
        return Num(self.b, self.b.fptosi(self.value, i64))

    def root(self) -> "Num":
        """The square root of a double."""
        return Num(self.b, call(self.b, "llvm.sqrt.f64", f64, self.value))

    def pick(self, yes: "Num", no: Operand) -> "Num":
        """`yes` if this condition holds, else `no`."""
        return Num(self.b, self.b.select(self.value, yes.value, yes.of(no)))

    def of(self, other: Operand) -> Value:
        """The other operand as an IR value of this type."""
        return other.value if isinstance(other, Num) else ir.Constant(self.value.type, other)

    @property
    def _is_float(self) -> bool:
        return self.value.type in _FLOATS

    def _op(self, name: str, other: Operand, is_whole_name: bool = False) -> "Num":
        prefix = "f" if self._is_float and not is_whole_name else ""
        return Num(self.b, getattr(self.b, prefix + name)(self.value, self.of(other)))

    def _compare(self, sign: str, other: Operand) -> "Num":
        compare = self.b.fcmp_ordered if self._is_float else self.b.icmp_signed
        return Num(self.b, compare(sign, self.value, self.of(other)))


class Var:
    def __init__(self, start: Num) -> None:
        self._b, self._place = start.b, cell(start.b, start.value)

    @property
    def now(self) -> Num:
        return Num(self._b, self._b.load(self._place))

    def set(self, value: Num) -> None:
        self._b.store(value.value, self._place)


class Writer:
    """Writes one function of a module."""

    def __init__(self, made: ir.Module, name: str, result: Any, *kinds: Any) -> None:
        self.function = ir.Function(made, ir.FunctionType(result, kinds), name)
        self.b: Builder = ir.IRBuilder(self.function.append_basic_block())
        self.args = [Num(self.b, value) for value in self.function.args]

    def whole(self, value: int) -> Num:
        return Num(self.b, number(value))

    def real(self, value: float) -> Num:
        return Num(self.b, ir.Constant(f32, value))

    def double(self, value: float) -> Num:
        return Num(self.b, ir.Constant(f64, value))

    # --- memory: an address, and the index of an item from there ---

    def load(self, kind: Any, address: Num, index: Operand = 0) -> Num:
        """The item at `index`. 32-bit integers are widened to 64 bits."""
        size = 4 if kind in (f32, i32) else 8
        value = load(self.b, self._at(address, index, size), kind, size)
        return Num(self.b, self.b.sext(value, i64) if kind == i32 else value)

    def store(self, value: Num, address: Num, index: Operand = 0, kind: Any = None) -> None:
        """Write the item at `index`. `kind` i32: an integer is truncated to 32 bits."""
        what = self.b.trunc(value.value, i32) if kind == i32 else value.value
        size = 4 if what.type in (f32, i32) else 8
        store(self.b, what, self._at(address, index, size), size)

    def _at(self, address: Num, index: Operand, size: int) -> Value:
        return (address + (index * size)).value

    # --- control ---

    @contextmanager
    def when(self, condition: Num) -> Iterator[None]:
        with self.b.if_then(condition.value):
            yield

    @contextmanager
    def whether(self, condition: Num) -> Iterator[tuple[Any, Any]]:
        """Two contexts: one writes the branch taken if the condition holds, the other the branch taken if not."""
        with self.b.if_else(condition.value) as both:
            yield both

    @contextmanager
    def during(self, test: Callable[[], Num]) -> Iterator[None]:
        """A loop that runs while the condition written by `test` holds."""
        b = self.b
        head, body, after = (b.append_basic_block(name) for name in ("head", "body", "after"))
        b.branch(head)
        b.position_at_end(head)
        b.cbranch(test().value, body, after)
        b.position_at_end(body)
        yield
        if not b.block.is_terminated:
            b.branch(head)
        b.position_at_end(after)

    @contextmanager
    def each(self, count: Num) -> Iterator[Num]:
        with loop(self.b, count.value) as one:
            yield Num(self.b, one.index)

    def give(self, value: Num | None = None) -> None:
        """Return."""
        if value is None:
            self.b.ret_void()
        else:
            self.b.ret(value.value)

    def call(self, function: Any, *args: Num) -> Num:
        return Num(self.b, self.b.call(function, [arg.value for arg in args]))
