"""The softmax of attention: powers of 2 of scores, and their sums.

Powers are relative to a whole number near the greatest score so far. If that grows, what was added up is multiplied by
a power of 2, which is exact.
"""

from collections.abc import Callable
from functools import reduce

from llvmlite import ir

from segue.runners.cpu.emit import (
    FLOATS,
    INTS,
    LANES,
    Builder,
    Value,
    ahead,
    at,
    call,
    cell,
    f32,
    floats,
    fma,
    greater,
    i1,
    i32,
    i64,
    ints,
    load,
    loop,
    number,
    splat,
    store,
    tree,
)
from segue.runners.cpu.kernel import FLOAT, INT, VOID, define
from segue.runners.cpu.step.attention.scratch import BITS_PER_NAT, ROW_BYTES, SUM_BYTES
from segue.runners.cpu.step.attention.tiles import is_wide
from segue.runners.cpu.step.vectors.elementwise import vectors
from segue.runners.cpu.step.vectors.functions import capped, exp, maximum, nearest, powers_of_2

NOTHING = -1e30  # below every score
# A score so far below the greatest adds nothing to what a row takes. Shares above give normal products with all values.
LOST = 100.0


# Vectors worked on side by side, so that none waits for its own last result. More would not fit into registers.
_AT_ONCE = 8 if is_wide else 2
_MASKED = 4 if is_wide else 2  # of those that have a mask

Mask = Callable[[int], Value]  # which of several vectors → which of its lanes count


def _over(
    b: Builder,
    low: Value,
    count: Value,
    bound: Value,
    work: Callable[[Value, int, Mask | None], None],
) -> None:
    """Go over vectors up to `bound`, or a little more within the segment, several at once.

    Calls `work` with the index of the first, their number, and which lanes are scores `low` … `count` - 1 (None: all).
    """
    whole = b.select(b.icmp_signed(">", low, number(0)), number(0), vectors(b, count))
    groups = b.sdiv(whole, number(_AT_ONCE))
    with loop(b, groups) as each:
        work(b.mul(each.index, number(_AT_ONCE)), _AT_ONCE, None)
    done = b.mul(groups, number(_AT_ONCE))
    left = b.sub(bound, b.mul(done, number(LANES)))
    with loop(b, b.sdiv(b.add(left, number(_MASKED * LANES - 1)), number(_MASKED * LANES))) as each:
        first = b.add(done, b.mul(each.index, number(_MASKED)))
        work(first, _MASKED, _inside(b, low, count, first))


def _inside(b: Builder, low: Value, count: Value, first: Value) -> Mask:
    """Which lanes of vectors from `first` on are scores `low` … `count` - 1."""
    start, order = b.mul(first, number(LANES)), ir.Constant(INTS, list(range(LANES)))
    least, bound = (
        b.sub(splat(b, b.trunc(b.sub(value, start), i32), INTS), order) for value in (low, count)
    )

    def inside(i: int) -> Value:
        place = ints(LANES * i)
        return b.and_(b.icmp_signed(">=", place, least), b.icmp_signed("<", place, bound))

    return inside


def _tops(b: Builder, scores: Value, low: Value, count: Value) -> Value:
    """16 numbers, the greatest of which is that of scores `low` … `count` - 1."""
    tops = [cell(b, floats(NOTHING)) for _ in range(_AT_ONCE)]

    def find(first: Value, num: int, inside: Mask | None) -> None:
        place = at(b, scores, first, 64)
        for i, top in enumerate(tops[:num]):
            values = load(b, ahead(b, place, 64 * i))
            if inside is not None:
                values = b.select(inside(i), values, floats(NOTHING))
            b.store(greater(b, values, b.load(top)), top)

    _over(b, low, count, count, find)
    return reduce(lambda x, y: greater(b, x, y), map(b.load, tops))


@define(FLOAT, INT, INT, INT)
def greatest(b: Builder, scores: Value, low: Value, count: Value) -> Value:
    """The greatest of scores `low` … `count` - 1."""
    return maximum(b, _tops(b, scores, low, count))


@define(INT, INT, INT, INT, INT)
def is_above(b: Builder, scores: Value, low: Value, count: Value, top: Value) -> Value:
    """1 if one of scores `low` … `count` - 1 may round to more than the whole number at `top`, else 0."""
    least = b.fadd(load(b, top, f32), ir.Constant(f32, 0.5))
    above = b.fcmp_ordered(">=", _tops(b, scores, low, count), splat(b, least))
    return b.zext(call(b, "llvm.vector.reduce.or.v16i1", i1, above), i64)


