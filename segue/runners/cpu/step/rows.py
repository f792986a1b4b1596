"""Phases that work row by row: norms with what comes before them, and rounding."""

from typing import Any

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.products.product import take_row
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import fetch_add, real, word
from segue.runners.cpu.step.lanes import add_into, quantise, rms_norm

_CHUNK = 4  # rows


@compiled
def norm_row(board: Any, row: Any, m: Any, i: Any, offset: Any) -> None:
    """Row `m` of the residual, normed, becomes row `i` of the next product's input; `offset`: the thread's part."""
    width = word(board + 8 * on.WIDTH)
    groups = width // 32
    x = word(board + 8 * on.RESIDUAL) + offset * word(board + 8 * on.PRIVATE_RESIDUAL)
    x += m * width * 4
    source = word(row + 8)
    if source == on.FROM_EMBEDDING:
        token = word(word(board + 8 * on.TOKENS) + 8 * m)
        take_row(word(row + 16), token, x)
    else:
        add_into(x, word(row + 16) + m * word(row + 24), width)
    floats = word(board + 8 * on.INPUT_FLOATS) + offset * word(board + 8 * on.PRIVATE_FLOATS)
    a = word(board + 8 * on.INPUT_BYTES) + offset * word(board + 8 * on.PRIVATE_BYTES)
    scales = word(board + 8 * on.INPUT_SCALES) + offset * word(board + 8 * on.PRIVATE_SCALES)
    floats += i * width * 4
    rms_norm(x, word(row + 32), real(row + 40), floats, width)
    quantise(floats, a + i * width, scales + i * groups * 16, groups)


@compiled
def norm_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """[op, source, embedding or address of the summand, bytes of its rows, weights, epsilon]"""
    gathers = word(row + 8) == on.FROM_WANTED
    count = word(board + 8 * on.WANTED) if gathers else word(board + 8 * on.ROWS)
    wanted = word(board + 8 * on.WANTED_ROWS)
    if word(board + 8 * on.IS_PRIVATE):
        for i in range(count):
            m = word(wanted + 8 * i) if gathers else i
            norm_row(board, row, m, i, tid)
        return
    first = fetch_add(counter, _CHUNK)
    while first < count:
        for i in range(first, min(count, first + _CHUNK)):
            m = word(wanted + 8 * i) if gathers else i
            norm_row(board, row, m, i, 0)
        first = fetch_add(counter, _CHUNK)


@compiled
def quantise_phase(board: Any, row: Any, counter: Any) -> None:
    """[op, columns]: what attention gave, where its heads do not end with a group."""
    columns, count = word(row + 8), word(board + 8 * on.ROWS)
    groups = columns // 32
    m = fetch_add(counter, 1)
    while m < count:
        quantise(
            word(board + 8 * on.HEADS_FLOATS) + m * columns * 4,
            word(board + 8 * on.HEADS_BYTES) + m * columns,
            word(board + 8 * on.HEADS_SCALES) + m * groups * 16,
            groups,
        )
        m = fetch_add(counter, 1)
