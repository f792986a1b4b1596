"""RWKV's time mix: a head's state is a matrix S of keys by values; each key fades by a factor of the row's own.

    S' = w S + k (x) v + b (x) d,   d = -u S,   out = r S' = (w r) S + (k r) v + (b r) d

u is the key that the row corrects, of length 1, and b = a u. u S and (w r) S are read in one pass, in which S takes the
change (w, k, b, v, d) of the row before. So a state is S before the last row, and then that row's change. Columns of
values do not depend on each other: 32 of them stay in the first-level cache while the rows of a span go by. Each sum
runs over the keys in order.

After rows that may be given back, drafts, S is that before the first of them: it stays as it is while they are computed
aside, and their changes follow it.

A head's state in memory: S as [value / 32][key][value % 32], and changes.
"""

from typing import Any, NamedTuple

from segue.runners.cpu.emit import (
    LANES,
    Builder,
    Value,
    ahead,
    at,
    cell,
    f32,
    floats,
    fma,
    load,
    loop,
    number,
    splat,
    store,
)
from segue.runners.cpu.kernel import INT, VOID, compiled, define
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import fetch_add, word
from segue.runners.cpu.step.lanes import clear, copy
from segue.runners.cpu.step.pieces import finish
from segue.runners.cpu.step.recurrent.scratch import (
    CHUNK,
    COLUMNS,
    CORRECTIONS,
    FADES,
    KEYS,
    MOST_PREPARED,
    NUMBERS,
    OF_CORRECTIONS,
    OF_VALUES,
    RATES,
    READ,
    TAKEN,
    VALUES,
    WKV_PARTS,
)
from segue.runners.cpu.step.recurrent.wkv_rows import (
    HEAD_BYTES,
    HEADS,
    SIZE,
    STATE,
    expect_row,
    finish_row,
    prefetch,
    prepare_row,
)

_VECTORS = COLUMNS // LANES
_SHIFT = 3
_KEYS = 1 << _SHIFT  # that a turn of the loop reads
_CHANGED = WKV_PARTS - FADES  # parts of a change


class _Columns(NamedTuple):
    """32 columns of S."""

    b: Builder
    source: Value  # where they are
    to: Value  # where they are written, if they take a change
    size: Value
    offset: Value  # of their values in a row

    def part(self, address: Value, which: int) -> Value:
        """The address of a part of a prepared row or change."""
        return at(self.b, address, self.size, 4 * which)

    def values(self, address: Value, which: int) -> list[Value]:
        """Of these columns."""
        place = self.b.add(self.part(address, which), self.offset)
        return [load(self.b, ahead(self.b, place, 64 * v)) for v in range(_VECTORS)]

    def sums(self, change: Value | None, rows: list[Value]) -> list[list[Value]]:
        """Of each of `rows`, which have a number for each key, times the columns, after a change that they take."""
        b, sums = self.b, [[cell(self.b, floats(0.0)) for _ in range(_VECTORS)] for _ in rows]
        parts: list[Value] = []
        if change is not None:
            values, corrections = (
                self.values(change, which - FADES) for which in (VALUES, CORRECTIONS)
            )
            parts = [self.part(change, which - FADES) for which in (FADES, KEYS, RATES)]
        with loop(b, b.lshr(self.size, number(_SHIFT))) as each:
            place, to = (
                at(b, start, each.index, 4 * COLUMNS * _KEYS) for start in (self.source, self.to)
            )
            places, own_parts = (
                [at(b, row, each.index, 4 * _KEYS) for row in some] for some in (rows, parts)
            )
            added = [[b.load(total) for total in own] for own in sums]
            for i in range(_KEYS):
                factors, changes = (
                    [splat(b, load(b, ahead(b, row, 4 * i), f32)) for row in some]
                    for some in (places, own_parts)
                )
                for v in range(_VECTORS):
                    own_bytes = 4 * (COLUMNS * i + LANES * v)
                    value = load(b, ahead(b, place, own_bytes))
                    if change is not None:
                        fade, key, rate = changes
                        value = fma(b, key, values[v], b.fmul(value, fade))
                        value = fma(b, rate, corrections[v], value)
                        store(b, value, ahead(b, to, own_bytes))
                    for own, factor in zip(added, factors, strict=True):
                        own[v] = fma(b, value, factor, own[v])
            for totals, found in zip(sums, added, strict=True):
                for total, value in zip(totals, found, strict=True):
                    b.store(value, total)
        return [[b.load(total) for total in own] for own in sums]

    def answer(self, change: Value | None, record: Value, out: Value) -> None:
        """d, which goes to `record`, and the output of a row."""
        b = self.b
        taken, read = self.sums(change, [self.part(record, TAKEN), self.part(record, READ)])
        place, numbers = (
            b.add(self.part(record, CORRECTIONS), self.offset),
            self.part(record, WKV_PARTS),
        )
        of_values, of_corrections = (
            splat(b, load(b, ahead(b, numbers, 4 * which), f32))
            for which in (OF_VALUES, OF_CORRECTIONS)
        )
        for v, value in enumerate(self.values(record, VALUES)):
            store(b, taken[v], ahead(b, place, 64 * v))
            given = fma(b, taken[v], of_corrections, fma(b, value, of_values, read[v]))
            store(b, given, ahead(b, out, 64 * v))


