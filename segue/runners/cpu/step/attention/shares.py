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
    at,
    cell,
    f32,
    floats,
    fma,
    greater,
    i32,
    load,
    loop,
    number,
    splat,
    store,
    tree,
)
from segue.runners.cpu.kernel import FLOAT, INT, VOID, define
from segue.runners.cpu.step.attention.scratch import BITS_PER_NAT
from segue.runners.cpu.step.attention.tiles import is_wide
from segue.runners.cpu.step.lanes import (
    capped,
    exp,
    maximum,
    nearest,
    powers_of_2,
    vectors,
)

NOTHING = -1e30  # below every score
# A score so far below the greatest adds nothing to what a row takes. Shares above give normal products with all values.
LOST = 100.0


# Vectors worked on side by side, so that none waits for its own last result. More would not fit into registers.
_AT_ONCE = 8 if is_wide else 2


def _over(
    b: Builder, low: Value, count: Value, bound: Value, work: Callable[[list[Value], bool], None]
) -> None:
    """Call `work` with the indices of vectors up to `bound`, in order, several at once where none needs a mask."""
    whole = b.select(b.icmp_signed(">", low, number(0)), number(0), vectors(b, count))
    groups = b.sdiv(whole, number(_AT_ONCE))
    with loop(b, groups) as each:
        first = b.mul(each.index, number(_AT_ONCE))
        work([b.add(first, number(i)) for i in range(_AT_ONCE)], True)
    done = b.mul(groups, number(_AT_ONCE))
    with loop(b, b.sub(vectors(b, b.add(bound, number(LANES - 1))), done)) as each:
        work([b.add(done, each.index)], False)


def _inside(b: Builder, low: Value, count: Value) -> Callable[[Value], Value]:
    """index of a vector → which of its lanes are scores `low` … `count` - 1"""
    order = ir.Constant(INTS, list(range(LANES)))
    least, bound = (splat(b, b.trunc(value, i32), INTS) for value in (low, count))

    def inside(index: Value) -> Value:
        first = splat(b, b.trunc(b.mul(index, number(LANES)), i32), INTS)
        place = b.add(first, order)
        return b.and_(b.icmp_signed(">=", place, least), b.icmp_signed("<", place, bound))

    return inside


@define(FLOAT, INT, INT, INT)
def greatest(b: Builder, scores: Value, low: Value, count: Value) -> Value:
    """The greatest of scores `low` … `count` - 1."""
    inside = _inside(b, low, count)
    tops = [cell(b, floats(NOTHING)) for _ in range(_AT_ONCE)]

    def find(indices: list[Value], are_all: bool) -> None:
        for index, top in zip(indices, tops, strict=False):
            values = load(b, at(b, scores, index, 64))
            if not are_all:
                values = b.select(inside(index), values, floats(NOTHING))
            b.store(greater(b, values, b.load(top)), top)

    _over(b, low, count, count, find)
    return maximum(b, reduce(lambda x, y: greater(b, x, y), map(b.load, tops)))


@define(VOID, INT, INT, INT, INT, FLOAT, INT)
def shares(
    b: Builder, scores: Value, low: Value, count: Value, bound: Value, top: Value, sums: Value
) -> None:
    """In place: scores `low` … `count` - 1 become 2^(score - top), which are added to the 16 `sums`.

    Other scores below `bound` become 0.
    """
    inside, tops, total = _inside(b, low, count), splat(b, top), cell(b, floats(0.0))

    def weigh(indices: list[Value], are_all: bool) -> None:
        places = [at(b, scores, index, 64) for index in indices]
        powers = powers_of_2(b, [b.fsub(load(b, place), tops) for place in places])
        for index, place, power in zip(indices, places, powers, strict=True):
            share = power if are_all else b.select(inside(index), power, floats(0.0))
            store(b, share, place)
            b.store(b.fadd(b.load(total), share), total)

    _over(b, low, count, bound, weigh)
    store(b, b.fadd(load(b, sums), b.load(total)), sums)


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
