"""Gated delta nets: a head's state is a matrix S of keys by values; each row reads it, and corrects what its key gives.

    S' = g S + k (x) d,   d = beta (v - g S k),   out = S' q = g S q + (k q) d

S k and S q are read in one pass, in which S takes the change (k, d, g) of the row before. So a state is S before the
last row, and then that row's change. Columns of values do not depend on each other: 32 of them stay in the
first-level cache while the rows of a span go by. Each sum runs over the keys in order.

Kimi's keys fade each at a speed of its own: g is a diagonal matrix then. So k and q are multiplied by it before they
meet S, and a change has g for each key.

After rows that may be given back, drafts, S is that before the first of them: it stays as it is while they are computed
aside, and their changes follow it.

A head's state in memory: S as [value / 32][key][value % 32], and changes: k, d, g. A row is prepared as q and its
change, with room for d. If keys fade by themselves, q and k times g come before its change.
"""

import math
from typing import Any

import numpy as np

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.activations import activate, multiply_into
from segue.runners.cpu.step.atomics import fetch_add, put_real, real, word
from segue.runners.cpu.step.lanes import (
    clear,
    copy,
    dot,
    multiply_by_sigmoid,
    norm,
    quantise,
    scale,
)
from segue.runners.cpu.step.pieces import finish
from segue.runners.cpu.step.recurrent.decay import decay, decays, sigmoid_of
from segue.runners.cpu.step.recurrent.delta_columns import (
    change,
    change_and_read,
    change_and_read_keys,
    change_keys,
    read,
    read_keys,
)
from segue.runners.cpu.step.recurrent.scratch import (
    BETA,
    CHUNK,
    COLUMNS,
    DECAY,
    MOST_PREPARED,
    NUMBERS,
    OVERLAP,
)

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
    BY_KEY,  # 1: alphas, and TIME_BIAS, have a number for each key; gates are sigmoids
) = range(1, 21)


@compiled
def _unit(x: Any, out: Any, count: Any, epsilon: Any, factor: Any) -> None:
    """out = x / its length * factor"""
    length = np.float32(math.sqrt(dot(x, x, count)))
    if length < epsilon:
        length = epsilon
    scale(factor / length, x, out, count)


@compiled
def _record_bytes(row: Any) -> Any:
    """Of what a row is prepared as."""
    return 4 * ((3 + 2 * word(row + 8 * BY_KEY)) * word(row + 8 * SIZE) + NUMBERS)


@compiled
def _change_floats(row: Any) -> Any:
    return (2 + word(row + 8 * BY_KEY)) * word(row + 8 * SIZE) + NUMBERS


@compiled
def _change_of(row: Any, record: Any) -> Any:
    """Where a row's change begins: with its key."""
    return record + 4 * (1 + word(row + 8 * BY_KEY)) * word(row + 8 * SIZE)


@compiled
def _fade_keys(row: Any, m: Any, head: Any, record: Any) -> None:
    """Write how fast each key fades to the change of `record`, and query and key times that before it."""
    size = word(row + 8 * SIZE)
    place, key, fades = 4 * head * size, record + 8 * size, record + 16 * size
    alphas = word(row + 8 * ALPHAS) + m * word(row + 8 * GATES_ROW) + place
    rate, bias = real(word(row + 8 * FADING) + 4 * head), word(row + 8 * TIME_BIAS) + place
    decays(rate, alphas, bias, fades, size)
    copy(key, record + 4 * size, size)
    multiply_into(record + 4 * size, fades, size)
    multiply_into(record, fades, size)


@compiled
def _prepare(row: Any, m: Any, head: Any, record: Any) -> None:
    """Write what row `m` has for a head to `record`: query, key, room for its change, and the numbers of scratch.py."""
    size, key_heads = word(row + 8 * SIZE), word(row + 8 * KEY_HEADS)
    x = word(row + 8 * INPUT) + m * word(row + 8 * INPUT_ROW)
    x += head // word(row + 8 * SIDE_BY_SIDE) % key_heads * size * 4
    key, numbers = _change_of(row, record), record + _record_bytes(row) - 4 * NUMBERS
    epsilon = real(row + 8 * EPSILON)
    _unit(x, record, size, epsilon, real(row + 8 * SCALE))
    _unit(x + key_heads * size * 4, key, size, epsilon, np.float32(1))
    group = word(row + 8 * GROUP)
    place = m * word(row + 8 * GATES_ROW)
    place += head // group * word(row + 8 * GROUP_BYTES) + head % group * 4
    put_real(numbers + 4 * BETA, sigmoid_of(real(word(row + 8 * BETAS) + place)))
    put_real(numbers + 4 * OVERLAP, dot(record, key, size))
    if word(row + 8 * BY_KEY):
        _fade_keys(row, m, head, record)
        return
    alpha = real(word(row + 8 * ALPHAS) + place) + real(word(row + 8 * TIME_BIAS) + 4 * head)
    put_real(numbers + 4 * DECAY, decay(real(word(row + 8 * FADING) + 4 * head), alpha))


