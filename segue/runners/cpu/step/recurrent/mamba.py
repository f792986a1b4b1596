"""Phases of Mamba 2: each head's state fades by a factor of its own, takes what a token brings, and is read.

A head of `size` columns has a state of [size / 16][states][16] floats. For each token it is multiplied by the decay,
e^(dt A), and gets B of the token times its columns times dt; the output is the sum of it times C, and D times the
columns. Each output is summed in the order of the states, by one lane. So a row's bits are the same however its span is
cut.

A slot keeps the state as it was before its last row, or before several, and beside it what each brings: see
slots/states.py.
"""

from typing import Any, NamedTuple

from segue.runners.cpu.emit import (
    LANES,
    Builder,
    Value,
    ahead,
    at,
    fma,
    load,
    splat,
    store,
)
from segue.runners.cpu.kernel import FLOAT, INT, VOID, compiled, define
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.activations import activate
from segue.runners.cpu.step.atomics import put_real, real, word
from segue.runners.cpu.step.halves import lane
from segue.runners.cpu.step.pieces import over_rows
from segue.runners.cpu.step.recurrent.passes import (
    STATES_AT_ONCE,
    after_row,
    float_at,
    pass_through,
    together,
)
from segue.runners.cpu.step.recurrent.scratch import STEP_BYTES
from segue.runners.cpu.step.recurrent.spans import over_spans
from segue.runners.cpu.step.vectors.elementwise import copy, scale
from segue.runners.cpu.step.vectors.functions import exp, softplus_of
from segue.runners.cpu.step.vectors.rows import norm, quantise

# Words of SCAN.
(
    MIXED,  # address of the first row's columns: the output of the convolution
    MIXED_ROW,  # bytes
    TIMES,  # address of the first row's dt, one for each head
    TIMES_ROW,
    HEADS,
    SIZE,  # columns of a head
    STATES,
    GROUPS,  # of heads that share B and C
    PLACE,  # bytes from a slot's state to that of this layer's first head
    HEAD_BYTES,  # from one head's to the next: its state, and changes: what is brought, its B, the decay
    CHANGE_BYTES,  # from one change to the next
    TIME_BIAS,  # one float per head, as the next two
    A,
    D,
    FIRST_B,  # address of the first row's B of each group, which C of each group follow; and bytes per row
    B_ROW,
) = range(1, 17)
# Words of MAMBA_GATE. GATE: address of the first row's gate; WEIGHTS: of the norm of each group of columns, or 0.
GATE, GATE_ROW, COLUMNS, GATE_GROUPS, WEIGHTS, EPSILON = range(1, 7)


@define(FLOAT, FLOAT)
def _exp_of(b: Builder, x: Value) -> Value:
    return lane(b, exp(b, splat(b, x)), 0)


class _Scan(NamedTuple):
    """Some states of 16 columns, and what passes through them: addresses, and bytes from one to the next."""

    b: Builder
    x: Value  # of the columns in the first row; of their B and C there
    first_b: Value
    first_c: Value
    row_bytes: Value  # of the columns; of B and C
    b_row: Value
    steps: Value
    state: Value
    change: Value  # what the first change brings; its B and decay
    change_b: Value
    change_decay: Value
    change_bytes: Value
    out: Value
    out_row: Value

    @property
    def places(self) -> list[Value]:
        return [ahead(self.b, self.state, 4 * LANES * i) for i in range(STATES_AT_ONCE)]

    def changed(self, states: list[Value], index: Value) -> list[Value]:
        """The states after what a row before has left."""
        b, offset = self.b, self.b.mul(index, self.change_bytes)
        brought = load(b, b.add(self.change, offset))
        fading = float_at(b, b.add(self.change_decay, offset))
        by = [float_at(b, b.add(self.change_b, offset), i) for i in range(len(states))]
        return [after_row(b, held, fading, by[i], brought) for i, held in enumerate(states)]

    def passed(self, states: list[Value], index: Value) -> list[Value]:
        """The states after a row, to whose output is added."""
        b, offset = self.b, self.b.mul(index, self.b_row)
        step, place = (
            at(b, self.steps, index, STEP_BYTES),
            b.add(self.out, b.mul(index, self.out_row)),
        )
        brought = b.fmul(load(b, b.add(self.x, b.mul(index, self.row_bytes))), float_at(b, step))
        total, found = load(b, place), []
        for i, held in enumerate(states):
            starts = (self.first_b, self.first_c)
            by, read = (float_at(b, b.add(start, offset), i) for start in starts)
            found.append(after_row(b, held, float_at(b, step, 1), by, brought))
            total = fma(b, found[-1], read, total)
        store(b, total, place)
        return found


