"""The softmax of attention: exponentials of scores, their sums, and how segments are joined."""

from collections.abc import Callable
from functools import reduce

from llvmlite import ir

from segue.runners.cpu.emit import (
    INTS,
    LANES,
    Builder,
    Value,
    ahead,
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
from segue.runners.cpu.step.attention.scratch import ALL_SUMS, SUMS, TOPS
from segue.runners.cpu.step.attention.tiles import is_wide
from segue.runners.cpu.step.lanes import capped, exp, exps, maximum, vectors

NOTHING = -1e30  # below every score


# Vectors worked on side by side, so that none waits for its own last result. More would not fit into registers.
_AT_ONCE = 4 if is_wide else 2


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
    """In place: scores `low` … `count` - 1 become e^(score - top), whose lanes' sums go to `sums`.

    Other scores below `bound` become 0.
    """
    inside, tops, total = _inside(b, low, count), splat(b, top), cell(b, floats(0.0))

    def weigh(indices: list[Value], are_all: bool) -> None:
        places = [at(b, scores, index, 64) for index in indices]
        powers = exps(b, [b.fsub(load(b, place), tops) for place in places])
        for index, place, power in zip(indices, places, powers, strict=True):
            share = power if are_all else b.select(inside(index), power, floats(0.0))
            store(b, share, place)
            b.store(b.fadd(b.load(total), share), total)

    _over(b, low, count, bound, weigh)
    store(b, b.load(total), sums)


@define(VOID, INT, INT, FLOAT)
def cap_scores(b: Builder, scores: Value, count: Value, cap: Value) -> None:
    caps = splat(b, cap)
    with loop(b, vectors(b, b.add(count, number(LANES - 1)))) as each:
        place = at(b, scores, each.index, 64)
        store(b, capped(b, load(b, place), caps), place)


def _exp_of_one(b: Builder, x: Value) -> Value:
    return b.extract_element(exp(b, splat(b, x)), ir.Constant(i32, 0))


exp_one = define(FLOAT, FLOAT)(_exp_of_one)


@define(FLOAT, FLOAT, FLOAT, FLOAT)
def with_sink(b: Builder, top: Value, factor: Value, sink: Value) -> Value:
    """The factor that makes a row's shares and the share of its sink add up to 1."""
    most = greater(b, sink, top)
    part, rest = (_exp_of_one(b, b.fsub(score, most)) for score in (top, sink))
    return b.fdiv(part, b.fadd(b.fdiv(part, factor), rest))


def _blend(b: Builder, left: Value, x: Value, right: Value, y: Value, count: Value) -> None:
    """x = x * left + y * right"""
    with loop(b, vectors(b, count)) as each:
        place = at(b, x, each.index, 64)
        kept = b.fmul(load(b, place), left)
        store(b, fma(b, load(b, at(b, y, each.index, 64)), right, kept), place)


@define(VOID, INT, INT, INT, INT)
def join(b: Builder, row: Value, total: Value, part: Value, size: Value) -> None:
    """Add a segment's values and sums to those before it, both rescaled to the greatest score so far.

    `row` is the scratch memory, from which the row's sums and greatest scores are found at the usual offsets.
    """
    tops = ahead(b, row, TOPS)
    before, now = load(b, tops, f32), load(b, ahead(b, tops, 4), f32)
    most = greater(b, now, before)
    both = splat(b, b.fsub(now, most))
    powers = exp(b, b.insert_element(both, b.fsub(before, most), ir.Constant(i32, 0)))
    left, right = (splat(b, b.extract_element(powers, ir.Constant(i32, i))) for i in (0, 1))
    _blend(b, left, total, right, part, size)
    _blend(b, left, ahead(b, row, ALL_SUMS), right, ahead(b, row, SUMS), number(LANES))
    store(b, most, tops)


@define(FLOAT, INT)
def total_of(b: Builder, sums: Value) -> Value:
    return tree(b, load(b, sums), b.fadd)
