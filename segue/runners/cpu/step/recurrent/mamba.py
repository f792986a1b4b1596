"""Phases of Mamba 2: each head's state fades by a factor of its own, takes what a token brings, and is read.

A head of `size` columns has a state of [size / 16][states][16] floats. For each token it is multiplied by the decay,
e^(dt A), and gets B of the token times its columns times dt; the output is the sum of it times C, and D times the
columns. Each output is summed in the order of the states, by one lane. So a row's bits are the same however its span is
cut.

A slot keeps the state as it was before its last row, and beside it what that row brings: see slots/states.py.
"""

from typing import Any

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
from segue.runners.cpu.step.attention.tiles import is_wide
from segue.runners.cpu.step.halves import lane
from segue.runners.cpu.step.lanes import exp, norm, quantise, scale
from segue.runners.cpu.step.pieces import finish
from segue.runners.cpu.step.recurrent.decay import softplus
from segue.runners.cpu.step.recurrent.scratch import STEP_BYTES

# States of 16 columns that stay in registers while rows go by: as many as there are registers for.
_STATES_AT_ONCE = 8 if is_wide else 4
_CHUNK = 32  # rows of a span that are computed together: what is read of them stays in the first-level cache

# Words of SCAN.
(
    MIXED,  # f32 [rows][columns, then B of each group, then C of each group]: the output of the convolution
    MIXED_ROW,  # bytes
    TIMES,  # address of the first row's dt, one for each head
    TIMES_ROW,
    HEADS,
    SIZE,  # columns of a head
    STATES,
    GROUPS,  # of heads that share B and C
    PLACE,  # bytes from a slot's state to that of this layer's first head
    HEAD_BYTES,  # from one head's to the next: its state, what is brought, by B, and then decays
    TIME_BIAS,  # one float per head, as the next two
    A,
    D,
) = range(1, 14)
# Words of MAMBA_GATE. GATE: address of the first row's gate; WEIGHTS: of the norm of each group of columns, or 0.
GATE, GATE_ROW, COLUMNS, GATE_GROUPS, WEIGHTS, EPSILON = range(1, 7)


@define(FLOAT, FLOAT)
def _softplus_of(b: Builder, x: Value) -> Value:
    return lane(b, softplus(b, splat(b, x)), 0)


@define(FLOAT, FLOAT)
def _exp_of(b: Builder, x: Value) -> Value:
    return lane(b, exp(b, splat(b, x)), 0)


def _float_at(b: Builder, address: Value, index: int = 0) -> Value:
    """One float, in every lane."""
    return splat(b, load(b, ahead(b, address, 4 * index), f32))


def _taken(b: Builder, held: Value, decay: Value, by: Value, brought: Value) -> Value:
    """The state after a row."""
    return fma(b, by, brought, b.fmul(held, decay))


@define(VOID, *[INT] * 14)
def _scan_some(
    b: Builder,
    x: Value,
    first_b: Value,
    first_c: Value,
    row_bytes: Value,
    steps: Value,
    rows: Value,
    taken: Value,
    stands: Value,
    state: Value,
    pending: Value,
    pending_b: Value,
    decay: Value,
    out: Value,
    out_row: Value,
) -> None:
    """Pass some states of 16 columns through rows of a span, and add what they give to `out`.

    `taken`: how many rows the states take, all or all but the last. `first_b` and `first_c` are the addresses of their
    B and C in the first row. `pending`, `pending_b` and `decay`: of what the row before has left to be brought.
    `stands`: how the slot's state stands.
    """
    is_fresh, is_whole = (
        b.icmp_signed("==", stands, number(kind)) for kind in (on.FRESH, on.WHOLE)
    )
    left, fading = load(b, pending), _float_at(b, decay)
    places = [ahead(b, state, 4 * LANES * i) for i in range(_STATES_AT_ONCE)]
    states = []
    for i, place in enumerate(places):
        held = b.select(is_fresh, floats(0.0), load(b, place))
        after = _taken(b, held, fading, _float_at(b, pending_b, i), left)
        states.append(cell(b, b.select(is_whole, after, held)))

    def pass_row(index: Value) -> list[Value]:
        """Add to the output of a row. Gives the states after it."""
        offset, step = b.mul(index, row_bytes), at(b, steps, index, STEP_BYTES)
        brought = b.fmul(load(b, b.add(x, offset)), _float_at(b, step))
        place = b.add(out, b.mul(index, out_row))
        total, found = load(b, place), []
        for i, held in enumerate(states):
            by, read = (_float_at(b, b.add(first, offset), i) for first in (first_b, first_c))
            found.append(_taken(b, b.load(held), _float_at(b, step, 1), by, brought))
            total = fma(b, found[-1], read, total)
        store(b, total, place)
        return found

    with loop(b, taken) as each:
        for held, after in zip(states, pass_row(each.index), strict=True):
            b.store(after, held)
    with loop(b, b.sub(rows, taken)):
        pass_row(taken)
    for held, place in zip(states, places, strict=True):
        store(b, b.load(held), place)


