"""Numbers in order, as many as are asked for: a heap of floats and their places.

The higher number comes first, and among equals the lower place. This is a total order, so the result does not depend
on how the heap was built.
"""

from typing import Any

from llvmlite import ir

from segue.runners.cpu.draws.writing import Num, Var, Writer
from segue.runners.cpu.emit import f32, i32, i64

_VOID = ir.VoidType()


class Heap:
    """The functions of a module; values and places are addresses."""

    def __init__(self, made: ir.Module) -> None:
        sift = _sift(made)
        self.build = _build(made, sift)
        self.pop = _pop(made, sift)


def _sift(made: ir.Module) -> Any:
    """(values, places, hole, count): let the pair at the hole sink to where it belongs."""
    w = Writer(made, "sift", _VOID, *(i64, i64, i64, i64))
    values, places, start, count = w.args
    value, place = w.load(f32, values, start), w.load(i32, places, start)
    hole, is_done = Var(start), Var(w.whole(0))

    def comes_first(x: Num, at_x: Num, y: Num, at_y: Num) -> Num:
        return (x > y) | (x.equals(y) & (at_x < at_y))

    with w.during(lambda: (hole.now * 2 + 1 < count) & is_done.now.equals(0)):
        child = Var(hole.now * 2 + 1)
        second = child.now + 1
        with w.when(second < count):
            left, right = w.load(f32, values, child.now), w.load(f32, values, second)
            at_left, at_right = w.load(i32, places, child.now), w.load(i32, places, second)
            is_right = comes_first(right, at_right, left, at_left)
            child.set(is_right.pick(second, child.now))
        other, at_other = w.load(f32, values, child.now), w.load(i32, places, child.now)
        with w.whether(comes_first(value, place, other, at_other)) as (yes, no):
            with yes:
                is_done.set(w.whole(1))
            with no:
                w.store(other, values, hole.now)
                w.store(at_other, places, hole.now, i32)
                hole.set(child.now)
    w.store(value, values, hole.now)
    w.store(place, places, hole.now, i32)
    w.give()
    return w.function


def _build(made: ir.Module, sift: Any) -> Any:
    """(values, places, count)"""
    w = Writer(made, "build", _VOID, i64, i64, i64)
    values, places, count = w.args
    half = count / 2
    with w.each(half) as i:
        w.call(sift, values, places, half - 1 - i, count)
    w.give()
    return w.function


def _pop(made: ir.Module, sift: Any) -> Any:
    """(values, places, count): remove the first of them; it was read before."""
    w = Writer(made, "pop", _VOID, i64, i64, i64)
    values, places, count = w.args
    last = count - 1
    w.store(w.load(f32, values, last), values)
    w.store(w.load(i32, places, last), places, 0, i32)
    w.call(sift, values, places, w.whole(0), last)
    w.give()
    return w.function