@define(VOID, *[INT] * 5)
def _change(b: Builder, change: Value, *columns: Value) -> None:
    """Let columns take a change. `columns`: the values of _Columns."""
    _Columns(b, *columns).sums(change, [])


@define(VOID, *[INT] * 6)
def _read(b: Builder, record: Value, out: Value, *columns: Value) -> None:
    """A row of columns whose S has no change pending."""
    _Columns(b, *columns).answer(None, record, out)


@define(VOID, *[INT] * 7)
def _change_and_read(b: Builder, change: Value, record: Value, out: Value, *columns: Value) -> None:
    """The same of columns that take the change of the row before."""
    _Columns(b, *columns).answer(change, record, out)


# --- rows of a span ---


@compiled
def _advance(
    board: Any,
    row: Any,
    head: Any,
    m: Any,
    many: Any,
    state: Any,
    records: Any,
    pending: Any,
    taken: Any,
) -> None:
    """`many` rows from `m` on, prepared in `records`, after the changes of `pending` rows before.

    The state takes the first `taken` of all these changes. What follows is computed aside; its changes stay pending.
    """
    size = word(row + 8 * SIZE)
    bytes_each, columns = 4 * (WKV_PARTS * size + NUMBERS), size * word(row + 8 * HEADS)
    changes, bytes_kept = state + 4 * size * size, 4 * _CHANGED * size
    outs = word(board + 8 * on.HEADS_FLOATS) + head * size * 4
    aside, own = records + MOST_PREPARED * bytes_each, 4 * FADES * size
    for offset in range(0, 4 * size, 4 * COLUMNS):
        block = state + size * offset
        source = block
        for i in range(pending - 1):
            to = block if i < taken else aside
            _change(changes + i * bytes_kept, source, to, size, offset)
            source = to
        for i in range(many):
            record = records + i * bytes_each
            out = outs + (m + i) * columns * 4 + offset
            if offset == 0 and many == CHUNK:  # more of a prompt may follow
                expect_row(row, m + i + CHUNK, head)
                prefetch(out + CHUNK * columns * 4, size)
            if pending + i == 0:
                _read(record, out, source, source, size, offset)
                continue
            before = record - bytes_each + own if i else changes + (pending - 1) * bytes_kept
            to = block if pending + i - 1 < taken else aside
            _change_and_read(before, record, out, source, to, size, offset)
            source = to
    for i in range(taken, pending):
        copy(changes + i * bytes_kept, changes + (i - taken) * bytes_kept, _CHANGED * size)
    for i in range(max(taken - pending, 0), many):
        newest = records + i * bytes_each + own
        copy(newest, changes + (pending + i - taken) * bytes_kept, _CHANGED * size)


@compiled
def _compute_some(
    board: Any,
    row: Any,
    head: Any,
    m: Any,
    many: Any,
    state: Any,
    tid: Any,
    pending: Any,
    taken: Any,
) -> None:
    """A head's outputs for so many rows as are prepared together."""
    bytes_each = 4 * (WKV_PARTS * word(row + 8 * SIZE) + NUMBERS)
    records = word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES)
    for i in range(many):
        prepare_row(row, m + i, head, records + i * bytes_each)
    _advance(board, row, head, m, many, state, records, pending, taken)
    for i in range(many):
        finish_row(board, row, m + i, head, records + i * bytes_each)


@compiled
def _compute(board: Any, row: Any, span: Any, head: Any, tid: Any) -> None:
    """A head's outputs for all rows of a span."""
    size = word(row + 8 * SIZE)
    start, rows = word(span + 8 * on.SPAN_FIRST), word(span + 8 * on.SPAN_ROWS)
    pending, left = word(span + 8 * on.SPAN_PENDING), word(span + 8 * on.SPAN_LEFT)
    state = word(span + 8 * on.SPAN_STATE) + word(row + 8 * STATE)
    state += head * word(row + 8 * HEAD_BYTES)
    if pending == on.FRESH:
        pending = 0
        clear(state, size * size)
    # Rows whose changes stay pending beside others are computed together: aside there is room for some columns only.
    end = rows if left == 1 else max(rows - left, 0)
    for first in range(0, end, CHUNK):
        many = min(CHUNK, end - first)
        _compute_some(
            board, row, head, start + first, many, state, tid, pending, pending + many - 1
        )
        pending = 1
    if end < rows:
        many = rows - end
        taken = pending + many - left
        _compute_some(board, row, head, start + end, many, state, tid, pending, taken)


@compiled
def wkv_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    heads = word(row + 8 * HEADS)
    count = heads * word(board + 8 * on.NUM_SPANS)
    done, i = 0, fetch_add(counter, 1)
    while i < count:
        done += 1
        span = word(board + 8 * on.SPANS) + i // heads * on.SPAN_WORDS * 8
        _compute(board, row, span, i % heads, tid)
        i = fetch_add(counter, 1)
    finish(board, counter, done, count)
