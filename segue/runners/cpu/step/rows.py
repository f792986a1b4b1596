"""Phases that work row by row: norms and the sums before them, rounding, and bias, scale and cap of logits."""

from typing import Any

import numpy as np
from llvmlite import ir

from segue.runners.cpu.draws import records as of
from segue.runners.cpu.emit import LANES, Builder, Value, at, f32, i32, load, loop, splat, store
from segue.runners.cpu.kernel import FLOAT, INT, VOID, compiled, define
from segue.runners.cpu.products.product import take_row
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import fetch_add, put_real, real, word
from segue.runners.cpu.step.pieces import finish, over_rows
from segue.runners.cpu.step.vectors.elementwise import (
    add_into,
    clamp,
    copy,
    multiply_by_sigmoid,
    multiply_by_softplus,
    scale,
)
from segue.runners.cpu.step.vectors.functions import capped, sigmoid_of, softplus_of
from segue.runners.cpu.step.vectors.rows import norm, quantise

_CHUNK = 4  # rows that a thread takes at a time
_COLUMNS = 4096  # logits that a thread takes at a time

# Words of a norm's instruction.
(
    SOURCE,
    EMBEDDING,  # matrix
    EMBEDDING_SCALE,  # scales are 0 where there is none
    POSITIONS,  # matrix of learned positions, or 0
    SUMMANDS,  # two, five words each: address (0: none), bytes of its rows, bias, norm's weights, scale
) = range(1, 6)
_SUMMAND = 5
_FIRST = SUMMANDS + 2 * _SUMMAND
# SUM_SCALE: the address of a factor of the residual, once all is added; or 0.
# INNER_WEIGHTS, INNER_BIAS: addresses of a norm of the residual itself, once all is added, or 0.
# KEPT: where the residual is then copied to, or 0. JOINED: what is added to it then, or 0, and bytes of its rows.
NORM, WEIGHTS, BIAS, EPSILON, AFTER, AFTER_EPSILON, SUM_SCALE = range(_FIRST, _FIRST + 7)
INNER_WEIGHTS, INNER_BIAS, KEPT, JOINED, JOINED_ROW = range(_FIRST + 7, _FIRST + 12)


@compiled
def _add_summand(row: Any, what: Any, m: Any, x: Any, free: Any, width: Any) -> None:
    """Add a row of the output of attention or feed-forward to x. `free` is memory that may be overwritten."""
    place = word(what) + m * word(what + 8)
    bias, weights, factor = word(what + 16), word(what + 24), real(what + 32)
    if bias or weights or factor != np.float32(0):
        copy(place, free, width)
        place = free
    if bias:
        add_into(place, bias, width)
    if weights:
        epsilon = real(row + 8 * AFTER_EPSILON)
        norm(word(row + 8 * AFTER), place, weights, 0, epsilon, place, width)
    if factor != np.float32(0):
        scale(factor, place, place, width)
    add_into(x, place, width)


@compiled
def token_of(board: Any, m: Any) -> Any:
    """The token of row `m`: as it was given, or what a draw of the step before gave; 0 where it gave nothing."""
    token = word(word(board + 8 * on.TOKENS) + 8 * m)
    if token < 0:
        drawn = word(board + 8 * on.DRAWN) + 8 * of.RECORD_WORDS * (-1 - token)
        token = max(word(drawn), 0)
    return token


@compiled
def _embed(board: Any, row: Any, m: Any, x: Any, free: Any, width: Any) -> None:
    take_row(word(row + 8 * EMBEDDING), token_of(board, m), x)
    factor = real(row + 8 * EMBEDDING_SCALE)
    if factor != np.float32(0):
        scale(factor, x, x, width)
    if word(row + 8 * POSITIONS):
        take_row(word(row + 8 * POSITIONS), word(word(board + 8 * on.POSITIONS) + 8 * m), free)
        add_into(x, free, width)


@compiled
def _pass_on(row: Any, m: Any, x: Any, width: Any) -> None:
    """What is done to row `m` of the residual itself, once all is added to it."""
    weights, bias = word(row + 8 * INNER_WEIGHTS), word(row + 8 * INNER_BIAS)
    if weights:
        norm(word(row + 8 * AFTER), x, weights, bias, real(row + 8 * EPSILON), x, width)
    if word(row + 8 * KEPT):
        copy(x, word(row + 8 * KEPT) + m * width * 4, width)
    if word(row + 8 * JOINED):
        add_into(x, word(row + 8 * JOINED) + m * word(row + 8 * JOINED_ROW), width)


@compiled
def norm_row(board: Any, row: Any, m: Any, i: Any) -> None:
    """Row `m` of the residual, normed, becomes row `i` of the next product's input."""
    width = word(board + 8 * on.WIDTH)
    groups = width // 32
    x = word(board + 8 * on.RESIDUAL) + m * width * 4
    floats = word(board + 8 * on.INPUT_FLOATS) + i * width * 4
    a, scales = word(board + 8 * on.INPUT_BYTES), word(board + 8 * on.INPUT_SCALES)
    if word(row + 8 * SOURCE) == on.FROM_EMBEDDING:
        _embed(board, row, m, x, floats, width)
    else:
        for which in range(2):
            what = row + 8 * (SUMMANDS + _SUMMAND * which)
            if word(what):
                _add_summand(row, what, m, x, floats, width)
        if word(row + 8 * SUM_SCALE):
            scale(real(word(row + 8 * SUM_SCALE)), x, x, width)
    _pass_on(row, m, x, width)
    weights, bias = word(row + 8 * WEIGHTS), word(row + 8 * BIAS)
    norm(word(row + 8 * NORM), x, weights, bias, real(row + 8 * EPSILON), floats, width)
    quantise(floats, a + i * width, scales + i * groups * 16, groups)


