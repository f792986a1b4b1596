"""Phases of products: matrices that share their input, and the gated feed-forward."""

from typing import Any

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.products.kernels import TILES
from segue.runners.cpu.products.product import product
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.adapters import add_adapted
from segue.runners.cpu.step.atomics import fetch_add, word
from segue.runners.cpu.step.lanes import quantise, silu_gate

_PIECES = 4  # a thread: so many that one which was held up does not hold up the others
_FEW_ROWS = 16


@compiled
def piece(count: Any, rows: Any, threads: Any) -> Any:
    """How many of `count` equal parts to take at once."""
    if rows >= _FEW_ROWS:
        return 1
    return max(1, count // (_PIECES * threads))


@compiled
def product_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """[op, input, rows, out, row_floats, matrices, then of each: descriptor, offset in a row of out]

    `input`: the board's index of its floats, behind which bytes and scales stand; `rows`: that of their number.
    """
    source = board + 8 * word(row + 8)
    count = word(board + 8 * word(row + 16))
    out, row_floats, matrices = word(row + 24), word(row + 32), word(row + 40)
    if count == 0:
        return
    floats, a, scales = word(source), word(source + 8), word(source + 16)
    if word(board + 8 * on.IS_PRIVATE) and word(row + 8) == on.INPUT_FLOATS:
        floats += tid * word(board + 8 * on.PRIVATE_FLOATS)
        a += tid * word(board + 8 * on.PRIVATE_BYTES)
        scales += tid * word(board + 8 * on.PRIVATE_SCALES)
    tiles = 0
    for i in range(matrices):
        tiles += word(word(row + 48 + 16 * i) + 8 * TILES)
    taken = piece(tiles, count, word(board + 8 * on.THREADS))
    first = fetch_add(counter, taken)
    while first < tiles:
        last, before = min(tiles, first + taken), 0
        for i in range(matrices):
            matrix, offset = word(row + 48 + 16 * i), word(row + 56 + 16 * i)
            own = word(matrix + 8 * TILES)
            low, high = max(first - before, 0), min(last - before, own)
            if low < high:
                place = out + offset
                product(matrix, count, a, scales, floats, place, row_floats, low, high)
                rows = word(row + 16)
                add_adapted(board, matrix, i, rows, count, place, row_floats, low, high)
            before += own
        first = fetch_add(counter, taken)


@compiled
def gated_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """[op, gate, up, hidden columns, outputs of a tile]: products, activation and rounding, a few columns at a time."""
    gate, up, hidden = word(row + 8), word(row + 16), word(row + 24)
    count = word(board + 8 * on.ROWS)
    part = tid if word(board + 8 * on.IS_PRIVATE) else 0
    floats = word(board + 8 * on.INPUT_FLOATS) + part * word(board + 8 * on.PRIVATE_FLOATS)
    a = word(board + 8 * on.INPUT_BYTES) + part * word(board + 8 * on.PRIVATE_BYTES)
    scales = word(board + 8 * on.INPUT_SCALES) + part * word(board + 8 * on.PRIVATE_SCALES)
    wide = word(row + 32)
    unit = max(32, wide)
    units = (hidden + unit - 1) // unit
    scratch = word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES)
    taken = piece(units, count, word(board + 8 * on.THREADS))
    first = fetch_add(counter, taken)
    while first < units:
        for i in range(first, min(units, first + taken)):
            low, high = i * unit // wide, min(word(gate + 8 * TILES), (i + 1) * unit // wide)
            place = scratch - low * wide * 4
            stride = 2 * unit
            product(gate, count, a, scales, floats, place, stride, low, high)
            add_adapted(board, gate, 0, on.ROWS, count, place, stride, low, high)
            place += unit * 4
            product(up, count, a, scales, floats, place, stride, low, high)
            add_adapted(board, up, 1, on.ROWS, count, place, stride, low, high)
            _store_hidden(board, scratch, count, unit, i * unit, hidden)
        first = fetch_add(counter, taken)


@compiled
def _store_hidden(
    board: Any, scratch: Any, count: Any, unit: Any, column: Any, hidden: Any
) -> None:
    """Activate `unit` columns of gate and up and round them, for all rows."""
    wide = min(unit, hidden - column)
    groups = hidden // 32
    for m in range(count):
        gate = scratch + m * unit * 8
        out = word(board + 8 * on.HIDDEN_FLOATS) + (m * hidden + column) * 4
        silu_gate(gate, gate + unit * 4, out, wide)
        place = m * groups + column // 32
        quantise(
            out,
            word(board + 8 * on.HIDDEN_BYTES) + m * hidden + column,
            word(board + 8 * on.HIDDEN_SCALES) + place * 16,
            wide // 32,
        )
