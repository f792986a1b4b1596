"""Phases of products: matrices that are taken side by side, and the gated feed-forward."""

from typing import Any

import numpy as np

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.products.kernels import COLUMNS, TILES
from segue.runners.cpu.products.product import product
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.activations import activate, limited_gate
from segue.runners.cpu.step.adapters import add_adapted
from segue.runners.cpu.step.atomics import fetch_add, real, word
from segue.runners.cpu.step.pieces import block_of_rows, finish, piece
from segue.runners.cpu.step.vectors.elementwise import add_into, clamp
from segue.runners.cpu.step.vectors.rows import quantise


@compiled
def product_phase(board: Any, row: Any, counter: Any) -> None:
    """[op, rows, out, row_floats, matrices, then of each: descriptor, offset in a row of out, input]

    `rows`: the board's index of the row count. `input`: that of an input's floats, then come bytes and scales.
    """
    count = word(board + 8 * word(row + 8))
    out, row_floats, matrices = word(row + 16), word(row + 24), word(row + 32)
    tiles = 0
    for i in range(matrices):
        tiles += word(word(row + 40 + 24 * i) + 8 * TILES)
    threads = word(board + 8 * on.THREADS)
    block = max(1, count if word(board + 8 * on.ADAPTED) else block_of_rows(tiles, count, threads))
    taken = piece(tiles, count, threads) if block >= count else 1
    work = (count + block - 1) // block * tiles
    done, following = 0, fetch_add(counter, taken)
    while following < work:
        done += min(taken, work - following)
        start, first = following // tiles * block, following % tiles
        rows, last, before = min(block, count - start), min(tiles, first + taken), 0
        for i in range(matrices):
            matrix, place = word(row + 40 + 24 * i), out + word(row + 48 + 24 * i)
            own = word(matrix + 8 * TILES)
            low, high = max(first - before, 0), min(last - before, own)
            if low < high:
                source = board + 8 * word(row + 56 + 24 * i)
                skipped = start * word(matrix + 8 * COLUMNS)
                product(
                    matrix,
                    rows,
                    word(source + 8) + skipped,
                    word(source + 16) + skipped // 2,
                    word(source) + skipped * 4,
                    place + start * row_floats * 4,
                    row_floats,
                    low,
                    high,
                )
                add_adapted(board, matrix, i, word(row + 8), count, place, row_floats, low, high)
            before += own
        following = fetch_add(counter, taken)
    finish(board, counter, done, work)


# Words of a feed-forward's instruction. With experts, matrices are addresses of tables with one matrix per expert.
(
    GATE,  # matrix; 0: the feed-forward is not gated
    UP,
    HIDDEN,  # columns
    TILE,  # outputs of a tile
    ACTIVATION,
    GATE_BIAS,  # addresses, 0 where there is none
    UP_BIAS,
    SHAPE,  # of the activation; only xIELU, which experts do not have, reads it
    SOURCE,  # the board's index of the input's floats, then come bytes and scales; experts have theirs by other words
) = range(1, 10)


@compiled
def gated_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """Gate and up products, activation and rounding, a few columns at a time."""
    count = word(board + 8 * on.ROWS)
    source = board + 8 * word(row + 8 * SOURCE)
    floats, a, scales = word(source), word(source + 8), word(source + 16)
    hidden, unit = word(row + 8 * HIDDEN), max(32, word(row + 8 * TILE))
    units = (hidden + unit - 1) // unit
    gate, up = word(row + 8 * GATE), word(row + 8 * UP)
    gate_bias, up_bias = word(row + 8 * GATE_BIAS), word(row + 8 * UP_BIAS)
    taken = piece(units, count, word(board + 8 * on.THREADS))
    done, first = 0, fetch_add(counter, taken)
    while first < units:
        done += min(taken, units - first)
        for i in range(first, min(units, first + taken)):
            gated_unit(
                board, row, tid, gate, up, gate_bias, up_bias, count, a, scales, floats, i, 0
            )
        first = fetch_add(counter, taken)
    finish(board, counter, done, units)


@compiled
def gated_unit(
    board: Any,
    row: Any,
    tid: Any,
    gate: Any,
    up: Any,
    gate_bias: Any,
    up_bias: Any,
    count: Any,
    a: Any,
    scales: Any,
    floats: Any,
    index: Any,
    first: Any,
) -> None:
    """The index-th unit of columns for `count` rows, written to the output from row `first` on."""
    wide, hidden = word(row + 8 * TILE), word(row + 8 * HIDDEN)
    unit = max(32, wide)
    scratch = word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES)
    low, high = index * unit // wide, min(word(up + 8 * TILES), (index + 1) * unit // wide)
    place = scratch - low * wide * 4
    stride = 2 * unit
    if gate:
        product(gate, count, a, scales, floats, place, stride, low, high)
        add_adapted(board, gate, 0, on.ROWS, count, place, stride, low, high)
        place += unit * 4
    product(up, count, a, scales, floats, place, stride, low, high)
    add_adapted(board, up, 1, on.ROWS, count, place, stride, low, high)
    column = index * unit
    many, groups = min(unit, hidden - column), hidden // 32
    for m in range(count):
        x = scratch + m * unit * 8
        y = x + unit * 4
        out = word(board + 8 * on.HIDDEN_FLOATS) + ((first + m) * hidden + column) * 4
        if gate_bias:
            add_into(x, gate_bias + column * 4, many)
        if up_bias:
            add_into(y if gate else x, up_bias + column * 4, many)
        kind = word(row + 8 * ACTIVATION)
        if kind == on.BOUNDED_SILU:
            most = real(row + 8 * on.LIMIT)
            clamp(x, np.float32(-np.inf), most, many)
            clamp(y, -most, most, many)
            kind = on.SILU
        second = word(row + 8 * SHAPE) if kind == on.XIELU else y
        if kind == on.LIMITED_SILU:
            limited_gate(x, y, out, real(row + 8 * on.LIMIT), many)
        else:
            activate(kind, gate != 0, x, second, out, many)
        at = (first + m) * groups + column // 32
        quantise(
            out,
            word(board + 8 * on.HIDDEN_BYTES) + (first + m) * hidden + column,
            word(board + 8 * on.HIDDEN_SCALES) + at * 16,
            many // 32,
        )
