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
    chains = (
        2 if len(rows) == 1 else 1
    )  # an instruction waits for the one before: several chains for a single row
    zero = kind.all(kind.ints, 0)
    acc = [[[start] * kind.flavour.vectors for start in starts]]
    acc += [[[zero] * kind.flavour.vectors for _ in rows] for _ in range(chains - 1)]
    for step in steps:
        vectors = codes.step(step)
        if codes.is_signed:
            vectors = [b.xor(vector, kind.all(kind.bytes, -128)) for vector in vectors]
        own = acc[step % chains]
        for m, row in enumerate(rows):
            four = b.bitcast(_four(b, kind, row, step), kind.ints)
            for v, vector in enumerate(vectors):
                own[m][v] = call(b, name, kind.ints, own[m][v], b.bitcast(vector, kind.ints), four)
    if chains == 1:
        return acc[0]
    return [[b.add(x, y) for x, y in zip(*both, strict=True)] for both in zip(*acc, strict=True)]


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
    return b.bitcast(_chosen(b, vector, vector, [lane] * 4), kind.bytes)


def _chosen(b: Builder, x: Value, y: Value, places: list[int]) -> Value:
    """Lanes of x, then of y, by number."""
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(i32, len(places)), places))


def _smmla(
    b: Builder,
    kind: Kind,
    codes: Codes,
    steps: Sequence[int],
    rows: Sequence[Value],
    starts: Sequence[Value],
) -> list[list[Value]]:
    """Two rows by two outputs by eight columns at once; a single row takes dot products."""
    if len(rows) % 2:
        return _sdot(b, kind, codes, steps, rows, starts)
    name, vectors = "llvm.aarch64.neon.smmla.v4i32.v16i8", range(kind.flavour.vectors)
    zero = kind.all(kind.ints, 0)
    acc = [[[zero, zero] for _ in vectors] for _ in range(len(rows) // 2)]
    for step in steps[::2]:
        first, second = ([b.bitcast(v, kind.ints) for v in codes.step(s)] for s in (step, step + 1))
        for pair in range(len(rows) // 2):
            eights = [
                load(b, ahead(b, row, STEP * step), ir.VectorType(i32, 2), 1)
                for row in rows[2 * pair : 2 * pair + 2]
            ]
            inputs = b.bitcast(_chosen(b, eights[0], eights[1], [0, 1, 2, 3]), kind.bytes)
            for v in vectors:
                for side, places in enumerate(([0, 4, 1, 5], [2, 6, 3, 7])):
                    outputs = b.bitcast(_chosen(b, first[v], second[v], places), kind.bytes)
                    acc[pair][v][side] = call(
                        b, name, kind.ints, acc[pair][v][side], inputs, outputs
                    )
    return [
        [
            b.add(
                _chosen(
                    b,
                    acc[m // 2][v][0],
                    acc[m // 2][v][1],
                    [0, 1, 4, 5] if m % 2 == 0 else [2, 3, 6, 7],
                ),
                start,
            )
            for v in vectors
        ]
        for m, start in enumerate(starts)
    ]


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
    return _chosen(b, vector, vector, list(range(start, start + kind.count)))


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
    "smmla": _smmla,
    "smull": _smull,
    "generic": _generic,
}
