"""One draw: cuts in the given order, then a token drawn by weight: exactly the sampler's result."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from llvmlite import ir

from segue.runners.cpu.draws import records as of
from segue.runners.cpu.draws.changed_rows import Changes, Penalties, draw_changed, late_words
from segue.runners.cpu.draws.cuts import LOWEST, Cuts
from segue.runners.cpu.draws.functions import Functions
from segue.runners.cpu.draws.heap import Heap
from segue.runners.cpu.draws.infill import Infill
from segue.runners.cpu.draws.mirostat import Mirostat
from segue.runners.cpu.draws.passes import FEW, LAYERS, VOID, Passes
from segue.runners.cpu.draws.shaped_cuts import ShapedCuts
from segue.runners.cpu.draws.writing import Num, Var, Writer, f64
from segue.runners.cpu.emit import f32, i32, i64
from segue.runners.cpu.products.processor import Target

_HIGHEST = -LOWEST
_GREEDY_BELOW = 1e-7  # a temperature; see engine/sampling/filters.py
_SCALABLE = -1e30  # a logit that stays finite, whatever it is divided by
NAME = "draw_row"


def module(target: Target) -> ir.Module:
    """A module with the function `draw_row(record, logits, tokens per row, scratch, bytes per part of the scratch)`."""
    made = ir.Module("draws")
    made.triple = target.triple
    passes = Passes(made)
    cuts, functions = Cuts(made, passes, Heap(made)), Functions(made)
    shaped = ShapedCuts(made, passes, cuts, functions)
    mirostat, infill = Mirostat(made, passes, cuts, functions), Infill(made, passes, cuts)
    table = {
        of.TOP_K: cuts.top_k,
        of.TOP_P: cuts.top_p,
        of.MIN_P: cuts.min_p,
        of.TYPICAL_P: shaped.typical_p,
        of.TOP_N_SIGMA: shaped.top_n_sigma,
        of.XTC: shaped.xtc,
        of.INFILL: infill.cut,
        of.FEEDBACK_CUTS + of.MIROSTAT_1: mirostat.by_rank,
        of.FEEDBACK_CUTS + of.MIROSTAT_2: mirostat.by_surprise,
        of.FEEDBACK_CUTS + of.ADAPTIVE_P: shaped.adaptive_p,
    }
    draw_changed(made, NAME, _draw(made, passes, table, shaped.temperature, mirostat))
    return made


def _chosen(made: ir.Module, passes: Passes) -> Any:
    """(weights, count, point, room, address of a double): the index that the sampler's `draw` gives."""
    w = Writer(made, "chosen", i64, *(i64, i64, f64, i64, i64))
    weights, count, point, room, before = w.args
    offset = point * w.call(passes.total, weights, count, room)
    with w.when(count <= FEW):
        w.give(w.call(passes.fall, weights, w.whole(1), count, offset, before))
    width = (count + (LAYERS - 1)) / LAYERS
    column = w.call(passes.fall, room, w.whole(1), width, offset, before)
    rest = offset - w.load(f64, before)
    own = (count - column + width - 1) / width
    row = w.call(passes.fall, weights + column * 4, width, own, rest, before)
    w.give(column + width * row)
    return w.function


def _chosen_of_row(made: ir.Module, passes: Passes) -> Any:
    """(logits, count, divisor, best quotient, point, room, column, address of a double): the same for a whole row.

    Its weights are computed where they are added, and again for the column that is drawn: a row of them would have to
    go through memory. For more than FEW logits, and at most LAYERS times as many.
    """
    w = Writer(made, "chosen_of_row", i64, *(i64, i64, f32, f32, f64, i64, i64, i64))
    logits, count, divisor, best, point, room, weights, before = w.args
    width = (count + (LAYERS - 1)) / LAYERS
    w.call(passes.fold_weights, logits, count, width, divisor, best, room)
    offset = point * w.call(passes.total, room, width, room)
    column = w.call(passes.fall, room, w.whole(1), width, offset, before)
    rest = offset - w.load(f64, before)
    own = (count - column + width - 1) / width
    w.call(passes.weigh_column, logits + column * 4, width, own, divisor, best, weights)
    w.give(column + width * w.call(passes.fall, weights, w.whole(1), own, rest, before))
    return w.function


