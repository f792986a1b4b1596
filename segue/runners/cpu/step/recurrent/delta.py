"""Gated delta nets: a head's state is a matrix S of keys by values; each row reads it, and corrects what its key gives.

    S' = g S + k (x) d,   d = beta (v - g S k),   out = S' q = g S q + (k q) d

S k and S q are read in one pass, in which S takes the change (k, d, g) of the row before. So a state is S before the
last row, and then that row's change. Columns of values do not depend on each other: 32 of them stay in the
first-level cache while the rows of a span go by. Each sum runs over the keys in order.

After rows that may be given back, drafts, S is that before the first of them: it stays as it is while they are computed
aside, and their changes follow it.

A head's state in memory: S as [value / 32][key][value % 32], and changes: k, d, g.
"""

import math
from typing import Any, NamedTuple

import numpy as np

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
from segue.runners.cpu.step.activations import activate
from segue.runners.cpu.step.atomics import fetch_add, put_real, real, word
from segue.runners.cpu.step.lanes import clear, copy, dot, norm, quantise, scale
from segue.runners.cpu.step.pieces import finish
from segue.runners.cpu.step.recurrent.decay import decay, sigmoid_of
from segue.runners.cpu.step.recurrent.scratch import (
    BETA,
    CHUNK,
    COLUMNS,
    DECAY,
    MOST_PREPARED,
    NUMBERS,
    OVERLAP,
)

_VECTORS = COLUMNS // LANES
_SHIFT = 3
_KEYS = 1 << _SHIFT  # that a turn of the loop reads

# Words of an instruction.
(
    INPUT,  # address of the convolution's output f32 [rows][queries, keys, values], and bytes per row
    INPUT_ROW,
    HEADS,
    KEY_HEADS,
    SIZE,
    SIDE_BY_SIDE,  # so many heads share a key before the next key's begin
    GATES,  # address of the gates of outputs in row 0, and bytes per row; BETAS and ALPHAS have as many
    GATES_ROW,
    BETAS,
    ALPHAS,
    GROUP,  # so many heads' betas, and alphas, are side by side
    GROUP_BYTES,  # from one group to the next
    TIME_BIAS,  # address of one float per head, added to alpha
    FADING,  # address of one float per head, at most 0
    NORM,  # address of the weights of the output's norm
    EPSILON,
    SCALE,  # of queries
    STATE,  # where the heads' states begin in a slot's state
    HEAD_BYTES,  # of a head's state
) = range(1, 20)


class _Columns(NamedTuple):
    """32 columns of S."""

    b: Builder
    source: Value  # where they are
    to: Value  # where they are written, if they take a change
    size: Value
    offset: Value  # of their values in a row

    def behind(self, address: Value, parts: int) -> Value:
        """The address behind so many rows of keys or values."""
        return at(self.b, address, self.size, 4 * parts)

    def sums(self, change: Value | None, rows: list[Value]) -> list[list[Value]]:
        """Of the columns times each of `rows`, keys or queries, after a change that they take."""
        b, sums = self.b, [[cell(self.b, floats(0.0)) for _ in range(_VECTORS)] for _ in rows]
        if change is not None:
            fade = splat(b, load(b, self.behind(change, 2), f32))
            values = b.add(self.behind(change, 1), self.offset)
            changes = [load(b, ahead(b, values, 64 * v)) for v in range(_VECTORS)]
        with loop(b, b.lshr(self.size, number(_SHIFT))) as each:
            place, to = (
                at(b, start, each.index, 4 * COLUMNS * _KEYS) for start in (self.source, self.to)
            )
            places = [at(b, row, each.index, 4 * _KEYS) for row in rows]
            if change is not None:
                key = at(b, change, each.index, 4 * _KEYS)
            added = [[b.load(total) for total in own] for own in sums]
            for i in range(_KEYS):
                factors = [splat(b, load(b, ahead(b, row, 4 * i), f32)) for row in places]
                if change is not None:
                    before = splat(b, load(b, ahead(b, key, 4 * i), f32))
                for v in range(_VECTORS):
                    own_bytes = 4 * (COLUMNS * i + LANES * v)
                    value = load(b, ahead(b, place, own_bytes))
                    if change is not None:
                        value = fma(b, before, changes[v], b.fmul(value, fade))
                        store(b, value, ahead(b, to, own_bytes))
                    for own, factor in zip(added, factors, strict=True):
                        own[v] = fma(b, value, factor, own[v])
            for totals, found in zip(sums, added, strict=True):
                for total, value in zip(totals, found, strict=True):
                    b.store(value, total)
        return [[b.load(total) for total in own] for own in sums]

    def answer(self, change: Value | None, record: Value, value: Value, out: Value) -> None:
        """d, which goes to `record`, and the output of a row, from S k and S q."""
        b = self.b
        of_key, of_query = self.sums(change, [self.behind(record, 1), record])
        own, numbers = b.add(self.behind(record, 2), self.offset), self.behind(record, 3)
        fade, beta, overlap = (
            splat(b, load(b, ahead(b, numbers, 4 * which), f32)) for which in (DECAY, BETA, OVERLAP)
        )
        for v in range(_VECTORS):
            wanted = load(b, ahead(b, value, 64 * v))
            d = b.fmul(b.fsub(wanted, b.fmul(of_key[v], fade)), beta)
            store(b, d, ahead(b, own, 64 * v))
            store(b, fma(b, d, overlap, b.fmul(of_query[v], fade)), ahead(b, out, 64 * v))