@compiled
def _finish(board: Any, row: Any, m: Any, head: Any) -> None:
    """Norm, gate and round a head's output of row `m`."""
    size, heads = word(row + 8 * SIZE), word(row + 8 * HEADS)
    columns = size * heads
    x = word(board + 8 * on.HEADS_FLOATS) + (m * columns + head * size) * 4
    gate = word(row + 8 * GATES) + m * word(row + 8 * GATES_ROW) + head * size * 4
    norm(on.RMS_NORM, x, word(row + 8 * NORM), 0, real(row + 8 * EPSILON), x, size)
    if word(row + 8 * BY_KEY):
        multiply_by_sigmoid(x, gate, size)
    else:
        activate(on.SILU, 1, gate, x, x, size)
    quantise(
        x,
        word(board + 8 * on.HEADS_BYTES) + m * columns + head * size,
        word(board + 8 * on.HEADS_SCALES) + (m * columns + head * size) // 32 * 16,
        size // 32,
    )


@compiled
def _take(row: Any, before: Any, source: Any, to: Any, size: Any, offset: Any) -> None:
    """Let columns take a change."""
    if word(row + 8 * BY_KEY):
        change_keys(before, source, to, size, offset)
    else:
        change(before, source, to, size, offset)


@compiled
def _answer(
    row: Any,
    before: Any,
    record: Any,
    value: Any,
    out: Any,
    source: Any,
    to: Any,
    size: Any,
    offset: Any,
) -> None:
    """Columns for a row, after the change of the row before; 0: there is none."""
    if word(row + 8 * BY_KEY):
        if before:
            change_and_read_keys(before, record, value, out, source, to, size, offset)
        else:
            read_keys(record, value, out, source, to, size, offset)
    elif before:
        change_and_read(before, record, value, out, source, to, size, offset)
    else:
        read(record, value, out, source, to, size, offset)


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
    size, kept = word(row + 8 * SIZE), _change_floats(row)
    bytes_each, columns = _record_bytes(row), size * word(row + 8 * HEADS)
    changes, bytes_kept = state + 4 * size * size, 4 * kept
    values = word(row + 8 * INPUT) + (2 * word(row + 8 * KEY_HEADS) + head) * size * 4
    outs = word(board + 8 * on.HEADS_FLOATS) + head * size * 4
    aside = records + MOST_PREPARED * bytes_each
    for offset in range(0, 4 * size, 4 * COLUMNS):
        block = state + size * offset
        source = block
        for i in range(pending - 1):
            to = block if i < taken else aside
            _take(row, changes + i * bytes_kept, source, to, size, offset)
            source = to
        for i in range(many):
            record = records + i * bytes_each
            value = values + (m + i) * word(row + 8 * INPUT_ROW) + offset
            out = outs + (m + i) * columns * 4 + offset
            if pending + i == 0:
                _answer(row, 0, record, value, out, source, source, size, offset)
                continue
            before = changes + (pending - 1) * bytes_kept
            if i:
                before = _change_of(row, record - bytes_each)
            to = block if pending + i - 1 < taken else aside
            _answer(row, before, record, value, out, source, to, size, offset)
            source = to
    for i in range(taken, pending):
        copy(changes + i * bytes_kept, changes + (i - taken) * bytes_kept, kept)
    for i in range(max(taken - pending, 0), many):
        newest = _change_of(row, records + i * bytes_each)
        copy(newest, changes + (pending + i - taken) * bytes_kept, kept)


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
    records = word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES)
    for i in range(many):
        _prepare(row, m + i, head, records + i * _record_bytes(row))
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
