"""Gated delta nets: each row reads a head's state S (matrices.py), and corrects what its key gives.

    S' = g S + k (x) d,   d = beta (v - g S k),   out = S' q = g S q + (k q) d

S k and S q are read in one pass, in which S takes the change (k, d, g) of the row before. Each sum runs over the keys
in order.

Kimi's keys fade each at a speed of its own: g is a diagonal matrix then. So k and q are multiplied by it before they
meet S, and a change has g for each key.

A change in memory: k, d, g. A row is prepared as q and its change, with room for d. If keys fade by themselves, q and
k times g come before its change.
"""

import math
from typing import Any

import numpy as np

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.activations import activate
from segue.runners.cpu.step.atomics import put_real, real, word
from segue.runners.cpu.step.recurrent.decay import bounded_decays, decay, decays
from segue.runners.cpu.step.recurrent.delta_columns import (
    change,
    change_and_read,
    change_and_read_keys,
    change_keys,
    read,
    read_keys,
)
from segue.runners.cpu.step.recurrent.matrices import (
    CHANGE_START,
    HEADS,
    OWN,
    RECORD_BYTES,
    SIZE,
    Matrices,
    expect_nothing,
    matrices_phase,
)
from segue.runners.cpu.step.recurrent.scratch import BETA, DECAY, NUMBERS, OVERLAP
from segue.runners.cpu.step.vectors.elementwise import (
    copy,
    multiply_by_sigmoid,
    multiply_into,
    scale,
)
from segue.runners.cpu.step.vectors.functions import sigmoid_of
from segue.runners.cpu.step.vectors.rows import dot, norm, quantise

# Words of an instruction, after those of matrices.py.
(
    INPUT,  # address of the convolution's output f32 [rows][queries, keys, values], and bytes per row
    INPUT_ROW,
    KEY_HEADS,
    SIDE_BY_SIDE,  # so many heads share a key before the next key's begin
    GATES,  # address of the gates of outputs in row 0, and bytes per row; BETAS and ALPHAS have as many
    GATES_ROW,
    BETAS,
    ALPHAS,
    GROUP,  # so many heads' betas, and alphas, are side by side
    GROUP_BYTES,  # from one group to the next
    TIME_BIAS,  # address of one float per head, added to alpha
    FADING,  # address of one float per head, at most 0
    NORM,  # address of the weights of the output's norm
    EPSILON,
    SCALE,  # of queries
    BY_KEY,  # 1: alphas, and TIME_BIAS, have a number for each key; gates are sigmoids
    LEAST,  # exponent of e by which a key fades; 0: there is none
) = range(OWN, OWN + 17)


@compiled
def _unit(x: Any, out: Any, count: Any, epsilon: Any, factor: Any) -> None:
    """out = x / its length * factor"""
    length = np.float32(math.sqrt(dot(x, x, count)))
    if length < epsilon:
        length = epsilon
    scale(factor / length, x, out, count)


@compiled
def _fade_keys(row: Any, m: Any, head: Any, record: Any) -> None:
    """Write how fast each key fades to the change of `record`, and query and key times that before it."""
    size = word(row + 8 * SIZE)
    place, key, fades = 4 * head * size, record + 8 * size, record + 16 * size
    alphas = word(row + 8 * ALPHAS) + m * word(row + 8 * GATES_ROW) + place
    rate, bias = real(word(row + 8 * FADING) + 4 * head), word(row + 8 * TIME_BIAS) + place
    least = real(row + 8 * LEAST)
    if least != np.float32(0):
        bounded_decays(rate, least, alphas, bias, fades, size)
    else:
        decays(rate, alphas, bias, fades, size)
    copy(key, record + 4 * size, size)
    multiply_into(record + 4 * size, fades, size)
    multiply_into(record, fades, size)


@compiled
def _prepare(row: Any, m: Any, head: Any, record: Any) -> None:
    """Write what row `m` has for a head to `record`: query, key, room for its change, and the numbers of scratch.py."""
    size, key_heads = word(row + 8 * SIZE), word(row + 8 * KEY_HEADS)
    x = word(row + 8 * INPUT) + m * word(row + 8 * INPUT_ROW)
    x += head // word(row + 8 * SIDE_BY_SIDE) % key_heads * size * 4
    key = record + word(row + 8 * CHANGE_START)
    numbers = record + word(row + 8 * RECORD_BYTES) - 4 * NUMBERS
    epsilon = real(row + 8 * EPSILON)
    _unit(x, record, size, epsilon, real(row + 8 * SCALE))
    _unit(x + key_heads * size * 4, key, size, epsilon, np.float32(1))
    group = word(row + 8 * GROUP)
    place = m * word(row + 8 * GATES_ROW)
    place += head // group * word(row + 8 * GROUP_BYTES) + head % group * 4
    put_real(numbers + 4 * BETA, sigmoid_of(real(word(row + 8 * BETAS) + place)))
    put_real(numbers + 4 * OVERLAP, dot(record, key, size))
    if word(row + 8 * BY_KEY):
        _fade_keys(row, m, head, record)
        return
    alpha = real(word(row + 8 * ALPHAS) + place) + real(word(row + 8 * TIME_BIAS) + 4 * head)
    put_real(numbers + 4 * DECAY, decay(real(word(row + 8 * FADING) + 4 * head), alpha))


@compiled
def _finish(board: Any, row: Any, m: Any, head: Any, record: Any) -> None:
    """Norm, gate and round a head's output of row `m`."""
    size, heads = word(row + 8 * SIZE), word(row + 8 * HEADS)
    columns = size * heads
    x = word(board + 8 * on.HEADS_FLOATS) + (m * columns + head * size) * 4
    gate = word(row + 8 * GATES) + m * word(row + 8 * GATES_ROW) + head * size * 4
    norm(on.RMS_NORM, x, word(row + 8 * NORM), 0, real(row + 8 * EPSILON), x, size)
    if word(row + 8 * BY_KEY):
        multiply_by_sigmoid(x, gate, size)
    else:
        activate(on.SILU, 1, gate, x, x, size)
    quantise(
        x,
        word(board + 8 * on.HEADS_BYTES) + m * columns + head * size,
        word(board + 8 * on.HEADS_SCALES) + (m * columns + head * size) // 32 * 16,
        size // 32,
    )


@compiled
def _take(row: Any, before: Any, source: Any, to: Any, size: Any, offset: Any) -> None:
    """Let columns take a change."""
    if word(row + 8 * BY_KEY):
        change_keys(before, source, to, size, offset)
    else:
        change(before, source, to, size, offset)


@compiled
def _answer(
    row: Any,
    m: Any,
    head: Any,
    before: Any,
    record: Any,
    out: Any,
    source: Any,
    to: Any,
    size: Any,
    offset: Any,
) -> None:
    """Columns for row `m`, after the change of the row before; 0: there is none."""
    value = word(row + 8 * INPUT) + m * word(row + 8 * INPUT_ROW) + offset
    value += (2 * word(row + 8 * KEY_HEADS) + head) * size * 4
    if word(row + 8 * BY_KEY):
        if before:
            change_and_read_keys(before, record, value, out, source, to, size, offset)
        else:
            read_keys(record, value, out, source, to, size, offset)
    elif before:
        change_and_read(before, record, value, out, source, to, size, offset)
    else:
        read(record, value, out, source, to, size, offset)


delta_phase = matrices_phase(
    Matrices(
        prepare=_prepare,
        expect=expect_nothing,
        finish=_finish,
        take=_take,
        answer=_answer,
    )
)