@define(VOID, *[INT] * 5)
def _change(b: Builder, change: Value, *columns: Value) -> None:
    """Let columns take a change. `columns`: the values of _Columns."""
    _Columns(b, *columns).sums(change, [])


@define(VOID, *[INT] * 7)
def _read(b: Builder, record: Value, value: Value, out: Value, *columns: Value) -> None:
    """A row of columns whose S has no change pending."""
    _Columns(b, *columns).answer(None, record, value, out)


@define(VOID, *[INT] * 8)
def _change_and_read(
    b: Builder, change: Value, record: Value, value: Value, out: Value, *columns: Value
) -> None:
    """The same of columns that take the change of the row before."""
    _Columns(b, *columns).answer(change, record, value, out)


@compiled
def _unit(x: Any, out: Any, count: Any, epsilon: Any, factor: Any) -> None:
    """out = x / its length * factor"""
    length = np.float32(math.sqrt(dot(x, x, count)))
    if length < epsilon:
        length = epsilon
    scale(factor / length, x, out, count)


@compiled
def _prepare(row: Any, m: Any, head: Any, record: Any) -> None:
    """Write what row `m` has for a head to `record`: query, key, room for its change, and the numbers of scratch.py."""
    size, key_heads = word(row + 8 * SIZE), word(row + 8 * KEY_HEADS)
    x = word(row + 8 * INPUT) + m * word(row + 8 * INPUT_ROW)
    x += head // word(row + 8 * SIDE_BY_SIDE) % key_heads * size * 4
    key, numbers = record + size * 4, record + size * 12
    epsilon = real(row + 8 * EPSILON)
    _unit(x, record, size, epsilon, real(row + 8 * SCALE))
    _unit(x + key_heads * size * 4, key, size, epsilon, np.float32(1))
    group = word(row + 8 * GROUP)
    place = m * word(row + 8 * GATES_ROW)
    place += head // group * word(row + 8 * GROUP_BYTES) + head % group * 4
    alpha = real(word(row + 8 * ALPHAS) + place) + real(word(row + 8 * TIME_BIAS) + 4 * head)
    put_real(numbers + 4 * DECAY, decay(real(word(row + 8 * FADING) + 4 * head), alpha))
    put_real(numbers + 4 * BETA, sigmoid_of(real(word(row + 8 * BETAS) + place)))
    put_real(numbers + 4 * OVERLAP, dot(record, key, size))


@compiled
def _finish(board: Any, row: Any, m: Any, head: Any) -> None:
    """Norm, gate and round a head's output of row `m`."""
    size, heads = word(row + 8 * SIZE), word(row + 8 * HEADS)
    columns = size * heads
    x = word(board + 8 * on.HEADS_FLOATS) + (m * columns + head * size) * 4
    gate = word(row + 8 * GATES) + m * word(row + 8 * GATES_ROW) + head * size * 4
    norm(on.RMS_NORM, x, word(row + 8 * NORM), 0, real(row + 8 * EPSILON), x, size)
    activate(on.SILU, 1, gate, x, x, size)
    quantise(
        x,
        word(board + 8 * on.HEADS_BYTES) + m * columns + head * size,
        word(board + 8 * on.HEADS_SCALES) + (m * columns + head * size) // 32 * 16,
        size // 32,
    )


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
    bytes_each, columns = 4 * (3 * size + NUMBERS), size * word(row + 8 * HEADS)
    changes, bytes_kept = state + 4 * size * size, 4 * (2 * size + NUMBERS)
    values = word(row + 8 * INPUT) + (2 * word(row + 8 * KEY_HEADS) + head) * size * 4
    outs = word(board + 8 * on.HEADS_FLOATS) + head * size * 4
    aside = records + MOST_PREPARED * bytes_each
    for offset in range(0, 4 * size, 4 * COLUMNS):
        block = state + size * offset
        source = block
        for i in range(pending - 1):
            to = block if i < taken else aside
            _change(changes + i * bytes_kept, source, to, size, offset)
            source = to
        for i in range(many):
            record = records + i * bytes_each
            value = values + (m + i) * word(row + 8 * INPUT_ROW) + offset
            out = outs + (m + i) * columns * 4 + offset
            if pending + i == 0:
                _read(record, value, out, source, source, size, offset)
                continue
            before = record - bytes_each + 4 * size if i else changes + (pending - 1) * bytes_kept
            to = block if pending + i - 1 < taken else aside
            _change_and_read(before, record, value, out, source, to, size, offset)
            source = to
    for i in range(taken, pending):
        copy(changes + i * bytes_kept, changes + (i - taken) * bytes_kept, 2 * size + NUMBERS)
    for i in range(max(taken - pending, 0), many):
        newest = records + i * bytes_each + 4 * size
        copy(newest, changes + (pending + i - taken) * bytes_kept, 2 * size + NUMBERS)


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
    size = word(row + 8 * SIZE)
    records = word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES)
    for i in range(many):
        _prepare(row, m + i, head, records + i * 4 * (3 * size + NUMBERS))
    _advance(board, row, head, m, many, state, records, pending, taken)
    for i in range(many):
        _finish(board, row, m + i, head)


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
def delta_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    heads = word(row + 8 * HEADS)
    count = heads * word(board + 8 * on.NUM_SPANS)
    done, i = 0, fetch_add(counter, 1)
    while i < count:
        done += 1
        span = word(board + 8 * on.SPANS) + i // heads * on.SPAN_WORDS * 8
        _compute(board, row, span, i % heads, tid)
        i = fetch_add(counter, 1)
    finish(board, counter, done, count)