def _scaled(w: Writer, best: Num, divisor: Num, give: Callable[[int], None]) -> Num:
    """The highest quotient; if it is not a number that can be computed with, the draw is left to the sampler."""
    scaled = best / divisor
    with w.when((scaled > _HIGHEST) | (scaled < LOWEST)):
        give(of.NOT_DONE)
    return scaled


def _draw_by_weight(
    w: Writer,
    record: Num,
    width: Num,
    best: Num,
    give: Callable[[int], None],
    drawn: Callable[[Num, Num], Num],
) -> None:
    """If there is no cut but a temperature: draw from the whole row, and return."""
    num_cuts = w.load(i64, record, of.NUM_CUTS)
    is_scaled = num_cuts.equals(1) & w.load(i64, record, of.CUTS).equals(of.SCALE)
    has_no_feedback = w.load(i64, record, of.FEEDBACK_KIND).equals(of.NO_FEEDBACK)
    is_plain = (num_cuts.equals(0) | is_scaled) & has_no_feedback
    with w.when(is_plain & (width > FEW) & (width <= FEW * LAYERS)):
        divisor = is_scaled.pick(w.load(f64, record, of.CUTS + 1).rounded(), 1.0)
        scaled = _scaled(w, best, divisor, give)
        w.store(drawn(divisor, scaled), record + 8 * of.TOKEN)
        w.give()


@dataclass(frozen=True)
class _Left:
    """The tokens that are left so far."""

    ids: Var  # address of their numbers; 0: all of the row
    logits: Var  # address
    size: Var
    best: Var  # the highest logit
    out: Var  # part of the scratch for what the next cut leaves


def _take_listed(w: Writer, passes: Passes, row: Num, left: _Left) -> None:
    """Leave the tokens of a draw's list, as a cut does."""
    record, _, _, scratch, part = w.args
    only = w.load(i64, record, of.ONLY)
    left.ids.set(scratch + part * of.IDS)
    left.logits.set(left.ids.now + part)
    left.size.set(w.load(i64, record, of.NUM_ONLY))
    left.out.set(w.whole(of.IDS_2))
    with w.each(left.size.now) as i:
        token = w.load(i64, only, i)
        w.store(token, left.ids.now, i, i32)
        w.store(w.load(f32, row, token), left.logits.now, i)
    left.best.set(w.call(passes.highest, left.logits.now, left.size.now))