@compiled
def _take_steps(row: Any, first: Any, rows: Any, head: Any, steps: Any) -> None:
    """Write dt and decay of each row of a span to `steps`."""
    bias, rate = real(word(row + 8 * TIME_BIAS) + 4 * head), real(word(row + 8 * A) + 4 * head)
    for m in range(rows):
        place = word(row + 8 * TIMES) + (first + m) * word(row + 8 * TIMES_ROW) + 4 * head
        time = _softplus_of(real(place) + bias)
        put_real(steps + STEP_BYTES * m, time)
        put_real(steps + STEP_BYTES * m + 4, _exp_of(time * rate))


@compiled
def _scan_head(board: Any, row: Any, span: Any, head: Any, tid: Any) -> None:
    """Pass a head's state through the rows of a span; what the last one brings is left to the next step."""
    first, rows = word(span + 8 * on.SPAN_FIRST), word(span + 8 * on.SPAN_ROWS)
    stands = word(span + 8 * on.SPAN_STANDS)
    heads, size, states = word(row + 8 * HEADS), word(row + 8 * SIZE), word(row + 8 * STATES)
    groups, mixed_row = word(row + 8 * GROUPS), word(row + 8 * MIXED_ROW)
    columns = heads * size
    steps = word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES)
    _take_steps(row, first, rows, head, steps)
    x = word(row + 8 * MIXED) + first * mixed_row
    first_b = x + (columns + head // (heads // groups) * states) * 4
    first_c = first_b + groups * states * 4
    x += head * size * 4
    out = word(board + 8 * on.HEADS_FLOATS) + (first * columns + head * size) * 4
    for m in range(rows):
        scale(real(word(row + 8 * D) + 4 * head), x + m * mixed_row, out + m * columns * 4, size)
    state = word(span + 8 * on.SPAN_STATE) + word(row + 8 * PLACE)
    state += head * word(row + 8 * HEAD_BYTES)
    pending = state + states * size * 4
    pending_b = pending + size * 4
    decay = pending_b + states * 4
    for column in range(0, size, LANES):
        for start in range(0, rows, _CHUNK):
            many, offset = min(_CHUNK, rows - start), start * mixed_row
            for i in range(0, states, _STATES_AT_ONCE):
                _scan_some(
                    x + offset + column * 4,
                    first_b + offset + i * 4,
                    first_c + offset + i * 4,
                    mixed_row,
                    steps + start * STEP_BYTES,
                    many,
                    many if start + many < rows else many - 1,
                    on.TRIMMED if start else stands,
                    state + (column * states + i * LANES) * 4,
                    pending + column * 4,
                    pending_b + i * 4,
                    decay,
                    out + (start * columns + column) * 4,
                    columns * 4,
                )
    last, step = (rows - 1) * mixed_row, steps + (rows - 1) * STEP_BYTES
    scale(real(step), x + last, pending, size)
    for i in range(states):
        put_real(pending_b + 4 * i, real(first_b + last + 4 * i))
    put_real(decay, real(step + 4))


@compiled
def scan_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """Every head of every span."""
    heads = word(row + 8 * HEADS)
    count = heads * word(board + 8 * on.NUM_SPANS)
    done, i = 0, fetch_add(counter, 1)
    while i < count:
        done += 1
        span = word(board + 8 * on.SPANS) + 8 * on.SPAN_WORDS * (i // heads)
        _scan_head(board, row, span, i % heads, tid)
        i = fetch_add(counter, 1)
    finish(board, counter, done, count)


@compiled
def mamba_gate_phase(board: Any, row: Any, counter: Any) -> None:
    """Gate what the heads gave by silu, norm each group of columns, and round it."""
    columns, count = word(row + 8 * COLUMNS), word(board + 8 * on.ROWS)
    groups, weights = word(row + 8 * GATE_GROUPS), word(row + 8 * WEIGHTS)
    size, epsilon = columns // groups, real(row + 8 * EPSILON)
    done, m = 0, fetch_add(counter, 1)
    while m < count:
        done += 1
        x = word(board + 8 * on.HEADS_FLOATS) + m * columns * 4
        gate = word(row + 8 * GATE) + m * word(row + 8 * GATE_ROW)
        activate(on.SILU, 1, gate, x, x, columns)
        if weights:
            for group in range(groups):
                start = group * size * 4
                norm(on.RMS_NORM, x + start, weights + start, 0, epsilon, x + start, size)
        quantise(
            x,
            word(board + 8 * on.HEADS_BYTES) + m * columns,
            word(board + 8 * on.HEADS_SCALES) + m * columns // 2,
            columns // 32,
        )
        m = fetch_add(counter, 1)
    finish(board, counter, done, count)
