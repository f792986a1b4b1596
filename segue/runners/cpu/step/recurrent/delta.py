"""Gated delta nets: a head's state is a matrix S of keys by values; each row reads it, and corrects what its key gives.

    S' = g S + k (x) d,   d = beta (v - g S k),   out = S' q = g S q + (k q) d

S k and S q are read in one pass, in which S takes the change (g, k, d) of the row before. So a state is S before the
last row, and then that row's k, d and g. Columns of values do not depend on each other: 32 of them stay in the
first-level cache while the rows of a span go by. Each sum runs over the keys in order.

A head's state in memory: S as [value / 32][key][value % 32], k, d, g.
"""

import math
from typing import Any

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
from segue.runners.cpu.kernel import FLOAT, INT, VOID, compiled, define
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.activations import activate
from segue.runners.cpu.step.atomics import fetch_add, put_real, real, word
from segue.runners.cpu.step.lanes import clear, copy, dot, norm, quantise, scale
from segue.runners.cpu.step.pieces import finish
from segue.runners.cpu.step.recurrent.decay import decay, sigmoid_of
from segue.runners.cpu.step.recurrent.scratch import BETA, CHUNK, DECAY, NUMBERS, OVERLAP

_COLUMNS = 32  # values that are computed together
_VECTORS = _COLUMNS // LANES
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


def _pass(
    b: Builder,
    columns: Value,
    size: Value,
    change: tuple[Value, Value, Value] | None,
    key: Value,
    query: Value,
) -> tuple[list[Value], list[Value]]:
    """S k and S q of 32 columns. `change`: the g, k and d that S takes first."""
    sums = [cell(b, floats(0.0)) for _ in range(2 * _VECTORS)]
    if change is not None:
        fade = splat(b, change[0])
        changes = [load(b, ahead(b, change[2], 64 * v)) for v in range(_VECTORS)]
    with loop(b, b.lshr(size, number(_SHIFT))) as each:
        place = at(b, columns, each.index, 4 * _COLUMNS * _KEYS)
        rows = [at(b, row, each.index, 4 * _KEYS) for row in (key, query)]
        if change is not None:
            last = at(b, change[1], each.index, 4 * _KEYS)
        added = [b.load(total) for total in sums]
        for i in range(_KEYS):
            factors = [splat(b, load(b, ahead(b, row, 4 * i), f32)) for row in rows]
            if change is not None:
                before = splat(b, load(b, ahead(b, last, 4 * i), f32))
            for v in range(_VECTORS):
                own = ahead(b, place, 4 * (_COLUMNS * i + LANES * v))
                value = load(b, own)
                if change is not None:
                    value = fma(b, before, changes[v], b.fmul(value, fade))
                    store(b, value, own)
                for which, factor in enumerate(factors):
                    at_sum = _VECTORS * which + v
                    added[at_sum] = fma(b, value, factor, added[at_sum])
        for total, value in zip(sums, added, strict=True):
            b.store(value, total)
    found = [b.load(total) for total in sums]
    return found[:_VECTORS], found[_VECTORS:]


def _answer(
    b: Builder,
    found: tuple[list[Value], list[Value]],
    numbers: Value,
    value: Value,
    change: Value,
    out: Value,
) -> None:
    """d and the output of 32 columns, from S k and S q."""
    of_key, of_query = found
    fade, beta, overlap = (
        splat(b, load(b, ahead(b, numbers, 4 * which), f32)) for which in (DECAY, BETA, OVERLAP)
    )
    for v in range(_VECTORS):
        wanted = load(b, ahead(b, value, 64 * v))
        d = b.fmul(b.fsub(wanted, b.fmul(of_key[v], fade)), beta)
        store(b, d, ahead(b, change, 64 * v))
        store(b, fma(b, d, overlap, b.fmul(of_query[v], fade)), ahead(b, out, 64 * v))


@define(VOID, INT, INT, INT, INT, INT, INT, INT, INT)
def _read(
    b: Builder,
    columns: Value,
    size: Value,
    change: Value,
    query: Value,
    key: Value,
    numbers: Value,
    value: Value,
    out: Value,
) -> None:
    """A row of 32 columns whose S has no change pending. d goes to `change`."""
    found = _pass(b, columns, size, None, key, query)
    _answer(b, found, numbers, value, change, out)


