"""ARM: dot products, matrix products of two rows by two outputs, and NEON without either."""

from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, ahead, call, i8, i16, i32, load
from segue.runners.cpu.products.dots.vectors import ACTIVATION, Kind, Part, four
from segue.runners.cpu.products.formats import STEP


def sdot(b: Builder, part: Part) -> list[list[Value]]:
    kind, codes, rows = part.kind, part.codes, part.rows
    acc = part.starts(b)
    quarters = {(m, step // 4) for m in range(len(rows)) for step in part.steps}
    loaded = {
        (m, quarter): load(b, ahead(b, rows[m], 16 * quarter), kind.ints, 1)
        for m, quarter in sorted(quarters)
    }
    for step in part.steps:
        vectors = codes.step(step)
        for m in range(len(rows)):
            each = _lane(b, kind, loaded[m, step // 4], step % 4)
            for v, vector in enumerate(vectors):
                acc[m][v] = call(
                    b, "llvm.aarch64.neon.sdot.v4i32.v16i8", kind.ints, acc[m][v], vector, each
                )
    return acc


def _lane(b: Builder, kind: Kind, vector: Value, lane: int) -> Value:
    return b.bitcast(_chosen(b, vector, vector, [lane] * 4), kind.bytes)


def _chosen(b: Builder, x: Value, y: Value, places: list[int]) -> Value:
    """A shuffle: the lanes at these indices, where those of y are counted after those of x."""
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(i32, len(places)), places))


def smmla(b: Builder, part: Part) -> list[list[Value]]:
    """Two rows by two outputs by eight columns at once; a single row takes dot products."""
    kind, codes, rows = part.kind, part.codes, part.rows
    if len(rows) % 2:
        return sdot(b, part)
    name, vectors = "llvm.aarch64.neon.smmla.v4i32.v16i8", range(kind.flavour.vectors)
    zero = kind.all(kind.ints, 0)
    acc = [[[zero, zero] for _ in vectors] for _ in range(len(rows) // 2)]
    for step in part.steps[::2]:
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
    found = part.starts(b)
    for m, own in enumerate(found):
        places = [0, 1, 4, 5] if m % 2 == 0 else [2, 3, 6, 7]
        for v in vectors:
            low, high = acc[m // 2][v]
            own[v] = b.add(_chosen(b, low, high, places), own[v])
    return found


def smull(b: Builder, part: Part) -> list[list[Value]]:
    """Without dot product instructions: 16-bit products are summed while they cannot overflow, then pairwise."""
    kind, codes, rows = part.kind, part.codes, part.rows
    eight, short = ir.VectorType(i8, 8), ir.VectorType(i16, 8)
    fits = max(1, 32767 // (codes.top * ACTIVATION))
    acc = part.starts(b)
    shorts: dict[tuple[int, int, int], Value] = {}
    held = 0
    for step in part.steps:
        vectors = codes.step(step)
        for m, row in enumerate(rows):
            each = _half(b, four(b, kind, row, step), eight, 0)
            for v, vector in enumerate(vectors):
                for side in (0, 1):
                    half = _half(b, vector, eight, 8 * side)
                    product = call(b, "llvm.aarch64.neon.smull.v8i16", short, half, each)
                    before = shorts.get((m, v, side))
                    shorts[m, v, side] = product if before is None else b.add(before, product)
        held += 1
        if held == fits or step == part.steps[-1]:
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
