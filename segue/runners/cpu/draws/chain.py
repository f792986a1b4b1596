"""One draw: cuts in the given order, then a token drawn by weight. The result is exactly that of the sampler."""

from typing import Any

from llvmlite import ir

from segue.runners.cpu.draws import records as of
from segue.runners.cpu.draws.cuts import LOWEST, Cuts
from segue.runners.cpu.draws.heap import Heap
from segue.runners.cpu.draws.passes import FEW, LAYERS, VOID, Passes
from segue.runners.cpu.draws.writing import Var, Writer, f64
from segue.runners.cpu.emit import i32, i64
from segue.runners.cpu.products.processor import Target

_HIGHEST = -LOWEST
NAME = "draw_row"


def module(target: Target) -> ir.Module:
    """A module with the function `draw_row(record, logits, tokens per row, scratch, bytes per part of the scratch)`."""
    made = ir.Module("draws")
    made.triple = target.triple
    passes = Passes(made)
    cuts = Cuts(made, passes, Heap(made))
    chosen = _chosen(made, passes)
    _draw(made, passes, cuts, chosen)
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


def _draw(made: ir.Module, passes: Passes, cuts: Cuts, chosen: Any) -> None:
    w = Writer(made, NAME, VOID, *(i64, i64, i64, i64, i64))
    record, all_logits, width, scratch, part = w.args
    peaks, weights = scratch + part * of.PEAKS, scratch + part * of.WEIGHTS
    room, token_at = scratch + part * of.VALUES, record + 8 * of.TOKEN
    row = all_logits + width * w.load(i64, record, of.ROW) * 4
    num_strange = w.call(passes.peaks, row, width, peaks)
    blocks = (width + (of.BLOCK - 1)) / of.BLOCK
    best = Var(w.call(passes.highest, peaks, blocks))

    def give(number: int) -> None:
        w.store(w.whole(number), token_at)
        w.give()

    with w.when(num_strange.differs(0) | (best.now > _HIGHEST)):
        give(of.NO_NUMBERS)
    with w.when(best.now < LOWEST):
        give(of.NONE_LEFT)
    ids, logits, size, out = Var(w.whole(0)), Var(row), Var(width), Var(w.whole(of.IDS))
    with w.each(w.load(i64, record, of.NUM_CUTS)) as i:
        cut = record + (i * of.CUT_WORDS + of.CUTS) * 8
        kind, value, count = w.load(i64, cut), w.load(f64, cut, 1), w.load(i64, cut, 2)
        with w.whether(kind.equals(of.SCALE)) as (scales, narrows):
            with scales:
                divisor = value.rounded()
                scaled = best.now / divisor
                with w.when((scaled > _HIGHEST) | (scaled < LOWEST)):
                    give(of.NOT_DONE)
                best.set(scaled)
                into = ids.now.differs(0).pick(logits.now, scratch + part * of.SCALED)
                w.call(passes.divide, logits.now, size.now, divisor, into)
                w.call(passes.divide, peaks, blocks, divisor, peaks)
                logits.set(into)
            with narrows:
                about = (scratch, part, ids.now, logits.now, size.now, best.now, out.now)
                kept = Var(w.whole(0))
                table = {of.TOP_K: cuts.top_k, of.TOP_P: cuts.top_p, of.MIN_P: cuts.min_p}
                for number, function in table.items():
                    with w.when(kind.equals(number)):
                        kept.set(w.call(function, *about, value, count))
                with w.when(kept.now <= 0):
                    give(of.NOT_DONE)
                size.set(kept.now)
                ids.set(scratch + part * out.now)
                logits.set(ids.now + part)
                out.set(w.whole(of.IDS + of.IDS_2) - out.now)
                best.set(w.call(passes.highest, logits.now, size.now))
    index = Var(w.whole(0))
    with w.when(size.now > 1):
        w.call(passes.weigh, logits.now, size.now, best.now, weights)
        point = w.load(f64, record, of.POINT)
        index.set(w.call(chosen, weights, size.now, point, room, token_at))
    token = Var(index.now)
    with w.when(ids.now.differs(0)):
        token.set(w.load(i32, ids.now, index.now))
    w.store(token.now, token_at)
    w.give()
