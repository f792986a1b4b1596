"""ARM: dot products, matrix products of two rows by two outputs, and NEON without either."""

from collections.abc import Iterator
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, ahead, call, i8, i16, load
from segue.runners.cpu.products.dots.pairs import joined
from segue.runners.cpu.products.dots.vectors import ACTIVATION, Part, chosen
from segue.runners.cpu.products.layout import STEP

_SDOT = "llvm.aarch64.neon.sdot.v4i32.v16i8"
_STEPS = 4  # of four columns, in a register of activations


def sdot(b: Builder, part: Part) -> list[list[Value]]:
    """Sixteen columns at a time: their codes stay in registers while the rows' activations pass."""
    kind, acc = part.kind, part.starts(b)
    for first in part.steps[::_STEPS]:
        codes = [part.codes.step(first + i) for i in range(_STEPS)]
        for own, row in zip(acc, part.rows, strict=True):
            _in_order(b)
            words = load(b, ahead(b, row, STEP * first), kind.ints, 1)
            for i, vectors in enumerate(codes):
                each = b.bitcast(chosen(b, words, words, [i] * 4), kind.bytes)
                for v, vector in enumerate(vectors):
                    own[v] = call(b, _SDOT, kind.ints, own[v], vector, each)
    return acc


def _in_order(b: Builder) -> None:
    """What is loaded after this in the IR is loaded after it: LLVM would load more than there are registers for.

    It is no instruction.
    """
    b.fence("seq_cst", targetscope="singlethread")


def smmla(b: Builder, part: Part) -> list[list[Value]]:
    """Sums in the order of pairs.py; those of a single row, or of codes in the usual order, by dot products."""
    if not part.codes.is_paired:
        return sdot(b, part)
    return _pair_products(b, part) if len(part.rows) % 2 == 0 else _pair_dots(b, part)


def _pair_products(b: Builder, part: Part) -> list[list[Value]]:
    starts, firsts = part.starts(b), range(0, len(part.rows), 2)
    acc = [
        [joined(b, x, y) for x, y in zip(starts[m], starts[m + 1], strict=True) for _ in range(2)]
        for m in firsts
    ]
    name = "llvm.aarch64.neon.smmla.v4i32.v16i8"
    for quarter, step, places in _pairs(part):
        codes = _halves(part, step)
        loaded = [load(b, ahead(b, row, 16 * quarter), part.kind.ints, 1) for row in part.rows]
        for own, m in zip(acc, firsts, strict=True):
            both = b.bitcast(chosen(b, loaded[m], loaded[m + 1], places), part.kind.bytes)
            for i, code in enumerate(codes):
                own[i] = call(b, name, part.kind.ints, own[i], both, code)
    return acc


def _pair_dots(b: Builder, part: Part) -> list[list[Value]]:
    """Each step's sums apart from those of the other step of its pair; both are added at the end."""
    kind = part.kind
    one_of_two = ir.Constant(kind.ints, [-1, 0, -1, 0])
    acc = [[b.and_(start, one_of_two) for start in own for _ in range(2)] for own in part.starts(b)]
    for quarter, step, places in _pairs(part):
        codes = _halves(part, step)
        for own, row in zip(acc, part.rows, strict=True):
            four = load(b, ahead(b, row, 16 * quarter), kind.ints, 1)
            both = b.bitcast(chosen(b, four, four, places), kind.bytes)
            for i, code in enumerate(codes):
                own[i] = call(b, _SDOT, kind.ints, own[i], code, both)
    added = "llvm.aarch64.neon.addp.v4i32"
    return [
        [call(b, added, kind.ints, *both) for both in zip(own[::2], own[1::2], strict=True)]
        for own in acc
    ]


def _pairs(part: Part) -> Iterator[tuple[int, int, list[int]]]:
    """For each pair of steps: its quarter (16 columns), its first step, its words of two loaded quarters."""
    for quarter in sorted({step // 4 for step in part.steps}):
        yield quarter, 4 * quarter, [0, 2, 4, 6]
        yield quarter, 4 * quarter + 1, [1, 3, 5, 7]


def _halves(part: Part, step: int) -> list[Value]:
    """The codes of the steps `step` and `step + 2`: two outputs in each vector."""
    low, high = part.codes.step(step), part.codes.step(step + 2)
    return [half for both in zip(low, high, strict=True) for half in both]


def smull(b: Builder, part: Part) -> list[list[Value]]:
    """Without dot product instructions: 16-bit products are summed while they cannot overflow, then pairwise.

    Sixteen columns of a row are loaded at once, each four of them repeated from the register: SMLAL2 then takes the
    upper halves of both vectors, where words repeated as they are loaded would need the codes' half moved down.
    """
    kind, codes, rows = part.kind, part.codes, part.rows
    eight, short = ir.VectorType(i8, 8), ir.VectorType(i16, 8)
    fits = max(1, 32767 // (codes.top * ACTIVATION))
    acc = part.starts(b)
    shorts: dict[tuple[int, int, int], Value] = {}
    words: list[Value] = []
    held = 0
    for step in part.steps:
        vectors = codes.step(step)
        place = step % _STEPS
        if place == 0:
            words = [load(b, ahead(b, row, STEP * step), kind.ints, 1) for row in rows]
        for m, word in enumerate(words):
            each = b.bitcast(chosen(b, word, word, [place] * 4), kind.bytes)
            for v, vector in enumerate(vectors):
                for side in (0, 1):
                    halves = [_half(b, whole, eight, 8 * side) for whole in (vector, each)]
                    product = call(b, "llvm.aarch64.neon.smull.v8i16", short, *halves)
                    before = shorts.get((m, v, side))
                    shorts[m, v, side] = product if before is None else b.add(before, product)
        held += 1
        if held == fits or step == part.steps[-1]:
            for m in range(len(rows)):
                for v in range(codes.vectors):
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
    return chosen(b, vector, vector, list(range(start, start + kind.count)))