@compiled
def norm_phase(board: Any, row: Any, counter: Any) -> None:
    """Norm every row of the step, or every row that wants logits."""
    gathers = word(row + 8 * SOURCE) == on.FROM_WANTED
    count = word(board + 8 * on.WANTED) if gathers else word(board + 8 * on.ROWS)
    wanted = word(board + 8 * on.WANTED_ROWS)
    done, first = 0, fetch_add(counter, _CHUNK)
    while first < count:
        done += min(_CHUNK, count - first)
        for i in range(first, min(count, first + _CHUNK)):
            m = word(wanted + 8 * i) if gathers else i
            norm_row(board, row, m, i)
        first = fetch_add(counter, _CHUNK)
    finish(board, counter, done, count)


@over_rows
@compiled
def whole_norms_phase(board: Any, row: Any, m: Any) -> None:
    """[op, address, bytes of its rows, norm, epsilon, then twice: offset, columns, weights, bias or 0]: in place."""
    base = word(row + 8) + m * word(row + 16)
    for which in range(2):
        part = row + 40 + 32 * which
        x = base + word(part)
        weights, bias = word(part + 16), word(part + 24)
        norm(word(row + 24), x, weights, bias, real(row + 32), x, word(part + 8))


@over_rows
@compiled
def clamp_phase(board: Any, row: Any, m: Any) -> None:
    """[op, address, bytes of its rows, columns, bound or 0, bias or 0]: add the bias and clamp, in place."""
    columns, bound = word(row + 24), real(row + 32)
    x = word(row + 8) + m * word(row + 16)
    if word(row + 40):
        add_into(x, word(row + 40), columns)
    if bound != np.float32(0):
        clamp(x, -bound, bound, columns)


@over_rows
@compiled
def quantise_phase(board: Any, row: Any, m: Any) -> None:
    """[op, columns, gate or 0, bytes of its rows, columns of a part, bytes between its parts, kind of gates]: gate, and
    round, the output of attention.

    Without a gate only if a head's size is not a multiple of a group.
    """
    columns = word(row + 8)
    groups = columns // 32
    x = word(board + 8 * on.HEADS_FLOATS) + m * columns * 4
    if word(row + 16):
        gate, wide = word(row + 16) + m * word(row + 24), word(row + 32)
        for part in range(columns // wide):
            place, out = gate + part * word(row + 40), x + part * wide * 4
            kind = word(row + 48)
            if kind == on.SIGMOIDS:
                multiply_by_sigmoid(out, place, wide)
            elif kind == on.SOFTPLUSES:
                multiply_by_softplus(out, place, wide)
            elif kind == on.ONE_SIGMOID:
                scale(sigmoid_of(real(place)), out, out, wide)
            else:
                scale(softplus_of(real(place)), out, out, wide)
    quantise(
        x,
        word(board + 8 * on.HEADS_BYTES) + m * columns,
        word(board + 8 * on.HEADS_SCALES) + m * groups * 16,
        groups,
    )


def _bent(b: Builder, x: Value, caps: Value) -> Value:
    """What is not a number stays so: capped, it would be one, and a broken row would be drawn from."""
    return b.select(b.fcmp_ordered("ord", x, x), capped(b, x, caps), x)


@define(VOID, INT, INT, FLOAT)
def _cap_all(b: Builder, x: Value, count: Value, cap: Value) -> None:
    """Cap any number of floats; those after the last full vector one by one."""
    caps = splat(b, cap)
    whole = b.udiv(count, ir.Constant(count.type, LANES))
    with loop(b, whole) as each:
        place = at(b, x, each.index, 4 * LANES)
        store(b, _bent(b, load(b, place), caps), place)
    done = b.mul(whole, ir.Constant(count.type, LANES))
    with loop(b, b.sub(count, done)) as each:
        place = at(b, x, b.add(done, each.index), 4)
        bent = _bent(b, splat(b, load(b, place, f32)), caps)
        store(b, b.extract_element(bent, ir.Constant(i32, 0)), place)


@compiled
def logits_phase(board: Any, row: Any, counter: Any) -> None:
    """[op, logits, columns, bias or 0, scale or 0, cap or 0]"""
    logits, columns, bias = word(row + 8), word(row + 16), word(row + 24)
    factor, cap = real(row + 32), real(row + 40)
    pieces = (columns + _COLUMNS - 1) // _COLUMNS
    count = pieces * word(board + 8 * on.WANTED)
    done, i = 0, fetch_add(counter, 1)
    while i < count:
        done += 1
        first = i % pieces * _COLUMNS
        many = min(_COLUMNS, columns - first)
        x = logits + (i // pieces * columns + first) * 4
        if bias:
            for j in range(many):
                put_real(x + 4 * j, real(x + 4 * j) + real(bias + 4 * (first + j)))
        if factor != np.float32(0):
            for j in range(many):
                put_real(x + 4 * j, real(x + 4 * j) * factor)
        if cap != np.float32(0):
            _cap_all(x, many, cap)
        i = fetch_add(counter, 1)
    finish(board, counter, done, count)
