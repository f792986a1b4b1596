"""Phases of AltUp (Gemma 3n): four residuals side by side, the streams, of which a layer computes on the first.

The embedding and products of it become the streams (SPREAD). Before a layer they are predicted: each takes some of all,
by coefficients that a router makes of the first. After it, what it made of the first one corrects all, by other such
coefficients. In the end products of all but the first (PART_STREAMS makes their inputs) are merged with it.
"""

import math
from typing import Any

import numpy as np

from segue.runners.cpu.architectures.parts.streams import STREAMS
from segue.runners.cpu.emit import (
    Builder,
    Value,
    ahead,
    at,
    f32,
    floats,
    fma,
    load,
    loop,
    number,
    splat,
    store,
)
from segue.runners.cpu.kernel import INT, VOID, compiled, define
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import fetch_add, put_real, real, word
from segue.runners.cpu.step.pieces import finish
from segue.runners.cpu.step.vectors.elementwise import (
    add_into,
    clear,
    copy,
    multiply,
    scale,
    vectors,
)
from segue.runners.cpu.step.vectors.functions import capped
from segue.runners.cpu.step.vectors.rows import dot, norm, quantise

_LANES = 16
_LEAST_LENGTH = 1e-30  # of a row: one of zeros has no direction that could be made longer
SCRATCH_FLOATS = 2 * _LANES  # beside a row, of each thread: what a router gives, and coefficients

# Words of all phases; the first has their code (phase.py). ALL: f32 [rows][STREAMS][width].
ALL = 2
# An output that is first added to the streams but the first, and the weights of its norm; of PREDICT and PART_STREAMS.
# Of CORRECT: what the feed-forward gives. Address 0: there is none.
ADDED, ADDED_NORM, EPSILON = range(3, 6)
# Words of PREDICT and CORRECT. LAST: weights of the norm before attention; or the scale of what gates embeddings.
ROUTER_NORM, ROUTER, COEFFICIENTS, LAST = range(6, 10)
# Words of MERGE_STREAMS: f32 [wanted rows][width] of each stream but the first.
MERGED, LAST_NORM = 6, 9


@define(VOID, INT, INT, INT)
def _mix(b: Builder, x: Value, coefficients: Value, count: Value) -> None:
    """Every stream takes of all streams: x_i += sum of c_ij x_j."""
    places = [b.add(x, b.mul(count, number(4 * i))) for i in range(STREAMS)]
    factors = [
        splat(b, load(b, ahead(b, coefficients, 4 * i), f32)) for i in range(STREAMS * STREAMS)
    ]
    with loop(b, vectors(b, count)) as each:
        values = [load(b, at(b, place, each.index, 64)) for place in places]
        for i, place in enumerate(places):
            total = values[i]
            for j, value in enumerate(values):
                total = fma(b, value, factors[STREAMS * i + j], total)
            store(b, total, at(b, place, each.index, 64))


@define(VOID, INT, INT, INT, INT)
def _correct(b: Builder, x: Value, made: Value, coefficients: Value, count: Value) -> None:
    """x_i += c_i (made - x_0)"""
    places = [b.add(x, b.mul(count, number(4 * i))) for i in range(STREAMS)]
    factors = [splat(b, load(b, ahead(b, coefficients, 4 * i), f32)) for i in range(STREAMS)]
    with loop(b, vectors(b, count)) as each:
        values = [load(b, at(b, place, each.index, 64)) for place in places]
        change = b.fsub(load(b, at(b, made, each.index, 64)), values[0])
        for place, value, factor in zip(places, values, factors, strict=True):
            store(b, fma(b, change, factor, value), at(b, place, each.index, 64))


@define(VOID, INT)
def _bend(b: Builder, x: Value) -> None:
    """tanh of one vector."""
    store(b, capped(b, load(b, x), floats(1.0)), x)


@compiled
def _route(row: Any, x: Any, free: Any, made: Any, count: Any, width: Any) -> None:
    """Write `count` coefficients of row x to `made`, which room for the router's vector follows. `free`: for a row."""
    norm(on.RMS_NORM, x, word(row + 8 * ROUTER_NORM), 0, real(row + 8 * EPSILON), free, width)
    routed, router = made + 4 * _LANES, word(row + 8 * ROUTER)
    clear(routed, _LANES)
    for i in range(STREAMS):
        put_real(routed + 4 * i, dot(free, router + i * width * 4, width) / np.float32(width))
    _bend(routed)
    table = word(row + 8 * COEFFICIENTS)
    for i in range(count):
        total = real(table + 16 * i) * real(routed)
        for j in range(1, STREAMS):
            total += real(table + 16 * i + 4 * j) * real(routed + 4 * j)
        put_real(made + 4 * i, total)


@compiled
def _add_to_others(row: Any, m: Any, x: Any, free: Any, width: Any) -> None:
    """Add the normed output to all streams but the first."""
    if word(row + 8 * ADDED):
        weights, epsilon = word(row + 8 * ADDED_NORM), real(row + 8 * EPSILON)
        norm(on.RMS_NORM, word(row + 8 * ADDED) + m * width * 4, weights, 0, epsilon, free, width)
        for i in range(1, STREAMS):
            add_into(x + i * width * 4, free, width)


