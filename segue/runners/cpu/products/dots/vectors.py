"""What a dot product works on: the vectors of a flavour, a group's codes, and the rows that meet them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, ahead, every, i8, i16, i32, load, splat
from segue.runners.cpu.products.layout import STEP
from segue.runners.cpu.products.processor import Flavour

ACTIVATION = 127  # the greatest magnitude of an activation
# A sum below 2^22 that starts at the bits of this float ends as the bits of the float plus the sum.
_ROUND, _ROUND_BITS = 1.5 * 2**23, 0x4B400000


@dataclass(frozen=True)
class Kind:
    """The vectors of a flavour."""

    flavour: Flavour

    @property
    def bytes(self) -> Any:
        return ir.VectorType(i8, self.flavour.lanes * 4)

    @property
    def shorts(self) -> Any:
        return ir.VectorType(i16, self.flavour.lanes * 2)

    @property
    def ints(self) -> Any:
        return ir.VectorType(i32, self.flavour.lanes)

    @property
    def floats(self) -> Any:
        return ir.VectorType(ir.FloatType(), self.flavour.lanes)

    def all(self, kind: Any, value: float) -> Value:
        return every(kind, value)

    @property
    def start(self) -> int:
        """What integer sums start at. Where instructions add to a sum, a start that is not 0 costs nothing."""
        return _ROUND_BITS if self.flavour.dot in ("sdot", "smmla") else 0

    def as_floats(self, b: Builder, sums: Value) -> Value:
        """Exact. On some ARM processors a conversion takes as long as four subtractions."""
        if not self.start:
            return b.sitofp(sums, self.floats)
        return b.fsub(b.bitcast(sums, self.floats), self.all(self.floats, _ROUND))


@dataclass(frozen=True)
class Codes:
    """A group's weights: `step(k)` gives the vectors of its k-th four columns, expanded to bytes."""

    step: Callable[[int], list[Value]]
    top: int  # the greatest magnitude of a code
    is_signed: bool  # signed numbers of 8 bits; else unsigned numbers of fewer bits
    zero: int  # the code that means 0
    vectors: int  # registers of outputs
    is_paired: bool = False  # steps are in the order of pairs.py
    half: Callable[[int], list[Value]] | None = None  # half of each code, if all are even


@dataclass(frozen=True)
class Part:
    """Steps of a group, and the rows whose dot products with them are wanted."""

    kind: Kind
    codes: Codes
    steps: Sequence[int]
    rows: Sequence[Value]  # the address of each row's group
    totals: Sequence[Value]  # the integer sum of each row's part

    def starts(self, b: Builder, added: int = 0) -> list[list[Value]]:
        """The initial value of each sum: it subtracts the codes' zero and what was `added` to the codes."""
        zero, ints = self.codes.zero + added, self.kind.ints
        found = []
        for total in self.totals:
            start = self.kind.all(ints, self.kind.start)
            if zero:
                taken = b.mul(total, ir.Constant(i32, -zero))
                start = splat(b, b.add(taken, ir.Constant(i32, self.kind.start)), ints)
            found.append([start] * self.codes.vectors)
        return found


def four(b: Builder, kind: Kind, row: Value, step: int) -> Value:
    """The four activations of a step, repeated in every lane."""
    word = load(b, ahead(b, row, STEP * step), i32, 1)
    return b.bitcast(splat(b, word, kind.ints), kind.bytes)


def chosen(b: Builder, x: Value, y: Value, places: list[int]) -> Value:
    """A shuffle: the lanes at these indices, where those of y are counted after those of x."""
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(i32, len(places)), places))
