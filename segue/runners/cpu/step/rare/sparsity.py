"""A phase of feed-forwards in which few columns act (Gemma 3n's first layers): those whose gate is far above the mean.

Of each row's gates the mean and the standard deviation are computed; what a gate has beyond the mean and so many
deviations is activated, the rest is 0. The products for gates and ups come before, as floats.
"""

import math
from typing import Any

import numpy as np

from segue.runners.cpu.emit import (
    Builder,
    Value,
    at,
    cell,
    floats,
    fma,
    greater,
    load,
    loop,
    splat,
    tree,
)
from segue.runners.cpu.kernel import FLOAT, INT, compiled, define
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.activations import activate
from segue.runners.cpu.step.atomics import fetch_add, real, word
from segue.runners.cpu.step.pieces import finish
from segue.runners.cpu.step.vectors.elementwise import ROW_IN, ROW_OUT, elementwise, vectors
from segue.runners.cpu.step.vectors.rows import quantise, row_sum

# Words; the first has the code (phase.py). BOTH: f32 [rows][gates, then ups]; DEVIATIONS: above the mean.
BOTH, COLUMNS, DEVIATIONS, ACTIVATION = range(2, 6)


@define(FLOAT, FLOAT, INT, INT)
def _squares_around(b: Builder, middle: Value, x: Value, count: Value) -> Value:
    """The sum of squares of what numbers differ from the middle."""
    total, middles = cell(b, floats(0.0)), splat(b, middle)
    with loop(b, vectors(b, count)) as each:
        apart = b.fsub(load(b, at(b, x, each.index, 64)), middles)
        b.store(fma(b, apart, apart, b.load(total)), total)
    return tree(b, b.load(total), b.fadd)


@elementwise(FLOAT, ROW_IN, ROW_OUT)
def _beyond(b: Builder, least: Value, x: Value) -> Value:
    """x - least where that is positive, else 0"""
    return greater(b, b.fsub(x, least), floats(0.0))


@compiled
def _activate_part(board: Any, row: Any, m: Any, first: Any, many: Any) -> None:
    """`many` columns of row `m`. Mean and deviation are of all: each part of a row computes them for itself."""
    columns = word(row + 8 * COLUMNS)
    gates = word(row + 8 * BOTH) + 8 * m * columns
    mean = row_sum(gates, columns) / np.float32(columns)
    variance = _squares_around(mean, gates, columns) / np.float32(columns - 1)
    least = mean + np.float32(math.sqrt(variance)) * real(row + 8 * DEVIATIONS)
    out = word(board + 8 * on.HIDDEN_FLOATS) + (m * columns + first) * 4
    _beyond(least, gates + 4 * first, out, many)
    ups = gates + 4 * (columns + first)
    activate(word(row + 8 * ACTIVATION), 1, out, ups, out, many)
    place = m * columns + first
    scales = word(board + 8 * on.HIDDEN_SCALES) + place // 2
    quantise(out, word(board + 8 * on.HIDDEN_BYTES) + place, scales, many // 32)


@compiled
def sparse_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """Whole rows, or parts of them if there are fewer rows than threads."""
    count, columns = word(board + 8 * on.ROWS), word(row + 8 * COLUMNS)
    parts = max(1, word(board + 8 * on.THREADS) // max(1, count))
    wide = (columns // 32 + parts - 1) // parts * 32
    parts = (columns + wide - 1) // wide
    work = count * parts
    done, i = 0, fetch_add(counter, 1)
    while i < work:
        done += 1
        first = i % parts * wide
        _activate_part(board, row, i // parts, first, min(wide, columns - first))
        i = fetch_add(counter, 1)
    finish(board, counter, done, work)
