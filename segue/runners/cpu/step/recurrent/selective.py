"""Phases of Mamba 1: each state of each column fades by a factor of its own, takes what a token brings, and is read.

A column has `states` numbers. For each token each is multiplied by e^(dt A), where the column has its own dt and the
number its own A, and gets B of the token times the column times dt; the output is the sum of these numbers times C, and
D times the column. Then it is gated. B, C and what dt is made of, fewer numbers, are a product of
the columns themselves.

Columns are worked on 64 at a time, called a head: its state is [64 / 16][states][16] floats. Each output is summed in
the order of the states, by one lane. So a row's bits are the same however its span is cut. A slot keeps the state as it
was before its last rows, and beside it what each brings: dt, the columns times dt, and B.
"""

from typing import Any, NamedTuple

from segue.runners.cpu.emit import LANES, Builder, Value, ahead, at, fma, load, loop, store
from segue.runners.cpu.kernel import INT, VOID, compiled, define
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.activations import activate
from segue.runners.cpu.step.atomics import fetch_add, real, word
from segue.runners.cpu.step.pieces import finish, over_rows
from segue.runners.cpu.step.recurrent.passes import (
    STATES_AT_ONCE,
    after_row,
    float_at,
    pass_through,
    together,
)
from segue.runners.cpu.step.recurrent.scratch import SELECTIVE_BYTES, SELECTIVE_SIZE
from segue.runners.cpu.step.vectors.elementwise import copy, vectors
from segue.runners.cpu.step.vectors.functions import power_of_two, softplus
from segue.runners.cpu.step.vectors.rows import norm, quantise

_BROUGHT = 4 * SELECTIVE_SIZE  # bytes from dt to the columns times dt, of a row and of a change

# Words of NARROW.
(
    MADE,  # address of the first row's few numbers of which many are to be made, and bytes per row
    MADE_ROW,
    RANK,  # how many these are
    TARGET,  # the board's index of the input that they become
    NUM_STATES,  # of B, and of C
    B_BESIDE,  # address of the first row's B, which C follows, in the same rows
    RANK_NORM,  # addresses of weights of RMS norms of the three, or 0
    B_NORM,
    C_NORM,
    EPSILON,
) = range(1, 11)
# Words of PART. PARTED: address of the first row's heads, each a gate and then an input, and bytes per row; INPUTS: of
# all inputs of that row, which all gates follow.
PARTED, PARTED_ROW, PARTED_HEADS, PARTED_SIZE, INPUTS = range(1, 6)
# Words of SELECT.
(
    COLUMNS,
    STATES,
    B_AND_C,  # addresses of the first row's; of its dt; of its gates
    TIMES,
    GATES,
    ROW,  # bytes per row of these
    PLACE,  # bytes from a slot's state to that of this layer's first head
    HEAD_BYTES,  # from one head's to the next: its state, and changes
    CHANGE_BYTES,  # from one change to the next
    TIME_BIAS,  # one float per column
    A,  # [columns / 16][states][16], times log2(e): decays are powers of two
    D,  # one float per column
) = range(1, 13)


# --- what times are made of ---


