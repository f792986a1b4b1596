"""RWKV's token shift, rows mixed with those before them; and what is done between the two matrices of a pair, and to
what RWKV 6's channel mix gives.

The row before the first one of a span is in the slot's state, as the inputs of a convolution of two taps are.
"""

from typing import Any

from segue.runners.cpu.emit import Builder, Value, floats, fma
from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import word
from segue.runners.cpu.step.pieces import over_rows
from segue.runners.cpu.step.recurrent.convolution import input_of, keep_inputs
from segue.runners.cpu.step.recurrent.spans import over_columns
from segue.runners.cpu.step.vectors.elementwise import (
    ROW_IN,
    ROW_OUT,
    blend,
    clear,
    copy,
    elementwise,
    multiply_by_sigmoid,
)
from segue.runners.cpu.step.vectors.functions import capped, sigmoid
from segue.runners.cpu.step.vectors.rows import quantise

# Words of SHIFT.
(
    COUNT,  # of mixtures: the inputs SHIFTED and so on
    LERPS,  # address of f32 [COUNT][columns]: what each takes of the row before
    STATE,  # where the row before begins in a slot's state
    STATE_ROW,  # bytes from one row that is kept to the next
    MORE,  # address of what rows themselves add to LERPS, [COUNT][columns] in row 0, and bytes per row; or 0
    MORE_ROW,
    KEEPS_NOTHING,  # 1: another phase takes the same rows
) = range(1, 8)
# Words of BEND: address of the first row's numbers, and bytes per row; parts, and then of each: columns, and how it is
# bent. They become the inputs PAIRED and so on.
BENT, BENT_ROW, PARTS, PART = range(1, 5)
# Words of GATE_ROWS: addresses of the first row's numbers and of what gates them, and bytes per row of these.
GATED, GATES, GATES_ROW = range(1, 4)


@elementwise(ROW_IN, ROW_IN, ROW_IN, ROW_IN, ROW_OUT)
def _blend_more(b: Builder, x: Value, other: Value, share: Value, more: Value) -> Value:
    """x + (share + more) (other - x)"""
    return fma(b, b.fsub(other, x), b.fadd(share, more), x)


@compiled
def _shift(board: Any, row: Any, span: Any, first: Any, many: Any) -> None:
    """All rows of a span, `many` columns from `first` on."""
    width, tap_bytes = word(board + 8 * on.WIDTH), word(row + 8 * STATE_ROW)
    start, rows = word(span + 8 * on.SPAN_FIRST), word(span + 8 * on.SPAN_ROWS)
    state = word(span + 8 * on.SPAN_STATE) + word(row + 8 * STATE) + 4 * first
    pending, row_bytes = word(span + 8 * on.SPAN_PENDING), 4 * width
    x = word(board + 8 * on.INPUT_FLOATS) + start * row_bytes + 4 * first
    if pending == on.FRESH:
        pending = 0
        clear(state, many)
    end = state + (1 + pending) * tap_bytes
    for which in range(word(row + 8 * COUNT)):
        lerp = word(row + 8 * LERPS) + which * row_bytes + 4 * first
        source = board + 8 * (on.SHIFTED + 3 * which)
        for i in range(rows):
            place = (start + i) * width + first
            out = word(source) + 4 * place
            before = input_of(x, row_bytes, end, tap_bytes, i - 1)
            if word(row + 8 * MORE):
                more = word(row + 8 * MORE) + (start + i) * word(row + 8 * MORE_ROW)
                more += which * row_bytes + 4 * first
                _blend_more(x + i * row_bytes, before, lerp, more, out, many)
            else:
                blend(x + i * row_bytes, before, lerp, out, many)
            quantise(out, word(source + 8) + place, word(source + 16) + place // 2, many // 32)
    if not word(row + 8 * KEEPS_NOTHING):
        kept = 1 + word(span + 8 * on.SPAN_LEFT)
        keep_inputs(x, row_bytes, end, tap_bytes, rows, kept, state, many)


@compiled
def _width(board: Any, row: Any) -> Any:
    return word(board + 8 * on.WIDTH)


shift_phase = over_columns(_width, _shift)


# --- between the matrices of pairs ---


@elementwise(ROW_IN, ROW_OUT)
def _tanh(b: Builder, x: Value) -> Value:
    return capped(b, x, floats(1.0))


@elementwise(ROW_IN, ROW_OUT)
def _logistic(b: Builder, x: Value) -> Value:
    return sigmoid(b, x)


@compiled
def _bend(kind: Any, x: Any, out: Any, count: Any) -> None:
    if kind == on.TANH:
        _tanh(x, out, count)
    elif kind == on.LOGISTIC:
        _logistic(x, out, count)
    else:
        copy(x, out, count)


@over_rows
@compiled
def bend_phase(board: Any, row: Any, m: Any) -> None:
    """Each part of a row is bent and rounded."""
    x = word(row + 8 * BENT) + m * word(row + 8 * BENT_ROW)
    for which in range(word(row + 8 * PARTS)):
        part, source = row + 8 * (PART + 2 * which), board + 8 * (on.PAIRED + 3 * which)
        columns = word(part)
        place = m * columns
        out = word(source) + 4 * place
        _bend(word(part + 8), x, out, columns)
        quantise(out, word(source + 8) + place, word(source + 16) + place // 2, columns // 32)
        x += 4 * columns


# --- after a channel mix ---


@over_rows
@compiled
def gate_rows_phase(board: Any, row: Any, m: Any) -> None:
    """A row, as wide as the residual, is multiplied by the sigmoid of its gates."""
    width = word(board + 8 * on.WIDTH)
    gates = word(row + 8 * GATES) + m * word(row + 8 * GATES_ROW)
    multiply_by_sigmoid(word(row + 8 * GATED) + m * width * 4, gates, width)
