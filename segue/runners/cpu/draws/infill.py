"""llama.cpp's infill sampler as a cut, with the bits of the sampler's: it ends a middle unless one text is likely."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from segue.runners.cpu.draws import records as of
from segue.runners.cpu.draws.cuts import Candidates, Cuts, begin_cut
from segue.runners.cpu.draws.passes import VOID, Passes
from segue.runners.cpu.draws.writing import Num, Var, Writer, f64
from segue.runners.cpu.emit import f32, i8, i32, i64, load

_MOST_MERGED = 128  # see engine/sampling/filters.py
_LIKELY = 0.2


class Infill:
    """The cut's value: 1 if the end may be drawn, else 0. Its count: the address of the record."""

    def __init__(self, made: ir.Module, passes: Passes, cuts: Cuts) -> None:
        self._passes, self._cuts = passes, cuts
        self._merge = _merge(made, _is_beginning(made))
        self.cut = self._write_cut(made)

    def _write_cut(self, made: ir.Module) -> Any:
        w, those, may_end, record = begin_cut(made, "infill")
        count = w.call(self._cuts.top_k, *those, may_end, w.whole(_MOST_MERGED))
        left = _Left(w, those, count, record)
        ending = self._share_out(w, those, left)
        with w.when(ending * 3.0 * count.as_double() > w.double(1.0) - ending):
            left.keep(left.is_end)
        w.call(self._merge, left.ids, count, record, left.shares, those.part_at(of.PEAKS))
        num_texts, held = Var(w.whole(0)), Var(w.double(0.0))
        with w.each(count) as i:
            is_text = left.is_likely(i) & left.is_end(i).equals(0)
            num_texts.set(num_texts.now + is_text.pick(w.whole(1), 0))
            held.set(held.now + (is_text | left.is_end(i)).pick(left.share(i), 0.0))
        with w.when(num_texts.now > 0):
            least = w.double(1.0) / (num_texts.now + 1).as_double()
            left.keep(
                lambda i: left.is_end(i) | (left.is_likely(i) & (left.share(i) / held.now >= least))
            )
        with w.when(may_end > 0.0):  # or the likeliest, which is the first
            w.store(w.load(i64, record, of.END), left.ids, 0, i32)
            w.store(w.real(0.0), left.logits)
        w.give(w.whole(1))
        return w.function

    def _share_out(self, w: Writer, those: Candidates, left: "_Left") -> Num:
        """Store what share each has. Returns that of all ends together."""
        weights = those.part_at(of.WEIGHTS)
        w.call(self._passes.weigh, left.logits, left.count, those.best, weights)
        total, ending = Var(w.double(0.0)), Var(w.double(0.0))
        with w.each(left.count) as i:
            total.set(total.now + w.load(f32, weights, i).widened())
        with w.each(left.count) as i:
            share = w.load(f32, weights, i).widened() / total.now
            w.store(share, left.shares, i)
            ending.set(ending.now + left.is_end(i).pick(share, 0.0))
        return ending.now


class _Left:
    """The candidates that the cut looks at, and their shares."""

    def __init__(self, w: Writer, those: Candidates, count: Num, record: Num) -> None:
        self._w, self.count = w, count
        self.ids = those.scratch + those.part * those.out
        self.logits = self.ids + those.part
        self.shares = those.part_at(of.VALUES)  # doubles: it takes the part after it too
        self._are_ends = w.load(i64, record, of.ARE_ENDS)

    def share(self, i: Num) -> Num:
        return self._w.load(f64, self.shares, i)

    def is_likely(self, i: Num) -> Num:
        return self.share(i) >= _LIKELY

    def is_end(self, i: Num) -> Num:
        return _byte(self._w, self._are_ends + self._w.load(i32, self.ids, i)).differs(0)

    def keep(self, test: Callable[[Num], Num]) -> None:
        """Return with those for which the test holds, in their order."""
        w, kept = self._w, Var(self._w.whole(0))
        with w.each(self.count) as i:
            is_kept = test(i)
            w.store(w.load(i32, self.ids, i), self.ids, kept.now, i32)
            w.store(w.load(f32, self.logits, i), self.logits, kept.now)
            kept.set(kept.now + is_kept.pick(w.whole(1), 0))
        w.give(kept.now)


def _byte(w: Writer, place: Num) -> Num:
    return Num(w.b, w.b.zext(load(w.b, place.value, i8, 1), i64))


def _is_beginning(made: ir.Module) -> Any:
    """(starts of texts, their bytes, token, other token): 1 if the first one's text is the other's beginning.

    An empty one is none.
    """
    w = Writer(made, "is_beginning", i64, *(i64, i64, i64, i64))
    starts, texts, token, other = w.args
    first, second = w.load(i64, starts, token), w.load(i64, starts, other)
    size, whole = w.load(i64, starts, token + 1) - first, w.load(i64, starts, other + 1) - second
    with w.when((size <= 0) | (whole < size)):
        w.give(w.whole(0))
    with w.each(size) as i:
        one, another = _byte(w, texts + first + i), _byte(w, texts + second + i)
        with w.when(one.differs(another)):
            w.give(w.whole(0))
    w.give(w.whole(1))
    return w.function


def _merge(made: ir.Module, is_beginning: Any) -> Any:
    """(ids, count, record, shares, room): add each share to that of a token it shares a beginning with.

    To the likelier of the two: the other is gone.
    """
    w = Writer(made, "merge", VOID, *(i64, i64, i64, i64, i64))
    ids, count, record, shares, gone = w.args
    texts = [w.load(i64, record, word) for word in (of.TEXT_STARTS, of.TEXTS)]
    with w.each(count) as i:
        w.store(w.whole(0), gone, i, i32)
    with w.each(count) as first, w.each(count) as second:
        is_over = w.load(i32, gone, first) | w.load(i32, gone, second)
        with w.when(first.differs(second) & is_over.equals(0)):
            pair = (w.load(i32, ids, first), w.load(i32, ids, second))
            with w.when(w.call(is_beginning, *texts, *pair).differs(0)):
                one, other = w.load(f64, shares, first), w.load(f64, shares, second)
                into, out_of = (other > one).pick(second, first), (other > one).pick(first, second)
                w.store(one + other, shares, into)
                w.store(w.double(0.0), shares, out_of)
                w.store(w.whole(1), gone, out_of, i32)
    w.give()
    return w.function
