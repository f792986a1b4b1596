"""One draw: cuts in the given order, then a token drawn by weight: exactly the sampler's result."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from llvmlite import ir

from segue.runners.cpu.draws import records as of
from segue.runners.cpu.draws.changed_rows import draw_changed
from segue.runners.cpu.draws.cuts import LOWEST, Cuts
from segue.runners.cpu.draws.heap import Heap
from segue.runners.cpu.draws.passes import FEW, LAYERS, VOID, Passes
from segue.runners.cpu.draws.writing import Num, Var, Writer, f64
from segue.runners.cpu.emit import f32, i32, i64
from segue.runners.cpu.products.processor import Target

_HIGHEST = -LOWEST
NAME = "draw_row"


def module(target: Target) -> ir.Module:
    """A module with the function `draw_row(record, logits, tokens per row, scratch, bytes per part of the scratch)`."""
    made = ir.Module("draws")
    made.triple = target.triple
    passes = Passes(made)
    cuts = Cuts(made, passes, Heap(made))
    draw = _draw(made, passes, cuts, _chosen(made, passes), _chosen_of_row(made, passes))
    draw_changed(made, NAME, draw)
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
    with w.when((num_cuts.equals(0) | is_scaled) & (width > FEW) & (width <= FEW * LAYERS)):
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


def _narrow(
    w: Writer, passes: Passes, cuts: Cuts, cut: Num, left: _Left, give: Callable[[int], None]
) -> None:
    """Leave what a cut keeps."""
    scratch, part = w.args[3:]
    kind, value, count = w.load(i64, cut), w.load(f64, cut, 1), w.load(i64, cut, 2)
    about = (left.ids.now, left.logits.now, left.size.now, left.best.now, left.out.now)
    kept = Var(w.whole(0))
    table = {of.TOP_K: cuts.top_k, of.TOP_P: cuts.top_p, of.MIN_P: cuts.min_p}
    for number, function in table.items():
        with w.when(kind.equals(number)):
            kept.set(w.call(function, scratch, part, *about, value, count))
    with w.when(kept.now <= 0):
        give(of.NOT_DONE)
    left.size.set(kept.now)
    left.ids.set(scratch + part * left.out.now)
    left.logits.set(left.ids.now + part)
    left.out.set(w.whole(of.IDS + of.IDS_2) - left.out.now)
    left.best.set(w.call(passes.highest, left.logits.now, left.size.now))


def _draw(made: ir.Module, passes: Passes, cuts: Cuts, chosen: Any, chosen_of_row: Any) -> Any:
    """(record, logits, tokens per row, scratch, bytes per part of the scratch)"""
    w = Writer(made, "draw_as_it_is", VOID, *(i64, i64, i64, i64, i64))
    record, all_logits, width, scratch, part = w.args
    peaks, weights = scratch + part * of.PEAKS, scratch + part * of.WEIGHTS
    room, token_at = scratch + part * of.VALUES, record + 8 * of.TOKEN
    row = all_logits + width * w.load(i64, record, of.ROW) * 4
    num_strange = w.call(passes.peaks, row, width, peaks)
    blocks = (width + (of.BLOCK - 1)) / of.BLOCK
    best = Var(w.call(passes.highest, peaks, blocks))
    ids, logits, size = Var(w.whole(0)), Var(row), Var(width)
    left = _Left(ids, logits, size, best, out=Var(w.whole(of.IDS)))
    only = w.load(i64, record, of.ONLY)
    with w.when(only.differs(0)):
        _take_listed(w, passes, row, left)

    def give(number: int) -> None:
        w.store(w.whole(number), token_at)
        w.give()

    with w.when(num_strange.differs(0) | (best.now > _HIGHEST)):
        give(of.NO_NUMBERS)
    with w.when(best.now < LOWEST):
        give(of.NONE_LEFT)
    point, num_cuts = w.load(f64, record, of.POINT), w.load(i64, record, of.NUM_CUTS)
    where = (point, room, weights, token_at)
    drawn = partial(w.call, chosen_of_row, row, width)
    with w.when(only.equals(0)):
        _draw_by_weight(w, record, width, best.now, give, lambda *by: drawn(*by, *where))
    with w.each(num_cuts) as i:
        cut = record + (i * of.CUT_WORDS + of.CUTS) * 8
        with w.whether(w.load(i64, cut).equals(of.SCALE)) as (scales, narrows):
            with scales:
                divisor = w.load(f64, cut, 1).rounded()
                best.set(_scaled(w, best.now, divisor, give))
                into = ids.now.differs(0).pick(logits.now, scratch + part * of.SCALED)
                w.call(passes.divide, logits.now, size.now, divisor, into)
                w.call(passes.divide, peaks, blocks, divisor, peaks)
                logits.set(into)
            with narrows:
                _narrow(w, passes, cuts, cut, left, give)
    index = Var(w.whole(0))
    with w.when(size.now > 1):
        w.call(passes.weigh, logits.now, size.now, best.now, weights)
        index.set(w.call(chosen, weights, size.now, point, room, token_at))
    token = Var(index.now)
    with w.when(ids.now.differs(0)):
        token.set(w.load(i32, ids.now, index.now))
    w.store(token.now, token_at)
    w.give()
    return w.function