@over_rows
@compiled
def narrow_phase(board: Any, row: Any, m: Any) -> None:
    """Norm B and C, if they are normed, and what dt is made of, which becomes the input of the next product. Kimi's
    delta nets have other such rows.
    """
    rank, states = word(row + 8 * RANK), word(row + 8 * NUM_STATES)
    kind = on.RMS_NORM if word(row + 8 * RANK_NORM) else on.NO_NORM
    epsilon, target = real(row + 8 * EPSILON), board + 8 * word(row + 8 * TARGET)
    x = word(row + 8 * MADE) + m * word(row + 8 * MADE_ROW)
    out = word(target) + m * rank * 4
    norm(kind, x, word(row + 8 * RANK_NORM), 0, epsilon, out, rank)
    # Of a rank that is no multiple of 32 the product takes floats: no other type has such rows.
    scales = word(target + 16) + m * rank // 2
    quantise(out, word(target + 8) + m * rank, scales, rank // 32)
    if kind == on.RMS_NORM:
        x = word(row + 8 * B_BESIDE) + m * word(row + 8 * MADE_ROW)
        norm(kind, x, word(row + 8 * B_NORM), 0, epsilon, x, states)
        x += 4 * states
        norm(kind, x, word(row + 8 * C_NORM), 0, epsilon, x, states)


@over_rows
@compiled
def part_phase(board: Any, row: Any, m: Any) -> None:
    """Put the inputs of all heads side by side, and their gates."""
    heads, size = word(row + 8 * PARTED_HEADS), word(row + 8 * PARTED_SIZE)
    row_bytes = word(row + 8 * PARTED_ROW)
    x = word(row + 8 * PARTED) + m * row_bytes
    out = word(row + 8 * INPUTS) + m * row_bytes
    for head in range(heads):
        place = 4 * size * head
        copy(x + 2 * place, out + 4 * size * heads + place, size)
        copy(x + 2 * place + 4 * size, out + place, size)


# --- the scan ---


@define(VOID, *[INT] * 6)
def _prepare(
    b: Builder, times: Value, bias: Value, d: Value, x: Value, record: Value, count: Value
) -> None:
    """Write dt, and the columns at `x` times dt, to `record`; the columns become their share of the output."""
    with loop(b, vectors(b, count)) as each:
        time, added, share, place, out = (
            at(b, start, each.index, 64) for start in (times, bias, d, x, record)
        )
        dt = softplus(b, b.fadd(load(b, time), load(b, added)))
        column = load(b, place)
        store(b, dt, out)
        store(b, b.fmul(column, dt), ahead(b, out, _BROUGHT))
        store(b, b.fmul(column, load(b, share)), place)


class _Scan(NamedTuple):
    """Some states of 16 columns, and what passes through them: addresses, and bytes from one to the next."""

    b: Builder
    record: Value  # of the first row: dt of the columns, and the columns times dt
    first_b: Value
    first_c: Value
    row_bytes: Value
    rates: Value  # A, as the instruction has it
    state: Value
    change: Value  # as `record`; then B
    change_b: Value
    change_bytes: Value
    out: Value
    out_row: Value

    @property
    def places(self) -> list[Value]:
        return [ahead(self.b, self.state, 4 * LANES * i) for i in range(STATES_AT_ONCE)]

    def _decays(self, dt: Value) -> list[Value]:
        b = self.b
        rates = [load(b, ahead(b, self.rates, 4 * LANES * i)) for i in range(STATES_AT_ONCE)]
        return [power_of_two(b, b.fmul(dt, rate)) for rate in rates]

    def changed(self, states: list[Value], index: Value) -> list[Value]:
        b, offset = self.b, self.b.mul(index, self.change_bytes)
        place = b.add(self.change, offset)
        brought, decays = load(b, ahead(b, place, _BROUGHT)), self._decays(load(b, place))
        by = [float_at(b, b.add(self.change_b, offset), i) for i in range(len(states))]
        return [after_row(b, held, decays[i], by[i], brought) for i, held in enumerate(states)]

    def passed(self, states: list[Value], index: Value) -> list[Value]:
        b, offset = self.b, self.b.mul(index, self.row_bytes)
        place = at(b, self.record, index, SELECTIVE_BYTES)
        brought, decays = load(b, ahead(b, place, _BROUGHT)), self._decays(load(b, place))
        out = b.add(self.out, b.mul(index, self.out_row))
        total, found = load(b, out), []
        for i, held in enumerate(states):
            starts = (self.first_b, self.first_c)
            by, read = (float_at(b, b.add(start, offset), i) for start in starts)
            found.append(after_row(b, held, decays[i], by, brought))
            total = fma(b, found[-1], read, total)
        store(b, total, out)
        return found


@define(VOID, *[INT] * 14)
def _scan_some(b: Builder, rows: Value, taken: Value, pending: Value, *addresses: Value) -> None:
    """Pass some states of 16 columns through rows of a span. `addresses`: those of _Scan."""
    pass_through(_Scan(b, *addresses), rows, taken, pending)


@compiled
def _prepare_rows(board: Any, row: Any, m: Any, many: Any, head: Any, records: Any) -> None:
    """The records of `many` rows from `m` on."""
    first, wide = 4 * SELECTIVE_SIZE * head, 4 * word(row + 8 * COLUMNS)
    for i in range(m, m + many):
        _prepare(
            word(row + 8 * TIMES) + i * word(row + 8 * ROW) + first,
            word(row + 8 * TIME_BIAS) + first,
            word(row + 8 * D) + first,
            word(board + 8 * on.HEADS_FLOATS) + i * wide + first,
            records + (i - m) * SELECTIVE_BYTES,
            SELECTIVE_SIZE,
        )


@compiled
def _pass_rows(
    board: Any,
    row: Any,
    m: Any,
    many: Any,
    head: Any,
    records: Any,
    state: Any,
    pending: Any,
    taken: Any,
) -> None:
    """Pass a head's state through `many` rows from `m` on; the other two as in passes.py."""
    states, wide = word(row + 8 * STATES), 4 * word(row + 8 * COLUMNS)
    changes = state + states * SELECTIVE_SIZE * 4
    first_b = word(row + 8 * B_AND_C) + m * word(row + 8 * ROW)
    rates = word(row + 8 * A) + head * SELECTIVE_SIZE * states * 4
    out = word(board + 8 * on.HEADS_FLOATS) + m * wide + head * SELECTIVE_SIZE * 4
    for column in range(0, SELECTIVE_SIZE, LANES):
        for i in range(0, states, STATES_AT_ONCE):
            place = (column * states + i * LANES) * 4
            _scan_some(
                many,
                taken,
                pending,
                records + column * 4,
                first_b + i * 4,
                first_b + (states + i) * 4,
                word(row + 8 * ROW),
                rates + place,
                state + place,
                changes + column * 4,
                changes + (2 * SELECTIVE_SIZE + i) * 4,
                word(row + 8 * CHANGE_BYTES),
                out + column * 4,
                wide,
            )


@compiled
def _finish_rows(board: Any, row: Any, m: Any, many: Any, head: Any) -> None:
    """Gate and round a head's output of `many` rows from `m` on."""
    columns, first = word(row + 8 * COLUMNS), head * SELECTIVE_SIZE
    for i in range(m, m + many):
        place = i * columns + first
        x = word(board + 8 * on.HEADS_FLOATS) + place * 4
        gate = word(row + 8 * GATES) + i * word(row + 8 * ROW) + first * 4
        activate(on.SILU, 1, gate, x, x, SELECTIVE_SIZE)
        scales = word(board + 8 * on.HEADS_SCALES) + place // 2
        quantise(x, word(board + 8 * on.HEADS_BYTES) + place, scales, SELECTIVE_SIZE // 32)


@compiled
def _leave(row: Any, m: Any, many: Any, state: Any, records: Any, pending: Any, taken: Any) -> None:
    """Keep what is not `taken` of the `pending` changes, and of what the `many` rows from `m` on bring."""
    states, change_bytes = word(row + 8 * STATES), word(row + 8 * CHANGE_BYTES)
    changes = state + states * SELECTIVE_SIZE * 4
    for i in range(taken, pending):
        copy(changes + i * change_bytes, changes + (i - taken) * change_bytes, change_bytes // 4)
    for i in range(max(taken - pending, 0), many):
        change = changes + (pending + i - taken) * change_bytes
        copy(records + i * SELECTIVE_BYTES, change, 2 * SELECTIVE_SIZE)
        b = word(row + 8 * B_AND_C) + (m + i) * word(row + 8 * ROW)
        copy(b, change + SELECTIVE_BYTES, states)


@compiled
def _scan_head(board: Any, row: Any, span: Any, head: Any, tid: Any) -> None:
    """Pass a head's state through the rows of a span; what the last ones bring is left to the next step."""
    first, rows = word(span + 8 * on.SPAN_FIRST), word(span + 8 * on.SPAN_ROWS)
    pending, left = word(span + 8 * on.SPAN_PENDING), word(span + 8 * on.SPAN_LEFT)
    records = word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES)
    state = word(span + 8 * on.SPAN_STATE) + word(row + 8 * PLACE)
    state += head * word(row + 8 * HEAD_BYTES)
    start = 0
    while start < rows:
        many, m = together(start, rows, left), first + start
        taken = max(pending, 0) + many
        if start + many == rows:
            taken -= left
        _prepare_rows(board, row, m, many, head, records)
        _pass_rows(board, row, m, many, head, records, state, pending, taken)
        _finish_rows(board, row, m, many, head)
        if start + many == rows:
            _leave(row, m, many, state, records, max(pending, 0), taken)
        pending = 0
        start += many


@compiled
def select_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """Every span of every head, whose A is the same for all."""
    spans = word(board + 8 * on.NUM_SPANS)
    count = word(row + 8 * COLUMNS) // SELECTIVE_SIZE * spans
    done, i = 0, fetch_add(counter, 1)
    while i < count:
        done += 1
        span = word(board + 8 * on.SPANS) + 8 * on.SPAN_WORDS * (i % spans)
        _scan_head(board, row, span, i // spans, tid)
        i = fetch_add(counter, 1)
    finish(board, counter, done, count)
