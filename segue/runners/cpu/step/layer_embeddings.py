"""Phases of embeddings that each layer has for itself: made once a step, gated by each layer's residual."""

from typing import Any

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.products.product import take_row
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.activations import activate
from segue.runners.cpu.step.atomics import fetch_add, real, word
from segue.runners.cpu.step.pieces import finish, over_rows
from segue.runners.cpu.step.rows import token_of
from segue.runners.cpu.step.vectors.elementwise import add_into, scale
from segue.runners.cpu.step.vectors.rows import norm, quantise

# Words of LAYER_INPUTS.
(
    INPUTS,  # f32 [rows][layers][columns]: first the product of the token's embedding, then what the layers take
    EMBEDDINGS,  # matrix: a row has the columns of all layers
    LAYERS,
    COLUMNS,
    NORM,  # weights of the norm of each layer's part of the product
    EPSILON,
    PRODUCT_SCALE,
    EMBEDDING_SCALE,
    SUM_SCALE,
) = range(1, 10)
# Words of LAYER_GATE. GATE: f32 [rows][columns]; INPUT: the layer's part of row 0, INPUT_ROW: bytes to the next row.
GATE, INPUT, INPUT_ROW, GATE_COLUMNS, ACTIVATION = range(1, 6)


@compiled
def _take_inputs(board: Any, row: Any, m: Any, free: Any) -> None:
    """The inputs of all layers for row `m`. `free` is memory for a row."""
    columns = word(row + 8 * COLUMNS)
    whole = word(row + 8 * LAYERS) * columns
    x = word(row + 8 * INPUTS) + m * whole * 4
    weights, epsilon = word(row + 8 * NORM), real(row + 8 * EPSILON)
    scale(real(row + 8 * PRODUCT_SCALE), x, x, whole)
    for layer in range(word(row + 8 * LAYERS)):
        part = x + layer * columns * 4
        norm(on.RMS_NORM, part, weights, 0, epsilon, part, columns)
    take_row(word(row + 8 * EMBEDDINGS), token_of(board, m), free)
    scale(real(row + 8 * EMBEDDING_SCALE), free, free, whole)
    add_into(x, free, whole)
    scale(real(row + 8 * SUM_SCALE), x, x, whole)


@compiled
def layer_inputs_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    count = word(board + 8 * on.ROWS)
    scratch = word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES)
    done, m = 0, fetch_add(counter, 1)
    while m < count:
        done += 1
        _take_inputs(board, row, m, scratch)
        m = fetch_add(counter, 1)
    finish(board, counter, done, count)


@over_rows
@compiled
def layer_gate_phase(board: Any, row: Any, m: Any) -> None:
    """The layer's input times the activation of its gate, rounded for the next product."""
    columns = word(row + 8 * GATE_COLUMNS)
    groups = columns // 32
    gate = word(row + 8 * GATE) + m * columns * 4
    given = word(row + 8 * INPUT) + m * word(row + 8 * INPUT_ROW)
    out = word(board + 8 * on.HIDDEN_FLOATS) + m * columns * 4
    activate(word(row + 8 * ACTIVATION), 1, gate, given, out, columns)
    place = word(board + 8 * on.HIDDEN_SCALES) + m * groups * 16
    quantise(out, word(board + 8 * on.HIDDEN_BYTES) + m * columns, place, groups)
