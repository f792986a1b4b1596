"""A causal convolution over a span's rows: each channel is the weighted sum of its last few inputs.

The state of a slot has the last inputs, the oldest first: those that the next row sees beside its own, and one more for
each token that can be given back. A slot that gave some back reads as many rows earlier.
"""

from typing import Any

from segue.runners.cpu.emit import Builder, Value, fma
from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import word
from segue.runners.cpu.step.recurrent.spans import over_columns
from segue.runners.cpu.step.vectors.elementwise import (
    ROW_IN,
    ROW_IN_OUT,
    add_into,
    clear,
    copy,
    elementwise,
    multiply,
    multiply_into,
)
from segue.runners.cpu.step.vectors.functions import sigmoid
from segue.runners.cpu.step.vectors.rows import quantise

# Words of an instruction.
(
    INPUT,  # address of the channels in row 0, and bytes per row
    INPUT_ROW,
    OUT,  # address of f32 [rows][channels]; 0: what the next product takes, which is rounded too
    CHANNELS,
    TAPS,
    WEIGHTS,  # address of f32 [taps][channels], the oldest input's first
    BIAS,  # address, or 0
    STATE,  # where the layer's last inputs begin in a slot's state
    IS_SILU,  # whether the sum x becomes x * sigmoid(x)
    GATE_BEFORE,  # addresses in row 0 of what inputs, and outputs, are multiplied by; rows as those of inputs; or 0
    GATE_AFTER,
) = range(1, 12)


@elementwise(ROW_IN, ROW_IN, ROW_IN_OUT)
def _add_product(b: Builder, x: Value, w: Value, total: Value) -> Value:
    return fma(b, x, w, total)


@elementwise(ROW_IN_OUT)
def _silu(b: Builder, x: Value) -> Value:
    return b.fmul(x, sigmoid(b, x))


@compiled
def input_of(x: Any, row_bytes: Any, end: Any, tap_bytes: Any, i: Any) -> Any:
    """The address of the input of row `i` of a span that begins at `x`; rows before it end at `end`."""
    return x + i * row_bytes if i >= 0 else end + i * tap_bytes


@compiled
def keep_inputs(
    x: Any, row_bytes: Any, end: Any, tap_bytes: Any, rows: Any, kept: Any, state: Any, many: Any
) -> None:
    """Write the last `kept` inputs to the state."""
    for i in range(kept):  # in this order: what is read is not yet written
        seen = input_of(x, row_bytes, end, tap_bytes, rows - kept + i)
        copy(seen, state + i * tap_bytes, many)


@compiled
def _round(board: Any, row: Any, x: Any, m: Any, first: Any, many: Any) -> None:
    """Round some channels of row `m`."""
    place = m * word(row + 8 * CHANNELS) + first
    a, scales = word(board + 8 * on.HEADS_BYTES), word(board + 8 * on.HEADS_SCALES)
    quantise(x, a + place, scales + place // 2, many // 32)


@compiled
def _convolve(board: Any, row: Any, span: Any, first: Any, many: Any) -> None:
    """All rows of a span, `many` channels from `first` on."""
    taps, tap_bytes = word(row + 8 * TAPS), 4 * word(row + 8 * CHANNELS)
    start, rows = word(span + 8 * on.SPAN_FIRST), word(span + 8 * on.SPAN_ROWS)
    state = word(span + 8 * on.SPAN_STATE) + word(row + 8 * STATE) + 4 * first
    pending, row_bytes = word(span + 8 * on.SPAN_PENDING), word(row + 8 * INPUT_ROW)
    x = word(row + 8 * INPUT) + start * row_bytes + 4 * first
    if pending == on.FRESH:
        pending = 0
        for tap in range(taps - 1):
            clear(state + tap * tap_bytes, many)
    end = state + (taps - 1 + pending) * tap_bytes
    if word(row + 8 * GATE_BEFORE):
        gate = word(row + 8 * GATE_BEFORE) + start * row_bytes + 4 * first
        for i in range(rows):
            multiply_into(x + i * row_bytes, gate + i * row_bytes, many)
    weights = word(row + 8 * WEIGHTS) + 4 * first
    rounds = word(row + 8 * OUT) == 0
    outs = word(board + 8 * on.HEADS_FLOATS) if rounds else word(row + 8 * OUT)
    for i in range(rows):
        out = outs + (start + i) * tap_bytes + 4 * first
        oldest = i + 1 - taps
        multiply(input_of(x, row_bytes, end, tap_bytes, oldest), weights, out, many)
        for tap in range(1, taps):
            seen = input_of(x, row_bytes, end, tap_bytes, oldest + tap)
            _add_product(seen, weights + tap * tap_bytes, out, many)
        if word(row + 8 * BIAS):
            add_into(out, word(row + 8 * BIAS) + 4 * first, many)
        if word(row + 8 * IS_SILU):
            _silu(out, many)
        if word(row + 8 * GATE_AFTER):
            gate = word(row + 8 * GATE_AFTER) + (start + i) * row_bytes + 4 * first
            multiply_into(out, gate, many)
        if rounds:
            _round(board, row, out, start + i, first, many)
    kept = taps - 1 + word(span + 8 * on.SPAN_LEFT)
    keep_inputs(x, row_bytes, end, tap_bytes, rows, kept, state, many)


@compiled
def _channels(board: Any, row: Any) -> Any:
    return word(row + 8 * CHANNELS)


convolve_phase = over_columns(_channels, _convolve)