@define(VOID, INT, INT, FLOAT, INT, INT, INT, INT, INT, INT, INT)
def _change_and_read(
    b: Builder,
    columns: Value,
    size: Value,
    fade: Value,
    last: Value,
    change: Value,
    query: Value,
    key: Value,
    numbers: Value,
    value: Value,
    out: Value,
) -> None:
    """The same of columns that take the change of the row before: g is `fade`, k at `last`, d at `change`."""
    found = _pass(b, columns, size, (fade, last, change), key, query)
    _answer(b, found, numbers, value, change, out)


@compiled
def _unit(x: Any, out: Any, count: Any, epsilon: Any, factor: Any) -> None:
    """out = x / its length * factor"""
    length = np.float32(math.sqrt(dot(x, x, count)))
    if length < epsilon:
        length = epsilon
    scale(factor / length, x, out, count)


@compiled
def _prepare(row: Any, m: Any, head: Any, record: Any) -> None:
    """Write what row `m` has for a head to `record`: its query, its key, and the numbers of scratch.py."""
    size, key_heads = word(row + 8 * SIZE), word(row + 8 * KEY_HEADS)
    x = word(row + 8 * INPUT) + m * word(row + 8 * INPUT_ROW)
    x += head // word(row + 8 * SIDE_BY_SIDE) % key_heads * size * 4
    key, numbers = record + size * 4, record + size * 8
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
    board: Any, row: Any, head: Any, m: Any, many: Any, state: Any, records: Any, stands: Any
) -> None:
    """`many` rows from `m` on, prepared in `records`. Leaves the last one's change pending."""
    size = word(row + 8 * SIZE)
    bytes_each, columns = 4 * (2 * size + NUMBERS), size * word(row + 8 * HEADS)
    last, change = state + 4 * size * size, state + 4 * size * (size + 1)
    values = word(row + 8 * INPUT) + (2 * word(row + 8 * KEY_HEADS) + head) * size * 4
    for first in range(0, size, _COLUMNS):
        block, offset = state + 4 * size * first, 4 * first
        for i in range(many):
            record = records + i * bytes_each
            key, numbers = record + 4 * size, record + 8 * size
            value = values + (m + i) * word(row + 8 * INPUT_ROW) + offset
            out = word(board + 8 * on.HEADS_FLOATS)
            out += ((m + i) * columns + head * size) * 4 + offset
            if i == 0 and stands != on.WHOLE:
                _read(block, size, change + offset, record, key, numbers, value, out)
                continue
            fade, before = real(change + 4 * size), last
            if i:
                before = key - bytes_each
                fade = real(before + 4 * size + 4 * DECAY)
            _change_and_read(
                block, size, fade, before, change + offset, record, key, numbers, value, out
            )
    newest = records + (many - 1) * bytes_each + 4 * size
    copy(newest, last, size)
    put_real(change + 4 * size, real(newest + 4 * size + 4 * DECAY))


@compiled
def _compute(board: Any, row: Any, span: Any, head: Any, tid: Any) -> None:
    """A head's outputs for all rows of a span."""
    size = word(row + 8 * SIZE)
    start, rows = word(span + 8 * on.SPAN_FIRST), word(span + 8 * on.SPAN_ROWS)
    stands = word(span + 8 * on.SPAN_STANDS)
    state = word(span + 8 * on.SPAN_STATE) + word(row + 8 * STATE)
    state += head * word(row + 8 * HEAD_BYTES)
    records = word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES)
    if stands == on.FRESH:
        clear(state, size * size)
    for first in range(0, rows, CHUNK):
        many, m = min(CHUNK, rows - first), start + first
        for i in range(many):
            _prepare(row, m + i, head, records + i * 4 * (2 * size + NUMBERS))
        _advance(board, row, head, m, many, state, records, on.WHOLE if first else stands)
        for i in range(many):
            _finish(board, row, m + i, head)


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
