"""A draw from a row that is changed for it: a mask, biases and bans, penalties on tokens that occurred, costs of DRY.

Penalties, costs and biases come in the order that the record has them in.

The results are those of the sampler, to the bit: each operation is rounded once, in 32 bits. After the draw the row is
as it was: with a mask, a copy of it is drawn from.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from segue.runners.cpu.draws import records as of
from segue.runners.cpu.draws.passes import VOID
from segue.runners.cpu.draws.writing import Num, Operand, Var, Writer, f64
from segue.runners.cpu.emit import LANES, f32, floats, i8, i16, i32, i64, load, store


def draw_changed(made: ir.Module, name: str, draw: Any) -> None:
    """(record, logits, tokens per row, scratch, bytes per part of the scratch), as `draw` takes them"""
    w = Writer(made, name, VOID, *(i64, i64, i64, i64, i64))
    record, logits, width, scratch, part = w.args
    with w.when(w.load(i64, record, of.FEEDBACK_KIND).differs(of.NO_FEEDBACK)):
        before = w.load(f64, w.load(i64, record, of.FEEDBACK_AT))
        w.store(before, record, of.FEEDBACK_AFTER)  # it stays if no token is drawn
    told = w.load(i64, record, of.TOLD)
    with w.when(told < 0):
        w.store(w.whole(of.NOT_DONE), record, of.TOKEN)
        w.give()
    late = late_words(w, record)
    allowed = w.load(i64, late, of.LATE_ALLOWED)
    offset = width * w.load(i64, record, of.ROW) * 4
    base = Var(logits)
    with w.when(allowed.differs(0)):
        masked = scratch + part * of.MASKED
        w.call(_masked(made), logits + offset, width, allowed, masked)
        base.set(masked - offset)
    row = base.now + offset
    always = (
        Changes(w, row, record + 8 * of.CHANGED_IDS, of.SAVED),
        Changes(w, row, late + 8 * of.LATE_CHANGES, of.SAVED_LATE),
    )
    adjustments: dict[int, Changes | Penalties] = {
        of.PENALTIES: Penalties(w, row),
        of.DRY: Changes(w, row, late + 8 * of.LATE_COSTS, of.SAVED_COSTS),
        of.LOGIT_BIAS: Changes(w, row, record + 8 * of.BIASED_IDS, of.SAVED_BIASES),
    }
    for each in always:
        each.apply()
    with w.each(w.whole(of.MOST_EARLY)) as i:
        early = w.load(i64, record, i + of.EARLY)
        for kind, adjustment in adjustments.items():
            with w.when(early.equals(kind)):
                adjustment.apply()
    w.call(draw, record, base.now, width, scratch, part)
    with w.each(w.whole(of.MOST_EARLY)) as i:
        early = w.load(i64, record, w.whole(of.EARLY + of.MOST_EARLY - 1) - i)  # backwards
        for kind, adjustment in adjustments.items():
            with w.when(early.equals(kind)):
                adjustment.undo()
    for each in reversed(always):
        each.undo()
    w.give()


def late_words(w: Writer, record: Num) -> Num:
    """Where the words are that the draw was told; zeros if it waits for nothing."""
    told = w.load(i64, record, of.TOLD)
    return told.differs(0).pick(told, record + 8 * of.NOTHING)


def _masked(made: ir.Module) -> Any:
    """(row, count, bits, out): the row, less infinity where the bit of a token is 0."""
    w = Writer(made, "masked", VOID, *(i64, i64, i64, i64))
    b, (row, count, bits, out) = w.b, w.args
    lanes = ir.VectorType(ir.IntType(1), LANES)
    with w.each(count / LANES) as i:
        which = b.bitcast(load(b, (bits + i * (LANES // 8)).value, i16, 1), lanes)
        added = b.select(which, floats(0.0), floats(float("-inf")))
        part = load(b, (row + i * (4 * LANES)).value)
        store(b, b.fadd(part, added), (out + i * (4 * LANES)).value)
    first = count / LANES * LANES
    with w.each(count - first) as i:
        place = first + i
        byte = Num(b, b.zext(load(b, (bits + place / 8).value, i8, 1), i64))
        bit = Num(b, b.lshr(byte.value, (place & 7).value)) & 1
        added = bit.differs(0).pick(w.real(0.0), float("-inf"))
        w.store(w.load(f32, row, place) + added, out, place)
    w.give()
    return w.function


class Changes:
    """Biases, and bans, which are biases of -inf."""

    def __init__(self, w: Writer, row: Num, words: Num, saved: Operand) -> None:
        """`words`: addresses of ids and floats, and how many; `saved`: part of the scratch for what was there."""
        _, _, _, scratch, part = w.args
        self._w, self._row, self._saved = w, row, scratch + part * saved
        self._ids, self._added, self._count = (w.load(i64, words, i) for i in range(3))

    def apply(self) -> None:
        w = self._w
        with w.each(self._count) as i:
            token = w.load(i64, self._ids, i)
            before = w.load(f32, self._row, token)
            w.store(before, self._saved, i)
            w.store(before + w.load(f32, self._added, i), self._row, token)

    def undo(self) -> None:
        w = self._w
        with w.each(self._count) as i:
            last = self._count - 1 - i  # backwards, so that an id that came twice is restored too
            w.store(w.load(f32, self._saved, last), self._row, w.load(i64, self._ids, last))


class Penalties:
    """Tokens that occurred are gathered, each once. Counts lie where their tokens do in a row."""

    def __init__(self, w: Writer, row: Num) -> None:
        record, _, width, scratch, part = w.args
        self._w, self._row, self._width = w, row, width
        self._counts, self._nowhere = scratch + part * of.COUNTS, scratch + part * of.VALUES
        self._ids, self._saved = scratch + part * of.REPEATED, scratch + part * of.UNPENALISED
        self._seen, self._last = w.load(i64, record, of.SEEN), w.load(i64, record, of.LAST)
        self._num_seen = w.load(i64, record, of.NUM_SEEN)
        self._num_all = self._num_seen + self._last.differs(0).pick(w.whole(1), 0)
        self._num_uncounted = w.load(i64, record, of.NUM_UNCOUNTED)
        self._factors = [w.load(f32, record + 8 * of.FACTORS, i) for i in range(3)]
        self._repetition_last = w.load(i32, record + 8 * of.FACTORS, 3).differs(0)
        self._size = Var(w.whole(0))  # how many ids there are

    def apply(self) -> None:
        self._gather()
        w = self._w
        repetition, presence, frequency = self._factors
        with w.each(self._size.now) as i:
            token = w.load(i32, self._ids, i)
            logit, count = w.load(f32, self._row, token), w.load(f32, self._counts, token)
            w.store(logit, self._saved, i)
            taken, is_counted = count * frequency + presence, count > 0.0
            less = (is_counted & self._repetition_last).pick(logit - taken, logit)
            repeated = (less > 0.0).pick(less / repetition, less * repetition)
            is_left = is_counted & self._repetition_last.equals(0)
            w.store(is_left.pick(repeated - taken, repeated), self._row, token)

    def _gather(self) -> None:
        """A token that is not to be counted gets the count -1 if it has none."""
        w = self._w
        with self._each_seen(w.whole(0), self._num_all) as token:
            w.store(w.real(0.0), self._counts, token)
        with self._each_seen(self._num_uncounted, self._num_all) as token:
            before = w.load(f32, self._counts, token)
            self._take(token, before.equals(0.0))
            w.store(before + 1.0, self._counts, token)
        with self._each_seen(w.whole(0), self._num_uncounted) as token:
            before = w.load(f32, self._counts, token)
            self._take(token, before.equals(0.0))
            w.store(before.equals(0.0).pick(w.real(-1.0), before), self._counts, token)

    def undo(self) -> None:
        w = self._w
        with w.each(self._size.now) as i:
            w.store(w.load(f32, self._saved, i), self._row, w.load(i32, self._ids, i))

    def _take(self, token: Num, is_new: Num) -> None:
        """Append a token that is new. Without a branch: which one is cannot be foreseen."""
        place = is_new.pick(self._ids + self._size.now * 4, self._nowhere)
        self._w.store(token, place, 0, i32)
        self._size.set(self._size.now + is_new.pick(self._w.whole(1), 0))

    @contextmanager
    def _each_seen(self, first: Num, end: Num) -> Iterator[Num]:
        """Tokens that occurred, in order. What is no token of the model is left out: it has no logit."""
        w = self._w
        with w.each(end - first) as i:
            place = first + i
            is_known = place < self._num_seen
            found = w.load(i64, is_known.pick(self._seen + place * 8, self._last))
            token = (is_known | (found >= 0)).pick(found, 0)
            with w.when((token >= 0) & (token < self._width)):
                yield token
