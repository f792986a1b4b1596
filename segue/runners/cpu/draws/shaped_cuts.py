"""Cuts that look at the distribution as a whole: locally typical sampling, top-nσ, XTC, adaptive-p; temperatures."""

from typing import Any

import numpy as np
from llvmlite import ir

from segue.runners.cpu.draws import records as of
from segue.runners.cpu.draws.cuts import KINDS, LOWEST, SMALL, Candidates, Cuts, begin_cut
from segue.runners.cpu.draws.functions import Functions
from segue.runners.cpu.draws.moments import Moments
from segue.runners.cpu.draws.passes import Passes
from segue.runners.cpu.draws.writing import Num, Var, Writer, f64
from segue.runners.cpu.emit import f32, i32

_WIDTH = float(np.float32(0.3))  # of adaptive-p's preference


class ShapedCuts:
    def __init__(self, made: ir.Module, passes: Passes, cuts: Cuts, functions: Functions) -> None:
        self._passes, self._cuts, self._functions = passes, cuts, functions
        self._moments = Moments(made, passes, functions)
        self.typical_p = self._write_typical_p(made)
        self.top_n_sigma = self._write_top_n_sigma(made)
        self.xtc = self._write_xtc(made)
        self.temperature = self._write_temperature(made)
        self.adaptive_p = self._write_adaptive_p(made)

    def _weigh(self, w: Writer, those: Candidates) -> tuple[Num, Num]:
        """Where the weights are, and their sum."""
        weights = those.part_at(of.WEIGHTS)
        w.call(self._passes.weigh, those.logits, those.size, those.best, weights)
        return weights, w.call(self._passes.total, weights, those.size, those.part_at(of.VALUES))

    def _write_typical_p(self, made: ir.Module) -> Any:
        """Those with the surprise closest to the expected that hold the share `value` of all, at least `count`."""
        w, those, mass, min_keep = begin_cut(made, "typical_p")
        weights, total = self._weigh(w, those)
        scores, room = those.part_at(of.SCORES), those.part_at(of.VALUES)
        log, size = self._functions.log, those.size
        about = (those.logits, size, those.best, weights, total, scores, room)
        entropy = w.call(self._moments.entropy, *about)
        level = (w.call(log, total) + those.best.widened()).rounded()
        w.call(self._moments.typicality, those.logits, size, level, entropy.rounded(), scores)
        # As in top_p: those with a surprise beyond this weigh less than half of what may be left out.
        most = w.call(log, size.as_double()) - w.call(log, (w.double(1.0) - mass) * 0.5)
        floor = (size <= SMALL).pick(w.real(LOWEST), (entropy - most).rounded())
        at_least = (min_keep > 1).pick(min_keep, 1)
        goal = (scores, weights, mass * total, at_least, floor, w.real(LOWEST))
        w.give(w.call(self._cuts.leading, *those, *goal))
        return w.function

    def _write_top_n_sigma(self, made: ir.Module) -> Any:
        """Those at most `value` standard deviations below the best, in their order."""
        w, those, deviations, _ = begin_cut(made, "top_n_sigma")
        values, places = those.part_at(of.VALUES), those.part_at(of.PLACES)
        possible = w.call(self._moments.possible, those.logits, those.size)
        source = Var(those.logits)
        with w.when(possible < those.size):
            every = (those.logits, w.whole(0), those.size, w.real(LOWEST), values, places)
            w.call(self._passes.gather, *every, w.whole(0))
            source.set(values)
        deviation = w.call(self._moments.deviation, source.now, possible, places)
        floor = (those.best.widened() - deviations * deviation).rounded()
        w.give(w.call(self._cuts.reaching, *those, floor))
        return w.function

    def _write_xtc(self, made: ir.Module) -> Any:
        """All but those likelier than `value`, of which the least likely stays, if at least `count` are left."""
        w, those, threshold, min_keep = begin_cut(made, "xtc")
        values, places = those.part_at(of.VALUES), those.part_at(of.PLACES)
        _, total = self._weigh(w, those)
        depth = w.call(self._functions.log, threshold * total)
        wanted = (threshold > 0.0).pick(those.best.widened() + depth, LOWEST)
        floor = (wanted < LOWEST).pick(w.double(LOWEST), wanted).rounded()
        every = (those.logits, w.whole(0), those.size, floor, values, places)
        count = w.call(self._passes.gather, *every, w.whole(0))
        num_left = w.call(self._moments.possible, those.logits, those.size) - count + 1
        with w.when((count < 2) | (num_left < min_keep)):
            w.give(w.whole(of.ALL_KEPT))
        lowest, stays = Var(w.load(f32, values)), Var(w.load(i32, places))
        with w.each(count) as i:
            value = w.load(f32, values, i)
            is_last = value <= lowest.now
            lowest.set(is_last.pick(value, lowest.now))
            stays.set(is_last.pick(w.load(i32, places, i), stays.now))
        kept = Var(w.whole(0))
        with w.each(those.size) as place:
            those.take(w, place, kept.now)  # the next one overwrites it if it does not stay
            is_kept = (w.load(f32, those.logits, place) < floor) | place.equals(stays.now)
            kept.set(kept.now + is_kept.pick(w.whole(1), 0))
        w.give(kept.now)
        return w.function

    def _write_temperature(self, made: ir.Module) -> Any:
        """(candidates, lowest, reach, exponent): a dynamic temperature, a double; 1 where one candidate is left."""
        w = Writer(made, "temperature", f64, *(*KINDS[:-2], f64, f64, f64))
        *about, lowest, reach, exponent = w.args
        those, log = Candidates(*about), self._functions.log
        possible = w.call(self._moments.possible, those.logits, those.size)
        with w.when(possible < 2):
            w.give(w.double(1.0))
        weights, total = self._weigh(w, those)
        products, room = those.scratch + those.part * those.out, those.part_at(of.VALUES)
        what = (those.logits, those.size, those.best, weights, total, products, room)
        entropy = w.call(self._moments.entropy, *what)
        unsureness = (entropy > 0.0).pick(entropy, 0.0) / w.call(log, possible.as_double())
        depth = (unsureness > 0.0).pick(w.call(log, unsureness), float("-inf"))
        is_one = exponent.equals(0.0) | unsureness.equals(1.0)
        heat = w.call(self._functions.exp, is_one.pick(w.double(0.0), exponent * depth))
        w.give(lowest + reach * heat)
        return w.function

    def _write_adaptive_p(self, made: ir.Module) -> Any:
        """All, with logits that are the higher the closer a probability is to `value`. Stores the probabilities."""
        w, those, aim, _ = begin_cut(made, "adaptive_p")
        weights, total = self._weigh(w, those)
        sum_, goal = total.rounded(), aim.rounded()
        shares, logits = those.part_at(of.SHARES), those.scratch + those.part * (those.out + 1)
        with w.each(those.size) as place:
            weight = w.load(f32, weights, place)
            share = weight / sum_
            those.take(w, place, place)
            w.store(share, shares, place)
            apart = share - goal
            distance = (apart < 0.0).pick(w.real(0.0) - apart, apart) / _WIDTH
            wanted = w.real(5.0) - distance * 10.0 * distance / (distance + 1.0)
            w.store((weight > 0.0).pick(wanted, float("-inf")), logits, place)
        w.give(those.size)
        return w.function
