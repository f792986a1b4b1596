"""Mirostat, with the bits of the sampler's: what it leaves of the candidates, and its mu after a draw."""

from typing import Any

import numpy as np
from llvmlite import ir

from segue import exact_math
from segue.runners.cpu.draws import records as of
from segue.runners.cpu.draws.cuts import Candidates, Cuts, begin_cut
from segue.runners.cpu.draws.functions import Functions
from segue.runners.cpu.draws.passes import Passes
from segue.runners.cpu.draws.writing import Num, Var, Writer, f64
from segue.runners.cpu.emit import f32, i64

_LOOKS_AT = 100  # tokens; see engine/sampling/choosers.py
_LOG_2 = 0.6931471805599453
_LARGEST_MU = 1e6


class Mirostat:
    """Both versions as cuts: mu is their value, the width of a row their count."""

    def __init__(self, made: ir.Module, passes: Passes, cuts: Cuts, functions: Functions) -> None:
        self._passes, self._cuts, self._functions = passes, cuts, functions
        self.by_rank = self._write_by_rank(made)
        self.by_surprise = self._write_by_surprise(made)
        self.next_mu = self._write_next_mu(made)

    def _write_by_surprise(self, made: ir.Module) -> Any:
        """Those that are no more surprising than mu, in their order; or the likeliest."""
        w, those, mu, _ = begin_cut(made, "mirostat_2")
        weights = those.part_at(of.WEIGHTS)
        w.call(self._passes.weigh, those.logits, those.size, those.best, weights)
        total = w.call(self._passes.total, weights, those.size, those.part_at(of.VALUES))
        level = those.best.widened() + w.call(self._functions.log, total)
        kept = w.call(self._cuts.reaching, *those, (level - mu * _LOG_2).rounded())
        with w.when(kept > 0):
            w.give(kept)
        w.give(w.call(self._cuts.top_k, *those, mu, w.whole(1)))
        return w.function

    def _write_by_rank(self, made: ir.Module) -> Any:
        """As many of the likeliest as are no more surprising than mu, if probabilities follow Zipf's law."""
        w, those, mu, width = begin_cut(made, "mirostat_1")
        log, exp = self._functions.log, self._functions.exp
        found = w.call(self._cuts.top_k, *those, mu, w.whole(_LOOKS_AT))
        with w.when(found < 2):
            w.give(w.call(self._cuts.top_k, *those, mu, w.whole(1)))
        exponent = self._exponent(w, made, those, found)
        with w.when(exponent <= 0.0):  # equal probabilities
            w.give(w.call(self._cuts.top_k, *those, mu, those.size))
        excess = exponent - 1.0
        log_width = w.call(log, width.as_double())
        nothing = w.double(0.0)
        less = w.double(1.0) - w.call(exp, (nothing - excess) * log_width)
        is_one = (excess < 1e-9) & (excess > -1e-9)
        spread = is_one.pick(w.double(1.0) / log_width, excess / less)
        bits = (mu + w.call(log, spread) * exact_math.BITS_A_NAT) / exponent
        most = (bits > 30.0).pick(w.double(30.0), bits)
        count = w.call(exp, most * exact_math.log(2.0)).truncated()
        w.give(w.call(self._cuts.top_k, *those, mu, (count > 1).pick(count, 1)))
        return w.function

    def _exponent(self, w: Writer, made: ir.Module, those: Candidates, found: Num) -> Num:
        """Of Zipf's law, by what `top_k` left: by how much logits fall with the logarithm of their rank."""
        ranks = np.arange(1, _LOOKS_AT)
        steps = exact_math.logs((ranks + 1) / ranks)
        kind = ir.ArrayType(f64, len(steps))
        table = ir.GlobalVariable(made, kind, "steps_of_ranks")
        table.global_constant, table.linkage = True, "internal"
        table.initializer = ir.Constant(kind, steps.tolist())
        place = Num(w.b, w.b.ptrtoint(table, i64))
        logits = those.scratch + those.part * (those.out + 1)
        along, squares = Var(w.double(0.0)), Var(w.double(0.0))
        with w.each(found - 1) as i:
            step = w.load(f64, place, i)
            fall = w.load(f32, logits, i).widened() - w.load(f32, logits, i + 1).widened()
            along.set(along.now + step * fall)
            squares.set(squares.now + step * step)
        return along.now / squares.now

    def _write_next_mu(self, made: ir.Module) -> Any:
        """(weights, count, index of the one that was drawn, room, mu, tau, eta)"""
        w = Writer(made, "next_mu", f64, *(i64, i64, i64, i64, f64, f64, f64))
        weights, count, index, room, mu, tau, eta = w.args
        share = w.load(f32, weights, index).widened() / w.call(
            self._passes.total, weights, count, room
        )
        bits = w.call(self._functions.log, share) * exact_math.BITS_A_NAT
        error = w.double(0.0) - bits - tau
        found = mu - eta * error
        found = (found < -_LARGEST_MU).pick(w.double(-_LARGEST_MU), found)
        w.give((found > _LARGEST_MU).pick(w.double(_LARGEST_MU), found))
        return w.function
