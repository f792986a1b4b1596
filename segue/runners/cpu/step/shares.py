"""The softmax of attention: exponentials of scores, their sums, and how segments are joined."""

from collections.abc import Callable

from llvmlite import ir

from segue.runners.cpu.emit import (
    INTS,
    LANES,
    Builder,
    Value,
    at,
    cell,
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
from segue.runners.cpu.step.lanes import capped, exp, maximum, vectors

NOTHING = -1e30  # below every score


def _over(b: Builder, low: Value, count: Value, work: Callable[[Value, bool], None]) -> None:
    """Call `work` for each vector in order. Full vectors need no mask if `low` is 0."""
    whole = b.select(b.icmp_signed(">", low, number(0)), number(0), vectors(b, count))
    with loop(b, whole) as each:
        work(each.index, True)
    rest = b.sub(vectors(b, b.add(count, number(LANES - 1))), whole)
    with loop(b, rest) as each:
        work(b.add(whole, each.index), False)


@define(FLOAT, INT, INT, INT, INT)
def shares(b: Builder, scores: Value, low: Value, count: Value, sums: Value) -> Value:
    """In place over scores `low` … `count` - 1: e^(score - greatest), whose lanes' sums go to `sums`.

    Returns the greatest score. Scores outside this range are not read, and become 0.
    """
    order = ir.Constant(INTS, list(range(LANES)))
    least, bound = (splat(b, b.trunc(value, i32), INTS) for value in (low, count))
    top, total = cell(b, floats(NOTHING)), cell(b, floats(0.0))

    def inside(index: Value) -> Value:
        first = splat(b, b.trunc(b.mul(index, number(LANES)), i32), INTS)
        place = b.add(first, order)
        return b.and_(b.icmp_signed(">=", place, least), b.icmp_signed("<", place, bound))

    def find(index: Value, are_all: bool) -> None:
        values = load(b, at(b, scores, index, 64))
        if not are_all:
            values = b.select(inside(index), values, floats(NOTHING))
        b.store(greater(b, values, b.load(top)), top)

    _over(b, low, count, find)
    greatest = maximum(b, b.load(top))
    tops = splat(b, greatest)

    def weigh(index: Value, are_all: bool) -> None:
        place = at(b, scores, index, 64)
        power = exp(b, b.fsub(load(b, place), tops))
        if not are_all:
            power = b.select(inside(index), power, floats(0.0))
        store(b, power, place)
        b.store(b.fadd(b.load(total), power), total)

    _over(b, low, count, weigh)
    store(b, b.load(total), sums)
    return greatest


@define(VOID, INT, INT, FLOAT)
def cap_scores(b: Builder, scores: Value, count: Value, cap: Value) -> None:
    caps = splat(b, cap)
    with loop(b, vectors(b, b.add(count, number(LANES - 1)))) as each:
        place = at(b, scores, each.index, 64)
        store(b, capped(b, load(b, place), caps), place)


@define(FLOAT, FLOAT)
def exp_one(b: Builder, x: Value) -> Value:
    return b.extract_element(exp(b, splat(b, x)), ir.Constant(i32, 0))


@define(VOID, FLOAT, INT, FLOAT, INT, INT)
def blend(b: Builder, left: Value, x: Value, right: Value, y: Value, count: Value) -> None:
    """x = x * left + y * right"""
    lefts, rights = splat(b, left), splat(b, right)
    with loop(b, vectors(b, count)) as each:
        place = at(b, x, each.index, 64)
        kept = b.fmul(load(b, place), lefts)
        store(b, fma(b, load(b, at(b, y, each.index, 64)), rights, kept), place)


@define(FLOAT, INT)
def total_of(b: Builder, sums: Value) -> Value:
    return tree(b, load(b, sums), b.fadd)