@define(VOID, INT, INT, INT, INT, INT, INT, INT)
def shares(
    b: Builder,
    scores: Value,
    rows: Value,
    low: Value,
    count: Value,
    bound: Value,
    tops: Value,
    sums: Value,
) -> None:
    """In place: of each row, scores `low` … `count` - 1 become 2^(score - top), which are added to its 16 `sums`.

    Other scores below `bound` become 0.
    """
    with loop(b, rows) as row:
        own, total = at(b, scores, row.index, ROW_BYTES), cell(b, floats(0.0))
        top = splat(b, load(b, at(b, tops, row.index, SUM_BYTES), f32))

        def weigh(first: Value, num: int, inside: Mask | None) -> None:
            place = at(b, own, first, 64)
            places = [ahead(b, place, 64 * i) for i in range(num)]
            powers = powers_of_2(b, [b.fsub(load(b, each), top) for each in places])
            for i, power in enumerate(powers):
                share = power if inside is None else b.select(inside(i), power, floats(0.0))
                store(b, share, places[i])
                b.store(b.fadd(b.load(total), share), total)

        _over(b, low, count, bound, weigh)
        place = at(b, sums, row.index, SUM_BYTES)
        store(b, b.fadd(load(b, place), b.load(total)), place)


@define(VOID, INT, INT, FLOAT)
def cap_scores(b: Builder, scores: Value, count: Value, cap: Value) -> None:
    caps = splat(b, cap)
    with loop(b, vectors(b, b.add(count, number(LANES - 1)))) as each:
        place = at(b, scores, each.index, 64)
        store(b, capped(b, load(b, place), caps), place)


@define(VOID, INT, INT, INT, FLOAT)
def lean_scores(b: Builder, scores: Value, count: Value, first: Value, slope: Value) -> None:
    """ALiBi: add `slope` times a token's place, which is `first` for the first score and grows by 1 with each.

    A row's own token has the place 0, those before it less. A place, and so what is added, is the same in every tile.
    """
    slopes, order = splat(b, slope), ir.Constant(INTS, list(range(LANES)))
    with loop(b, vectors(b, b.add(count, number(LANES - 1)))) as each:
        own = b.add(first, b.mul(each.index, number(LANES)))
        places = b.sitofp(b.add(splat(b, b.trunc(own, i32), INTS), order), FLOATS)
        place = at(b, scores, each.index, 64)
        store(b, fma(b, slopes, places, load(b, place)), place)


@define(VOID, INT, INT)
def drop_least(b: Builder, shares: Value, bound: Value) -> None:
    """Shares that are LOST become 0. Under a steep slope most are, and products with values would be denormal: slow."""
    with loop(b, vectors(b, bound)) as each:
        place = at(b, shares, each.index, 64)
        share = load(b, place)
        is_lost = b.fcmp_ordered("<", share, floats(2.0**-LOST))
        store(b, b.select(is_lost, floats(0.0), share), place)


def _first(b: Builder, x: Value) -> Value:
    return b.extract_element(x, ir.Constant(i32, 0))


@define(FLOAT, FLOAT)
def exp_one(b: Builder, x: Value) -> Value:
    return _first(b, exp(b, splat(b, x)))


@define(FLOAT, FLOAT, FLOAT, FLOAT)
def with_sink(b: Builder, top: Value, factor: Value, sink: Value) -> Value:
    """The factor that makes a row's shares and the share of its sink, a score of base e, add up to 1."""
    sink = b.fmul(sink, ir.Constant(f32, BITS_PER_NAT))
    most = greater(b, sink, top)
    part, rest = (
        _first(b, powers_of_2(b, [splat(b, b.fsub(score, most))])[0]) for score in (top, sink)
    )
    return b.fdiv(part, b.fadd(b.fdiv(part, factor), rest))


@define(VOID, INT, FLOAT, INT, INT, INT)
def raise_top(b: Builder, top: Value, most: Value, sums: Value, values: Value, size: Value) -> None:
    """Round `most` to the whole number at `top`. Sums and values become relative to it."""
    before, now = load(b, top, f32), _first(b, nearest(b, splat(b, most)))
    factor = powers_of_2(b, [splat(b, b.fsub(before, now))])[0]
    for place, count in ((sums, number(1)), (values, vectors(b, size))):
        with loop(b, count) as each:
            own = at(b, place, each.index, 64)
            store(b, b.fmul(load(b, own), factor), own)
    store(b, now, top)


@define(FLOAT, INT)
def total_of(b: Builder, sums: Value) -> Value:
    return tree(b, load(b, sums), b.fadd)