@define(VOID, *[INT] * 16)
def _scan_some(
    b: Builder, rows: Value, num_taken: Value, pending: Value, *addresses: Value
) -> None:
    """Pass some states of 16 columns through rows of a span. `addresses`: those of _Scan."""
    pass_through(_Scan(b, *addresses), rows, num_taken, pending)


@compiled
def _take_steps(row: Any, first: Any, rows: Any, head: Any, steps: Any) -> None:
    """Write dt and decay of each row of a span to `steps`."""
    bias, rate = real(word(row + 8 * TIME_BIAS) + 4 * head), real(word(row + 8 * A) + 4 * head)
    for m in range(rows):
        place = word(row + 8 * TIMES) + (first + m) * word(row + 8 * TIMES_ROW) + 4 * head
        time = softplus_of(real(place) + bias)
        put_real(steps + STEP_BYTES * m, time)
        put_real(steps + STEP_BYTES * m + 4, _exp_of(time * rate))


@compiled
def _leave(
    row: Any, changes: Any, x: Any, first_b: Any, steps: Any, rows: Any, pending: Any, left: Any
) -> None:
    """Keep what the last `left` rows bring, some of which may be among the `pending` ones before the span."""
    size, states = word(row + 8 * SIZE), word(row + 8 * STATES)
    mixed_row, change_bytes = word(row + 8 * MIXED_ROW), word(row + 8 * CHANGE_BYTES)
    b_row = word(row + 8 * B_ROW)
    taken = pending + rows - left
    for i in range(taken, pending):
        copy(changes + i * change_bytes, changes + (i - taken) * change_bytes, change_bytes // 4)
    for m in range(max(taken - pending, 0), rows):
        change, step = changes + (pending + m - taken) * change_bytes, steps + m * STEP_BYTES
        scale(real(step), x + m * mixed_row, change, size)
        for i in range(states):
            put_real(change + 4 * (size + i), real(first_b + m * b_row + 4 * i))
        put_real(change + 4 * (size + states), real(step + 4))


@compiled
def _scan_head(board: Any, row: Any, span: Any, head: Any, tid: Any) -> None:
    """Pass a head's state through the rows of a span; what the last ones bring is left to the next step."""
    first, rows = word(span + 8 * on.SPAN_FIRST), word(span + 8 * on.SPAN_ROWS)
    pending, left = word(span + 8 * on.SPAN_PENDING), word(span + 8 * on.SPAN_LEFT)
    heads, size, states = word(row + 8 * HEADS), word(row + 8 * SIZE), word(row + 8 * STATES)
    groups, mixed_row = word(row + 8 * GROUPS), word(row + 8 * MIXED_ROW)
    b_row = word(row + 8 * B_ROW)
    columns = heads * size
    steps = word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES)
    _take_steps(row, first, rows, head, steps)
    x = word(row + 8 * MIXED) + first * mixed_row
    first_b = word(row + 8 * FIRST_B) + first * b_row + head // (heads // groups) * states * 4
    first_c = first_b + groups * states * 4
    x += head * size * 4
    out = word(board + 8 * on.HEADS_FLOATS) + (first * columns + head * size) * 4
    for m in range(rows):
        scale(real(word(row + 8 * D) + 4 * head), x + m * mixed_row, out + m * columns * 4, size)
    state = word(span + 8 * on.SPAN_STATE) + word(row + 8 * PLACE)
    state += head * word(row + 8 * HEAD_BYTES)
    changes, change_bytes = state + states * size * 4, word(row + 8 * CHANGE_BYTES)
    before = max(pending, 0)
    for column in range(0, size, LANES):
        start = 0
        while start < rows:
            many = together(start, rows, left)
            taken = many if start + many < rows else many - left
            for i in range(0, states, STATES_AT_ONCE):
                _scan_some(
                    many,
                    taken if start else taken + before,
                    0 if start else pending,
                    x + start * mixed_row + column * 4,
                    first_b + start * b_row + i * 4,
                    first_c + start * b_row + i * 4,
                    mixed_row,
                    b_row,
                    steps + start * STEP_BYTES,
                    state + (column * states + i * LANES) * 4,
                    changes + column * 4,
                    changes + (size + i) * 4,
                    changes + (size + states) * 4,
                    change_bytes,
                    out + (start * columns + column) * 4,
                    columns * 4,
                )
            start += many
    _leave(row, changes, x, first_b, steps, rows, before, left)


@compiled
def _heads(board: Any, row: Any) -> Any:
    return word(row + 8 * HEADS)


scan_phase = over_spans(_heads, _scan_head)


@over_rows
@compiled
def mamba_gate_phase(board: Any, row: Any, m: Any) -> None:
    """Gate what the heads gave by silu, norm each group of columns, and round it."""
    columns, groups = word(row + 8 * COLUMNS), word(row + 8 * GATE_GROUPS)
    weights = word(row + 8 * WEIGHTS)
    size, epsilon = columns // groups, real(row + 8 * EPSILON)
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