@compiled
def _round_input(source: Any, i: Any, width: Any) -> None:
    """Row `i` of an input, whose floats are there. `source`: where the board has its addresses."""
    x, groups = word(source) + i * width * 4, width // 32
    quantise(x, word(source + 8) + i * width, word(source + 16) + i * groups * 16, groups)


@compiled
def _predict(board: Any, row: Any, m: Any, x: Any, free: Any, width: Any) -> None:
    """The residual becomes the first stream plus what attention takes: LAuReL adds that too (program/streams.py)."""
    _add_to_others(row, m, x, free, width)
    made = free + width * 4
    _route(row, x, free, made, STREAMS * STREAMS, width)
    _mix(x, made, width)
    out = word(board + 8 * on.INPUT_FLOATS) + m * width * 4
    norm(on.RMS_NORM, x, word(row + 8 * LAST), 0, real(row + 8 * EPSILON), out, width)
    _round_input(board + 8 * on.INPUT_FLOATS, m, width)
    residual = word(board + 8 * on.RESIDUAL) + m * width * 4
    copy(x, residual, width)
    add_into(residual, out, width)


@compiled
def _take_corrected(board: Any, row: Any, m: Any, x: Any, free: Any, width: Any) -> None:
    """The feed-forward's output is added to the residual, which corrects the streams. The first becomes the input."""
    made = free + width * 4
    residual = word(board + 8 * on.RESIDUAL) + m * width * 4
    weights, epsilon = word(row + 8 * ADDED_NORM), real(row + 8 * EPSILON)
    norm(on.RMS_NORM, word(row + 8 * ADDED) + m * width * 4, weights, 0, epsilon, free, width)
    add_into(residual, free, width)
    _route(row, residual, free, made, STREAMS, width)
    for i in range(STREAMS):
        put_real(made + 4 * i, real(made + 4 * i) + np.float32(1))
    _correct(x, residual, made, width)
    multiply(x, word(row + 8 * LAST), word(board + 8 * on.INPUT_FLOATS) + m * width * 4, width)
    _round_input(board + 8 * on.INPUT_FLOATS, m, width)


@compiled
def _make_as_long(x: Any, like: Any, width: Any) -> None:
    own = np.float32(math.sqrt(dot(x, x, width)))
    length = np.float32(math.sqrt(dot(like, like, width)))
    scale(length / max(own, np.float32(_LEAST_LENGTH)), x, x, width)


@compiled
def _spread(board: Any, m: Any, x: Any, width: Any) -> None:
    """The residual becomes the first stream; the others, products of it, are made as long."""
    copy(word(board + 8 * on.RESIDUAL) + m * width * 4, x, width)
    for i in range(1, STREAMS):
        _make_as_long(x + i * width * 4, x, width)


@compiled
def _part(board: Any, row: Any, m: Any, i: Any, x: Any, free: Any, width: Any) -> None:
    """All streams of row `m` but the first become rows `i` of three inputs."""
    _add_to_others(row, m, x, free, width)
    for k in range(1, STREAMS):
        source = board + 8 * (on.INPUT_FLOATS + 3 * (k - 1))
        copy(x + k * width * 4, word(source) + i * width * 4, width)
        _round_input(source, i, width)


@compiled
def _merge(board: Any, row: Any, i: Any, x: Any, width: Any) -> None:
    """The mean of the first stream and of products of the others, made as long, is normed: row `i` of the input."""
    for k in range(STREAMS - 1):
        _make_as_long(word(row + 8 * (MERGED + k)) + i * width * 4, x, width)
    for k in range(STREAMS - 1):
        add_into(x, word(row + 8 * (MERGED + k)) + i * width * 4, width)
    scale(np.float32(1 / STREAMS), x, x, width)
    out = word(board + 8 * on.INPUT_FLOATS) + i * width * 4
    norm(on.RMS_NORM, x, word(row + 8 * LAST_NORM), 0, real(row + 8 * EPSILON), out, width)
    _round_input(board + 8 * on.INPUT_FLOATS, i, width)


@compiled
def streams_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """Every row of the step; after the last layer every row that wants logits."""
    kind = word(row)
    is_last = kind == on.PART_STREAMS or kind == on.MERGE_STREAMS
    count = word(board + 8 * on.WANTED) if is_last else word(board + 8 * on.ROWS)
    width, wanted = word(board + 8 * on.WIDTH), word(board + 8 * on.WANTED_ROWS)
    free = word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES)
    done, i = 0, fetch_add(counter, 1)
    while i < count:
        done += 1
        m = word(wanted + 8 * i) if is_last else i
        x = word(row + 8 * ALL) + m * STREAMS * width * 4
        if kind == on.PREDICT:
            _predict(board, row, m, x, free, width)
        elif kind == on.CORRECT:
            _take_corrected(board, row, m, x, free, width)
        elif kind == on.SPREAD:
            _spread(board, m, x, width)
        elif kind == on.PART_STREAMS:
            _part(board, row, m, i, x, free, width)
        else:
            _merge(board, row, i, x, width)
        i = fetch_add(counter, 1)
    finish(board, counter, done, count)
