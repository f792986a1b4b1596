"""The sampler's usual cuts: which candidates are kept, in which order. The result is exactly that of the sampler's
filters: exponentials and sums are those of exact_math, and the order of candidates is total.

Candidates are a whole row of logits (`ids` is 0) or, after a cut, ids and logits in the thread's scratch memory.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from segue.runners.cpu.draws import records as of
from segue.runners.cpu.draws.heap import Heap
from segue.runners.cpu.draws.passes import Passes
from segue.runners.cpu.draws.sorting import floor_of, sort
from segue.runners.cpu.draws.writing import Num, Var, Writer, f64
from segue.runners.cpu.emit import f32, i32, i64

LOWEST = float(np.finfo(np.float32).min)  # every logit but −inf is at least this
_FEW = 4096  # so many are taken from a heap, one by one; if more are wanted, all are sorted
_SOME = 256  # likewise of the highest, of which no others are left then
SMALL = 512  # up to this many are sorted without a floor

# Parameters of every cut: (scratch, bytes per part, ids, logits, how many, the highest logit, the part of the scratch
# for what is kept, the cut's value, its count). Every cut returns how many candidates are kept, or ALL_KEPT.
KINDS = (i64, i64, i64, i64, i64, f32, i64, f64, i64)
_LEADING = (i64, i64, f64, i64, f32, f32)


class Candidates(NamedTuple):
    scratch: Num
    part: Num
    ids: Num
    logits: Num
    size: Num
    best: Num
    out: Num

    def part_at(self, index: int) -> Num:
        return self.scratch + self.part * index

    def take(self, w: Writer, place: Num, number: Num) -> None:
        """Keep candidate `place` as the `number`-th of the result."""
        token = Var(place)
        with w.when(self.ids.differs(0)):
            token.set(w.load(i32, self.ids, place))
        kept = self.scratch + self.part * self.out
        w.store(token.now, kept, number, i32)
        w.store(w.load(f32, self.logits, place), kept + self.part, number)


def begin_cut(made: ir.Module, name: str) -> tuple[Writer, Candidates, Num, Num]:
    """What writes a cut, and its parameters."""
    w = Writer(made, name, i64, *KINDS)
    *about, value, count = w.args
    return w, Candidates(*about), value, count


class Cuts:
    def __init__(self, made: ir.Module, passes: Passes, heap: Heap) -> None:
        self._passes, self._heap = passes, heap
        self._sort = sort(made)
        self._floor_of = floor_of(made)
        self._first = self._write_first(made)
        self._leading_of_many = self._write_leading_of_many(made)
        self.leading = self._write_leading(made)
        self.reaching = self._write_reaching(made)
        self.top_k = self._write_top_k(made)
        self.top_p = self._write_top_p(made)
        self.min_p = self._write_min_p(made)

    def _write_first(self, made: ir.Module) -> Any:
        """Keep only the highest; among equals the first."""
        w, those, _, _ = begin_cut(made, "first_of_all")
        peaks, place = those.part_at(of.PEAKS), Var(w.whole(0))
        with w.when(those.ids.equals(0)):
            block = Var(w.whole(0))
            with w.during(lambda: w.load(f32, peaks, block.now).differs(those.best)):
                block.set(block.now + 1)
            place.set(block.now * of.BLOCK)
        with w.during(lambda: w.load(f32, those.logits, place.now).differs(those.best)):
            place.set(place.now + 1)
        those.take(w, place.now, w.whole(0))
        w.give(w.whole(1))
        return w.function

    def _write_top_k(self, made: ir.Module) -> Any:
        """The `count` highest, highest first."""
        w, those, value, count = begin_cut(made, "top_k")
        with w.when(count.equals(1)):
            w.give(w.call(self._first, *those, value, count))
        values, places = those.part_at(of.VALUES), those.part_at(of.PLACES)
        found = Var(w.whole(0))
        with w.whether((count > _SOME) | those.ids.differs(0)) as (is_many, is_few):
            with is_many:
                floor = Var(w.real(LOWEST))
                with w.when((count > _SOME) & (count < those.size)):
                    about = (those.logits, those.size, count, floor.now)
                    floor.set(w.call(self._floor_of, *about))
                every = (those.logits, w.whole(0), those.size, floor.now)
                found.set(w.call(self._passes.gather, *every, values, places, w.whole(0)))
            with is_few:
                self._gather_top(w, those, count, found)
        kept = (found.now < count).pick(found.now, count)
        with w.when(kept > _SOME):
            self._sort_found(w, those, found.now)
            with w.each(kept) as i:
                those.take(w, w.load(i32, places, i), i)
            w.give(kept)
        w.call(self._heap.build, values, places, found.now)
        with w.each(kept) as i:
            those.take(w, w.load(i32, places), i)
            w.call(self._heap.pop, values, places, found.now - i)
        w.give(kept)
        return w.function

    def _gather_top(self, w: Writer, those: Candidates, count: Num, found: Var) -> None:
        """Of a whole row, all that can be among the `count` highest.

        These are at least the count-th highest of the blocks' maxima, if there are that many blocks.
        """
        values, places = those.part_at(of.VALUES), those.part_at(of.PLACES)
        peaks = those.part_at(of.PEAKS)
        blocks = (those.size + (of.BLOCK - 1)) / of.BLOCK
        floor = Var(w.real(LOWEST))
        with w.when(count <= blocks / 2):
            with w.each(blocks) as i:
                w.store(w.load(f32, peaks, i), values, i)
                w.store(i, places, i, i32)
            w.call(self._heap.build, values, places, blocks)
            with w.each(count - 1) as i:
                w.call(self._heap.pop, values, places, blocks - i)
            peak = w.load(f32, values)
            floor.set((peak > floor.now).pick(peak, floor.now))
        with w.each(blocks) as i, w.when(w.load(f32, peaks, i) >= floor.now):
            first, last = i * of.BLOCK, i * of.BLOCK + of.BLOCK
            end = (last < those.size).pick(last, those.size)
            about = (those.logits, first, end, floor.now, values, places)
            found.set(w.call(self._passes.gather, *about, found.now))

    def _sort_found(self, w: Writer, those: Candidates, count: Num) -> None:
        """Sort what was gathered. What is kept is written after that, so there is room in its place."""
        kept = those.scratch + those.part * those.out
        found = (those.part_at(of.VALUES), those.part_at(of.PLACES))
        w.call(self._sort, *found, kept + those.part, kept, count)

    def _write_leading_of_many(self, made: ir.Module) -> Any:
        """As `leading`, of all that reach the lowest."""
        w = Writer(made, "leading_of_many", i64, *KINDS[:-2], *_LEADING)
        *about, scores, weights, goal, at_least, _, lowest = w.args
        those = Candidates(*about)
        values, places = those.part_at(of.VALUES), those.part_at(of.PLACES)
        every = (scores, w.whole(0), those.size, lowest, values, places)
        found = w.call(self._passes.gather, *every, w.whole(0))
        self._sort_found(w, those, found)
        kept, held = Var(w.whole(0)), Var(w.double(0.0))

        def is_short() -> Num:
            return (held.now < goal) | (kept.now < at_least)

        with w.during(lambda: (kept.now < found) & is_short()):
            place = w.load(i32, places, kept.now)
            held.set(held.now + w.load(f32, weights, place).widened())
            those.take(w, place, kept.now)
            kept.set(kept.now + 1)
        w.give(kept.now)
        return w.function

    def _write_leading(self, made: ir.Module) -> Any:
        """(candidates, scores, weights, goal, at least, floor, lowest): the fewest with the highest scores that
        together weigh as much as the goal, but at least so many.

        First of those whose scores reach the floor; if these are not enough, of all that reach the lowest.
        """
        w = Writer(made, "leading", i64, *KINDS[:-2], *_LEADING)
        *about, scores, weights, goal, at_least, first_floor, lowest = w.args
        those = Candidates(*about)
        values, places = those.part_at(of.VALUES), those.part_at(of.PLACES)
        kept, found, held = Var(w.whole(0)), Var(w.whole(0)), Var(w.double(0.0))
        floor, is_enough = Var(first_floor), Var(w.whole(0))

        def is_short() -> Num:
            return (held.now < goal) | (kept.now < at_least)

        with w.during(lambda: is_enough.now.equals(0)):
            every = (scores, w.whole(0), those.size, floor.now, values, places)
            found.set(w.call(self._passes.gather, *every, w.whole(0)))
            w.call(self._heap.build, values, places, found.now)
            kept.set(w.whole(0))
            held.set(w.double(0.0))
            with w.during(lambda: (kept.now < found.now) & is_short()):
                with w.when(kept.now.equals(_FEW)):
                    w.give(w.call(self._leading_of_many, *w.args))
                place = w.load(i32, places)
                held.set(held.now + w.load(f32, weights, place).widened())
                those.take(w, place, kept.now)
                w.call(self._heap.pop, values, places, found.now - kept.now)
                kept.set(kept.now + 1)
            is_over = (floor.now <= lowest) | is_short().equals(0)
            is_enough.set(is_over.pick(w.whole(1), 0))
            floor.set(lowest)
        w.give(kept.now)
        return w.function

    def _write_top_p(self, made: ir.Module) -> Any:
        """The fewest with the highest weights that hold the share `value` of all, and at least `count`."""
        w, those, mass, min_keep = begin_cut(made, "top_p")
        weights = those.part_at(of.WEIGHTS)
        w.call(self._passes.weigh, those.logits, those.size, those.best, weights)
        total = w.call(self._passes.total, weights, those.size, those.part_at(of.VALUES))
        at_least = (min_keep > 1).pick(min_keep, 1)
        # Candidates below the floor together weigh less than half of what may be left out.
        left_out = (w.double(1.0) - mass) * total / those.size.as_double()
        floor = (those.size <= SMALL).pick(w.real(0.0), (left_out * 0.5).rounded())
        goal = (weights, weights, mass * total, at_least, floor, w.real(0.0))
        w.give(w.call(self.leading, *those, *goal))
        return w.function

    def _write_reaching(self, made: ir.Module) -> Any:
        """(candidates, floor): those at least that high, in their order. There may be none."""
        w = Writer(made, "reaching", i64, *KINDS[:-2], f32)
        *about, floor = w.args
        those = Candidates(*about)
        values, places = those.part_at(of.VALUES), those.part_at(of.PLACES)
        every = (those.logits, w.whole(0), those.size, floor, values, places)
        found = w.call(self._passes.gather, *every, w.whole(0))
        with w.each(found) as i:
            those.take(w, w.load(i32, places, i), i)
        w.give(found)
        return w.function

    def _write_min_p(self, made: ir.Module) -> Any:
        """Those at most −`value` below the best, in their order; or the `count` highest, if these are fewer."""
        w, those, depth, min_keep = begin_cut(made, "min_p")
        floor = (those.best.widened() + depth).rounded()
        found = w.call(self.reaching, *those, floor)
        with w.when(found < min_keep):
            w.give(w.call(self.top_k, *those, depth, min_keep))
        w.give(found)
        return w.function
