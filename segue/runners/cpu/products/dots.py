"""Integer dot products of one group: four columns a step, one output a lane. Exact, whatever instruction computes them.

Activations are in -127 … 127. Codes are unsigned, or signed numbers of 8 bits (`Codes.is_signed`): some instructions
take only unsigned ones, and then 128 is added to them and taken back with the activations' integer sums.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, ahead, call, i8, i16, i32, load, splat
from segue.runners.cpu.products.formats import STEP
from segue.runners.cpu.products.processor import Flavour

ACTIVATION = 127  # the greatest magnitude


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
        return ir.Constant(kind, [value] * kind.count)


@dataclass(frozen=True)
class Codes:
    """A group's weights: `step(k)` gives the vectors of its k-th four columns, expanded to bytes."""

    step: Callable[[int], list[Value]]
    top: int  # the greatest magnitude
    is_signed: bool


def added(dot: str, is_signed: bool) -> int:
    """What a flavour adds to signed codes, to be taken back."""
    return 128 if dot == "vnni" and is_signed else 0


def sums(
    b: Builder,
    kind: Kind,
    codes: Codes,
    steps: Sequence[int],
    rows: Sequence[Value],
    starts: Sequence[Value],
) -> list[list[Value]]:
    """For each row (the address of its group) and each vector: its start plus the dot product over the steps."""
    return _DOTS[kind.flavour.dot](b, kind, codes, steps, rows, starts)


def _four(b: Builder, kind: Kind, row: Value, step: int) -> Value:
    """Four activations in every lane."""
    word = load(b, ahead(b, row, STEP * step), i32, 1)
    return b.bitcast(splat(b, word, kind.ints), kind.bytes)


# --- x86: VPDPBUSD, unsigned times signed ---


def _vnni(
    b: Builder,
    kind: Kind,
    codes: Codes,
    steps: Sequence[int],
    rows: Sequence[Value],
    starts: Sequence[Value],
) -> list[list[Value]]:
    name = f"llvm.x86.avx512.vpdpbusd.{kind.flavour.lanes * 32}"
    acc = [[start] * kind.flavour.vectors for start in starts]
    for step in steps:
        vectors = codes.step(step)
        if codes.is_signed:
            vectors = [b.xor(vector, kind.all(kind.bytes, -128)) for vector in vectors]
        for m, row in enumerate(rows):
            four = b.bitcast(_four(b, kind, row, step), kind.ints)
            for v, vector in enumerate(vectors):
                acc[m][v] = call(b, name, kind.ints, acc[m][v], b.bitcast(vector, kind.ints), four)
    return acc


# --- x86: VPMADDUBSW, which saturates at 16 bits: as many steps are summed there as surely fit ---


def _maddubs(
    b: Builder,
    kind: Kind,
    codes: Codes,
    steps: Sequence[int],
    rows: Sequence[Value],
    starts: Sequence[Value],
) -> list[list[Value]]:
    wide = kind.flavour.lanes == 16
    pairs_name = "llvm.x86.avx512.pmaddubs.w.512" if wide else "llvm.x86.avx2.pmadd.ub.sw"
    whole_name = "llvm.x86.avx512.pmaddw.d.512" if wide else "llvm.x86.avx2.pmadd.wd"
    fits = 1 if codes.is_signed else 32767 // (2 * codes.top * ACTIVATION)
    acc = [[start] * kind.flavour.vectors for start in starts]
    shorts: list[list[Value | None]] = [[None] * kind.flavour.vectors for _ in rows]
    held = 0
    for step in steps:
        vectors = codes.step(step)
        sizes = [_magnitude(b, kind, vector) for vector in vectors] if codes.is_signed else vectors
        for m, row in enumerate(rows):
            four = _four(b, kind, row, step)
            for v, size in enumerate(sizes):
                signed = _with_sign(b, kind, four, vectors[v]) if codes.is_signed else four
                pairs = call(b, pairs_name, kind.shorts, size, signed)
                before = shorts[m][v]
                shorts[m][v] = pairs if before is None else b.add(before, pairs)
        held += 1
        if held == fits or step == steps[-1]:
            ones = kind.all(kind.shorts, 1)
            for m in range(len(rows)):
                for v in range(kind.flavour.vectors):
                    whole = call(b, whole_name, kind.ints, shorts[m][v], ones)
                    acc[m][v] = b.add(acc[m][v], whole)
                    shorts[m][v] = None
            held = 0
    return acc


def _magnitude(b: Builder, kind: Kind, vector: Value) -> Value:
    """|w| as an unsigned number: 128 for -128."""
    return b.select(b.icmp_signed("<", vector, kind.all(kind.bytes, 0)), b.neg(vector), vector)


