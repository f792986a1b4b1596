"""What a row of RWKV's time mix has for a head: its key, value and the rest, prepared for wkv.py, and its output."""

import math
from typing import Any

import numpy as np

from segue.runners.cpu.emit import Builder, Value, floats, fma
from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import put_real, real, word
from segue.runners.cpu.step.recurrent.matrices import HEADS, OWN, SIZE, prefetch
from segue.runners.cpu.step.recurrent.scratch import (
    BONUS,
    CORRECTIONS,
    FADES,
    KEYS,
    OF_CORRECTIONS,
    OF_VALUES,
    RATES,
    READ,
    TAKEN,
    VALUES,
    WKV_PARTS,
)
from segue.runners.cpu.step.vectors.elementwise import (
    ROW_IN,
    ROW_OUT,
    add_scaled,
    blend,
    copy,
    elementwise,
    multiply,
    multiply_into,
    scale,
)
from segue.runners.cpu.step.vectors.functions import exp, sigmoid
from segue.runners.cpu.step.vectors.rows import dot, norm, quantise

_FASTEST = -0.606531  # the logarithm of the least factor by which a key fades: -e^-0.5
_LEAST_LENGTH = 1e-12  # of a key before it is made one of length 1

# Words of an instruction, after those of matrices.py.
(
    ROW_BYTES,  # from one row to the next of all that products gave
    READS,  # addresses of r, k and v in row 0
    ROW_KEYS,
    ROW_VALUES,
    DECAYS,  # the same of what the decay, a, the share of the first layer's values, and the gate are made of; the last
    ROW_RATES,  # two are 0 where there are none
    SHARES,
    GATES,
    DECAY_BIAS,  # addresses of vectors of all heads
    RATE_BIAS,
    SHARE_BIAS,
    KEY_SCALE,  # of u
    KEY_RATE,  # how much of k the rate a takes
    BONUSES,  # what a row takes of its own value
    NORM,  # weights and bias, or 0
    NORM_BIAS,
    EPSILON,
    FIRST_VALUES,  # address of f32 [rows][heads][size], which the first layer writes
) = range(OWN, OWN + 18)


@elementwise(ROW_IN, ROW_IN, ROW_OUT)
def _fade(b: Builder, x: Value, bias: Value) -> Value:
    """e^(-0.606531 sigmoid(x + bias))"""
    return exp(b, b.fmul(sigmoid(b, b.fadd(x, bias)), floats(_FASTEST)))


@elementwise(ROW_IN, ROW_IN, ROW_OUT)
def _share(b: Builder, x: Value, bias: Value) -> Value:
    return sigmoid(b, b.fadd(x, bias))


@elementwise(ROW_IN, ROW_IN, ROW_IN, ROW_OUT)
def _weigh(b: Builder, key: Value, rate: Value, part: Value) -> Value:
    """key + part key (rate - 1)"""
    of_key = b.fmul(key, part)
    return b.fadd(key, fma(b, rate, of_key, b.fneg(of_key)))


@compiled
def _take_values(row: Any, m: Any, head: Any, v: Any, out: Any, free: Any) -> None:
    """The values of row `m`, of which the first layer's may be a part."""
    size, place = word(row + 8 * SIZE), head * word(row + 8 * SIZE) * 4
    first = word(row + 8 * FIRST_VALUES) + m * word(row + 8 * HEADS) * size * 4 + place
    if word(row + 8 * SHARES):
        shares = word(row + 8 * SHARES) + m * word(row + 8 * ROW_BYTES) + place
        _share(shares, word(row + 8 * SHARE_BIAS) + place, free, size)
        blend(v, first, free, out, size)
    else:
        copy(v, first, size)
        copy(v, out, size)


@compiled
def prepare_row(row: Any, m: Any, head: Any, record: Any) -> None:
    """Write what row `m` has for a head to `record`: see scratch.py."""
    size = word(row + 8 * SIZE)
    part, place = 4 * size, head * size * 4
    at_row = m * word(row + 8 * ROW_BYTES) + place
    r, k = word(row + 8 * READS) + at_row, word(row + 8 * ROW_KEYS) + at_row
    keys, rates, free = record + KEYS * part, record + RATES * part, record + CORRECTIONS * part
    fades, numbers = record + FADES * part, record + WKV_PARTS * part
    values = word(row + 8 * ROW_VALUES) + at_row
    _take_values(row, m, head, values, record + VALUES * part, free)
    _fade(word(row + 8 * DECAYS) + at_row, word(row + 8 * DECAY_BIAS) + place, fades, size)
    multiply(fades, r, record + READ * part, size)
    _share(word(row + 8 * ROW_RATES) + at_row, word(row + 8 * RATE_BIAS) + place, free, size)
    _weigh(k, free, word(row + 8 * KEY_RATE) + place, keys, size)
    multiply(k, word(row + 8 * KEY_SCALE) + place, rates, size)
    length = np.float32(math.sqrt(dot(rates, rates, size)))
    if length < np.float32(_LEAST_LENGTH):
        length = np.float32(_LEAST_LENGTH)
    scale(np.float32(1) / length, rates, rates, size)
    scale(np.float32(-1), rates, record + TAKEN * part, size)
    multiply_into(rates, free, size)
    multiply(r, word(row + 8 * BONUSES) + place, free, size)
    put_real(numbers + 4 * OF_VALUES, dot(keys, r, size))
    put_real(numbers + 4 * OF_CORRECTIONS, dot(rates, r, size))
    put_real(numbers + 4 * BONUS, dot(keys, free, size))


@compiled
def finish_row(board: Any, row: Any, m: Any, head: Any, record: Any) -> None:
    """Norm a head's output of row `m`, add the row's own value, gate and round it."""
    size, heads = word(row + 8 * SIZE), word(row + 8 * HEADS)
    columns, place = size * heads, head * size * 4
    x = word(board + 8 * on.HEADS_FLOATS) + m * columns * 4 + place
    if word(row + 8 * NORM):
        weights, bias = word(row + 8 * NORM) + place, word(row + 8 * NORM_BIAS) + place
        norm(on.LAYER_NORM, x, weights, bias, real(row + 8 * EPSILON), x, size)
    bonus = real(record + WKV_PARTS * 4 * size + 4 * BONUS)
    add_scaled(bonus, record + VALUES * 4 * size, x, size)
    if word(row + 8 * GATES):
        multiply_into(x, word(row + 8 * GATES) + m * word(row + 8 * ROW_BYTES) + place, size)
    quantise(
        x,
        word(board + 8 * on.HEADS_BYTES) + m * columns + head * size,
        word(board + 8 * on.HEADS_SCALES) + (m * columns + head * size) // 32 * 16,
        size // 32,
    )


@compiled
def expect_row(board: Any, row: Any, m: Any, head: Any) -> None:
    """Ask for what row `m` has for a head, and for where its output goes."""
    size, at_row = word(row + 8 * SIZE), m * word(row + 8 * ROW_BYTES)
    for which in range(READS, GATES + 1):
        prefetch(word(row + 8 * which) + at_row + head * size * 4, size)
    out = m * size * word(row + 8 * HEADS) + head * size
    prefetch(word(board + 8 * on.HEADS_FLOATS) + 4 * out, size)