class _Chain:
    """What a draw's cuts make of its candidates."""

    def __init__(
        self, w: Writer, passes: Passes, table: dict[int, Any], temperature: Any, row: Num
    ) -> None:
        """`table`: the functions of cuts, by their kinds; `temperature`: that of a dynamic one."""
        _, _, width, scratch, part = w.args
        self._w, self._passes, self._table, self._row = w, passes, table, row
        self._temperature = temperature
        self._peaks = scratch + part * of.PEAKS
        self.num_strange = w.call(passes.peaks, row, width, self._peaks)
        best = w.call(passes.highest, self._peaks, _blocks(width))
        ids, logits, size = Var(w.whole(0)), Var(row), Var(width)
        self.left = _Left(ids, logits, size, Var(best), out=Var(w.whole(of.IDS)))

    def give(self, number: int) -> None:
        """Return without a token."""
        self._w.store(self._w.whole(number), self._w.args[0], of.TOKEN)
        self._w.give()

    def act(self, cut: Num) -> None:
        """Do what a cut of the record says."""
        w = self._w
        of_what, number = Var(w.load(i64, cut)), Var(w.load(f64, cut, 1))
        how_many = Var(w.load(i64, cut, 2))
        with w.when(of_what.now.equals(of.DYNAMIC_SCALE)):
            number.set(self._heat(number.now, w.load(f64, cut, 3), w.load(f64, cut, 4)))
            of_what.set((number.now < _GREEDY_BELOW).pick(w.whole(of.TOP_K), of.SCALE))
            how_many.set(w.whole(1))
        with w.when(of_what.now.equals(of.INFILL)):
            number.set(self._may_end())
            how_many.set(w.args[0])
        kind, value, count = of_what.now, number.now, how_many.now
        is_adjustment = (kind >= of.PENALTIES) & (kind <= of.LOGIT_BIAS)
        with w.whether(kind.equals(of.SCALE)) as (scales, otherwise):
            with scales:
                self._scale(value)
            with otherwise, w.whether(is_adjustment) as (adjusts, narrows):
                with adjusts:
                    self._adjust(kind)
                with narrows:
                    self.narrow(kind, value, count)

    def _heat(self, lowest: Num, reach: Num, exponent: Num) -> Num:
        """The temperature for what is left, where it is dynamic."""
        w, left = self._w, self.left
        _, _, _, scratch, part = w.args
        about = (left.ids.now, left.logits.now, left.size.now, left.best.now, left.out.now)
        return w.call(self._temperature, scratch, part, *about, lowest, reach, exponent)

    def _may_end(self) -> Num:
        """For infill: 1 if the end may be drawn, else 0. It is left to the sampler where scaling may ban it."""
        w = self._w
        end, may_end = w.load(i64, w.args[0], of.END), Var(w.double(0.0))
        with w.when(end >= 0):
            logit = w.load(f32, self._row, end)
            with w.when((logit >= LOWEST) & (logit < _SCALABLE)):
                self.give(of.NOT_DONE)
            may_end.set((logit >= LOWEST).pick(w.double(1.0), 0.0))
        return may_end.now

    def narrow(self, kind: Num, value: Num, count: Num) -> None:
        """Leave what a cut keeps."""
        w, left = self._w, self.left
        _, _, _, scratch, part = w.args
        about = (left.ids.now, left.logits.now, left.size.now, left.best.now, left.out.now)
        kept = Var(w.whole(of.NOT_DONE))
        for number, function in self._table.items():
            with w.when(kind.equals(number)):
                kept.set(w.call(function, scratch, part, *about, value, count))
        with w.when(kept.now.differs(of.ALL_KEPT)):
            with w.when(kept.now <= 0):
                self.give(of.NOT_DONE)
            left.size.set(kept.now)
            left.ids.set(scratch + part * left.out.now)
            left.logits.set(left.ids.now + part)
            left.out.set(w.whole(of.IDS + of.IDS_2) - left.out.now)
            left.best.set(w.call(self._passes.highest, left.logits.now, left.size.now))

    def _scale(self, value: Num) -> None:
        w, left = self._w, self.left
        divisor, blocks = value.rounded(), _blocks(w.args[2])
        left.best.set(_scaled(w, left.best.now, divisor, self.give))
        into = self._own_row()
        w.call(self._passes.divide, left.logits.now, left.size.now, divisor, into)
        w.call(self._passes.divide, self._peaks, blocks, divisor, self._peaks)
        left.logits.set(into)

    def _own_row(self) -> Num:
        """Where the candidates' logits may be written."""
        _, _, _, scratch, part = self._w.args
        return self.left.ids.now.differs(0).pick(self.left.logits.now, scratch + part * of.SCALED)

    def _adjust(self, kind: Num) -> None:
        """Penalties, costs of DRY or biases: on a row of the vocabulary's width, to and from which a few are copied."""
        w, left = self._w, self.left
        record, _, _, scratch, part = w.args
        is_few = left.ids.now.differs(0)
        whole = is_few.pick(scratch + part * of.SCATTERED, scratch + part * of.SCALED)
        with w.whether(is_few) as (few, all_):
            with few, w.each(left.size.now) as i:
                token = w.load(i32, left.ids.now, i)
                w.store(w.load(f32, left.logits.now, i), whole, token)
            with all_, w.when(left.logits.now.equals(self._row)):
                w.call(self._passes.divide, self._row, left.size.now, w.real(1.0), whole)
                left.logits.set(whole)
        with w.whether(kind.equals(of.PENALTIES)) as (penalties, adds):
            with penalties:
                Penalties(w, whole).apply()
            with adds:
                is_dry, costs = kind.equals(of.DRY), late_words(w, record) + 8 * of.LATE_COSTS
                words = is_dry.pick(costs, record + 8 * of.BIASED_IDS)
                saved = is_dry.pick(w.whole(of.SAVED_COSTS), of.SAVED_BIASES)
                Changes(w, whole, words, saved).apply()
        with w.when(is_few), w.each(left.size.now) as i:
            token = w.load(i32, left.ids.now, i)
            w.store(w.load(f32, whole, token), left.logits.now, i)
        num_strange = w.call(self._passes.peaks, left.logits.now, left.size.now, self._peaks)
        left.best.set(w.call(self._passes.highest, self._peaks, _blocks(left.size.now)))
        best = left.best.now
        with w.when(num_strange.differs(0) | (best > _HIGHEST) | (best < LOWEST)):
            self.give(of.NOT_DONE)