def _with_sign(b: Builder, kind: Kind, four: Value, vector: Value) -> Value:
    """The activations, negated where the weight is negative."""
    if kind.flavour.lanes == 8:
        return call(b, "llvm.x86.avx2.psign.b", kind.bytes, four, vector)
    negative = b.icmp_signed("<", vector, kind.all(kind.bytes, 0))
    return b.select(negative, b.neg(four), four)


# --- NEON ---


def _sdot(
    b: Builder,
    kind: Kind,
    codes: Codes,
    steps: Sequence[int],
    rows: Sequence[Value],
    starts: Sequence[Value],
) -> list[list[Value]]:
    acc = [[start] * kind.flavour.vectors for start in starts]
    quarters = {(m, step // 4) for m in range(len(rows)) for step in steps}
    loaded = {
        (m, quarter): load(b, ahead(b, rows[m], 16 * quarter), kind.ints, 1)
        for m, quarter in sorted(quarters)
    }
    for step in steps:
        vectors = codes.step(step)
        for m in range(len(rows)):
            four = _lane(b, kind, loaded[m, step // 4], step % 4)
            for v, vector in enumerate(vectors):
                acc[m][v] = call(
                    b, "llvm.aarch64.neon.sdot.v4i32.v16i8", kind.ints, acc[m][v], vector, four
                )
    return acc


def _lane(b: Builder, kind: Kind, vector: Value, lane: int) -> Value:
    chosen = ir.Constant(ir.VectorType(i32, 4), [lane] * 4)
    return b.bitcast(
        b.shuffle_vector(vector, ir.Constant(kind.ints, ir.Undefined), chosen), kind.bytes
    )


def _smull(
    b: Builder,
    kind: Kind,
    codes: Codes,
    steps: Sequence[int],
    rows: Sequence[Value],
    starts: Sequence[Value],
) -> list[list[Value]]:
    """Without dot products: products of 16 bits, summed there as long as they surely fit, then pairwise."""
    eight, short = ir.VectorType(i8, 8), ir.VectorType(i16, 8)
    fits = max(1, 32767 // (codes.top * ACTIVATION))
    acc = [[start] * kind.flavour.vectors for start in starts]
    shorts: dict[tuple[int, int, int], Value] = {}
    held = 0
    for step in steps:
        vectors = codes.step(step)
        for m, row in enumerate(rows):
            four = _half(b, _four(b, kind, row, step), eight, 0)
            for v, vector in enumerate(vectors):
                for side in (0, 1):
                    part = _half(b, vector, eight, 8 * side)
                    product = call(b, "llvm.aarch64.neon.smull.v8i16", short, part, four)
                    before = shorts.get((m, v, side))
                    shorts[m, v, side] = product if before is None else b.add(before, product)
        held += 1
        if held == fits or step == steps[-1]:
            for m in range(len(rows)):
                for v in range(kind.flavour.vectors):
                    pairs = [
                        call(
                            b, "llvm.aarch64.neon.saddlp.v4i32.v8i16", kind.ints, shorts[m, v, side]
                        )
                        for side in (0, 1)
                    ]
                    whole = call(b, "llvm.aarch64.neon.addp.v4i32", kind.ints, *pairs)
                    acc[m][v] = b.add(acc[m][v], whole)
            shorts.clear()
            held = 0
    return acc


def _half(b: Builder, vector: Value, kind: Any, start: int) -> Value:
    chosen = ir.Constant(ir.VectorType(i32, kind.count), list(range(start, start + kind.count)))
    return b.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), chosen)


# --- any machine ---


def _generic(
    b: Builder,
    kind: Kind,
    codes: Codes,
    steps: Sequence[int],
    rows: Sequence[Value],
    starts: Sequence[Value],
) -> list[list[Value]]:
    acc = [[start] * kind.flavour.vectors for start in starts]
    for step in steps:
        words = [b.bitcast(vector, kind.ints) for vector in codes.step(step)]
        for byte in range(STEP):
            left, right = kind.all(kind.ints, 24 - 8 * byte), kind.all(kind.ints, 24)
            columns = [b.ashr(b.shl(word, left), right) for word in words]
            for m, row in enumerate(rows):
                one = b.sext(load(b, ahead(b, row, STEP * step + byte), i8, 1), i32)
                each = splat(b, one, kind.ints)
                for v, column in enumerate(columns):
                    acc[m][v] = b.add(acc[m][v], b.mul(column, each))
    return acc


_DOTS: dict[str, Callable[..., list[list[Value]]]] = {
    "vnni": _vnni,
    "maddubs": _maddubs,
    "sdot": _sdot,
    "smull": _smull,
    "generic": _generic,
}