def _blocks(size: Num) -> Num:
    return (size + (of.BLOCK - 1)) / of.BLOCK


class _Feedback:
    """What mirostat or adaptive-p does before and after a draw, if the record has one of them."""

    def __init__(self, w: Writer, mirostat: Mirostat) -> None:
        self._w, self._mirostat = w, mirostat
        record = w.args[0]
        self._kind = w.load(i64, record, of.FEEDBACK_KIND)
        self._before = w.load(f64, record, of.FEEDBACK_AFTER)  # until this draw is made
        self.is_given = self._kind.differs(of.NO_FEEDBACK)
        self._is_adaptive = self._kind.equals(of.ADAPTIVE_P)

    def cut(self, chain: _Chain) -> None:
        w = self._w
        with w.when(self.is_given):
            value = self._is_adaptive.pick(self._aim(), self._before)
            chain.narrow(self._kind + of.FEEDBACK_CUTS, value, w.args[2])

    def _aim(self) -> Num:
        """The probability that adaptive-p prefers now."""
        w = self._w
        target, total = (w.load(f64, w.args[0], word) for word in (of.TARGET, of.TOTAL))
        aim = target * 2.0 - self._before / total
        low = (aim > 0.0).pick(aim, 0.0)
        return (low < 1.0).pick(low, 1.0)

    def store(self, weights: Num, count: Num, index: Num, room: Num) -> None:
        """Store what this draw feeds back, once it has its candidate."""
        w = self._w
        record, _, _, scratch, part = w.args
        with w.when(self.is_given):
            target, rate = (w.load(f64, record, word) for word in (of.TARGET, of.RATE))
            with w.whether(self._is_adaptive) as (adapts, follows):
                with adapts:
                    share = w.load(f32, scratch + part * of.SHARES, index)
                    w.store(share.widened() + rate * self._before, record, of.FEEDBACK_AFTER)
                with follows:
                    about = (weights, count, index, room, self._before, target, rate)
                    w.store(w.call(self._mirostat.next_mu, *about), record, of.FEEDBACK_AFTER)


def _draw(
    made: ir.Module, passes: Passes, table: dict[int, Any], temperature: Any, mirostat: Mirostat
) -> Any:
    """(record, logits, tokens per row, scratch, bytes per part of the scratch)"""
    chosen, chosen_of_row = _chosen(made, passes), _chosen_of_row(made, passes)
    w = Writer(made, "draw_as_it_is", VOID, *(i64, i64, i64, i64, i64))
    record, all_logits, width, scratch, part = w.args
    weights, room = scratch + part * of.WEIGHTS, scratch + part * of.VALUES
    token_at = record + 8 * of.TOKEN
    row = all_logits + width * w.load(i64, record, of.ROW) * 4
    feedback, chain = _Feedback(w, mirostat), _Chain(w, passes, table, temperature, row)
    left = chain.left
    only = w.load(i64, record, of.ONLY)
    with w.when(only.differs(0)):
        _take_listed(w, passes, row, left)
    with w.when(chain.num_strange.differs(0) | (left.best.now > _HIGHEST)):
        chain.give(of.NO_NUMBERS)
    with w.when(left.best.now < LOWEST):
        chain.give(of.NONE_LEFT)
    point = w.load(f64, record, of.POINT)
    where = (point, room, weights, token_at)
    drawn = partial(w.call, chosen_of_row, row, width)
    with w.when(only.equals(0)):
        best = left.best.now
        _draw_by_weight(w, record, width, best, chain.give, lambda *by: drawn(*by, *where))
    with w.each(w.load(i64, record, of.NUM_CUTS)) as i:
        chain.act(record + (i * of.CUT_WORDS + of.CUTS) * 8)
    feedback.cut(chain)
    index, size = Var(w.whole(0)), left.size.now
    with w.when((size > 1) | feedback.is_given):
        w.call(passes.weigh, left.logits.now, size, left.best.now, weights)
        index.set(w.call(chosen, weights, size, point, room, token_at))
    feedback.store(weights, size, index.now, room)
    token = Var(index.now)
    with w.when(left.ids.now.differs(0)):
        token.set(w.load(i32, left.ids.now, index.now))
    w.store(token.now, token_at)
    w.give()
    return w.function
