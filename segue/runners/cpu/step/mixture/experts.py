"""Phases of a mixture of experts: rows that have chosen the same expert (routing.py) are computed together.

A row's experts are added up in the order of their scores, so its bits do not depend on the rows beside it.
"""

from typing import Any

import numpy as np

from segue.runners.cpu.emit import Builder, Value, at, i32, load, loop, store
from segue.runners.cpu.kernel import INT, VOID, compiled, define
from segue.runners.cpu.products.kernels import TILES
from segue.runners.cpu.products.product import product
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step import products as words
from segue.runners.cpu.step.atomics import fetch_add, put_word, real, word
from segue.runners.cpu.step.mixture.routing import (
    ACTIVE,
    CHOSEN,
    COUNT,
    FILLED,
    ORDER,
    PLACES,
    SHARES,
    USED,
    route_phase,
)
from segue.runners.cpu.step.pieces import finish, over_rows, piece
from segue.runners.cpu.step.products import gated_unit
from segue.runners.cpu.step.vectors.elementwise import add_into, add_scaled, scale
from segue.runners.cpu.step.vectors.functions import sigmoid_of
from segue.runners.cpu.step.vectors.rows import dot, norm, quantise

TAKES_FLOATS, WEIGHS = 1, 2  # words of GATHER. WEIGHS: rows are multiplied by their shares
DOWN, OUT = 1, 2  # words of EXPERTS_DOWN and COMBINE
WEIGHED = 3  # of COMBINE: rows were multiplied by their shares before
DOWN_BIAS, ADDED, SHARED, SHARED_GATE = range(4, 8)
# Weights of norms of what experts, and a shared one, give, or 0; SHARED_SHARE: of the shared one, if it has no gate.
OUT_NORM, SHARED_NORM, EPSILON, SHARED_SHARE = range(17, 21)


@define(VOID, INT, INT, INT)
def _copy(b: Builder, x: Value, out: Value, count: Value) -> None:
    """Copy `count` words of four bytes."""
    with loop(b, count) as each:
        store(b, load(b, at(b, x, each.index, 4), i32), at(b, out, each.index, 4))


@compiled
def sort_phase(board: Any, row: Any, counter: Any) -> None:
    """Sort rows by expert; within an expert they keep the order of the step. Done by one thread."""
    done = int(fetch_add(counter, 1) == 0)
    if done:
        put_word(counter + 8 * on.ACTIVE_EXPERTS, _sort(board, row))
    finish(board, counter, done, 1)


@compiled
def _sort(board: Any, row: Any) -> Any:
    """Returns how many experts have rows."""
    count, used = word(row + 8 * COUNT), word(row + 8 * USED)
    chosen, places, order = word(row + 8 * CHOSEN), word(row + 8 * PLACES), word(row + 8 * ORDER)
    active, filled = word(row + 8 * ACTIVE), word(row + 8 * FILLED)
    many = used * word(board + 8 * on.ROWS)
    for expert in range(count):
        put_word(filled + 8 * expert, 0)
    for i in range(many):
        place = filled + 8 * word(chosen + 8 * i)
        put_word(place, word(place) + 1)
    first, found = 0, 0
    for expert in range(count):
        rows = word(filled + 8 * expert)
        put_word(filled + 8 * expert, first)
        if rows:
            entry = active + 24 * found
            put_word(entry, expert)
            put_word(entry + 8, first)
            put_word(entry + 16, rows)
            found += 1
        first += rows
    for i in range(many):
        place = filled + 8 * word(chosen + 8 * i)
        put_word(places + 8 * i, word(place))
        put_word(order + 8 * word(place), i // used)
        put_word(place, word(place) + 1)
    return found


@compiled
def _active_experts(counter: Any, phases: Any) -> Any:
    """How many experts have rows; SORT was `phases` before. Not the next layer's number, if this thread comes late."""
    return word(counter - 8 * on.COUNTER_WORDS * phases + 8 * on.ACTIVE_EXPERTS)


@compiled
def _weigh(board: Any, row: Any, m: Any, i: Any) -> None:
    """Row `m` of the input, times its share of the expert that takes it, becomes row `i` of the experts' inputs."""
    width, used = word(board + 8 * on.WIDTH), word(row + 8 * USED)
    share = np.float32(0)
    for k in range(m * used, (m + 1) * used):
        if word(word(row + 8 * PLACES) + 8 * k) == i:
            share = real(word(row + 8 * SHARES) + 4 * k)
    out = word(board + 8 * on.EXPERT_FLOATS) + i * width * 4
    scale(share, word(board + 8 * on.INPUT_FLOATS) + m * width * 4, out, width)
    scales = word(board + 8 * on.EXPERT_SCALES) + i * width // 2
    quantise(out, word(board + 8 * on.EXPERT_BYTES) + i * width, scales, width // 32)


@compiled
def gather_phase(board: Any, row: Any, counter: Any) -> None:
    """Copy the input rows of each expert next to each other."""
    width = word(board + 8 * on.WIDTH)
    groups, many = width // 32, word(row + 8 * USED) * word(board + 8 * on.ROWS)
    done, i = 0, fetch_add(counter, 1)
    while i < many:
        done += 1
        m = word(word(row + 8 * ORDER) + 8 * i)
        if word(row + 8 * WEIGHS):
            _weigh(board, row, m, i)
            i = fetch_add(counter, 1)
            continue
        for which in range(3):
            if which == 0 and not word(row + 8 * TAKES_FLOATS):
                continue
            words_each = width // 4 if which == 1 else width
            if which == 2:
                words_each = 4 * groups
            source = word(board + 8 * (on.INPUT_FLOATS + which))
            target = word(board + 8 * (on.EXPERT_FLOATS + which))
            _copy(source + m * words_each * 4, target + i * words_each * 4, words_each)
        i = fetch_add(counter, 1)
    finish(board, counter, done, many)


@compiled
def experts_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """Gate, up and activation of every expert that has rows."""
    active, width = word(row + 8 * ACTIVE), word(board + 8 * on.WIDTH)
    hidden, unit = word(row + 8 * words.HIDDEN), max(32, word(row + 8 * words.TILE))
    units = (hidden + unit - 1) // unit
    total = units * _active_experts(counter, 2)
    taken = piece(total, word(board + 8 * on.ROWS), word(board + 8 * on.THREADS))
    done, begin = 0, fetch_add(counter, taken)
    while begin < total:
        done += min(taken, total - begin)
        for i in range(begin, min(total, begin + taken)):
            entry = active + 24 * (i // units)
            expert, first, count = word(entry), word(entry + 8), word(entry + 16)
            gates = word(row + 8 * words.GATE)
            gate = word(gates + 8 * expert) if gates else 0
            up = word(word(row + 8 * words.UP) + 8 * expert)
            gate_bias, up_bias = word(row + 8 * words.GATE_BIAS), word(row + 8 * words.UP_BIAS)
            if gate_bias:
                gate_bias += expert * hidden * 4
            if up_bias:
                up_bias += expert * hidden * 4
            floats = word(board + 8 * on.EXPERT_FLOATS) + first * width * 4
            a = word(board + 8 * on.EXPERT_BYTES) + first * width
            scales = word(board + 8 * on.EXPERT_SCALES) + first * width // 2
            gated_unit(
                board,
                row,
                tid,
                gate,
                up,
                gate_bias,
                up_bias,
                count,
                a,
                scales,
                floats,
                i % units,
                first,
            )
        begin = fetch_add(counter, taken)
    finish(board, counter, done, total)


@compiled
def experts_down_phase(board: Any, row: Any, counter: Any) -> None:
    active, width = word(row + 8 * ACTIVE), word(board + 8 * on.WIDTH)
    hidden, table = word(row + 8 * words.HIDDEN), word(row + 8 * DOWN)
    tiles = word(word(table) + 8 * TILES)
    experts = _active_experts(counter, 3)
    rows, threads = word(board + 8 * on.ROWS), word(board + 8 * on.THREADS)
    taken = min(tiles, piece(tiles * experts, rows, threads))
    pieces = (tiles + taken - 1) // taken
    done, i = 0, fetch_add(counter, 1)
    while i < pieces * experts:
        done += 1
        entry = active + 24 * (i // pieces)
        expert, first, count = word(entry), word(entry + 8), word(entry + 16)
        low = i % pieces * taken
        product(
            word(table + 8 * expert),
            count,
            word(board + 8 * on.HIDDEN_BYTES) + first * hidden,
            word(board + 8 * on.HIDDEN_SCALES) + first * hidden // 2,
            word(board + 8 * on.HIDDEN_FLOATS) + first * hidden * 4,
            word(row + 8 * OUT) + first * width * 4,
            width,
            low,
            min(tiles, low + taken),
        )
        i = fetch_add(counter, 1)
    finish(board, counter, done, pieces * experts)


@over_rows
@compiled
def combine_phase(board: Any, row: Any, m: Any) -> None:
    """Sum the outputs of a row's experts, weighted by their shares, and the output of the shared expert."""
    width, used = word(board + 8 * on.WIDTH), word(row + 8 * USED)
    out = word(row + 8 * ADDED) + m * width * 4
    for k in range(used):
        i = m * used + k
        x = word(row + 8 * OUT) + word(word(row + 8 * PLACES) + 8 * i) * width * 4
        share = np.float32(1)
        if not word(row + 8 * WEIGHED):
            share = real(word(row + 8 * SHARES) + 4 * i)
        if word(row + 8 * DOWN_BIAS):
            expert = word(word(row + 8 * CHOSEN) + 8 * i)
            add_into(x, word(row + 8 * DOWN_BIAS) + expert * width * 4, width)
        if k == 0:
            scale(share, x, out, width)
        else:
            add_scaled(share, x, out, width)
    epsilon = real(row + 8 * EPSILON)
    if word(row + 8 * OUT_NORM):
        norm(on.RMS_NORM, out, word(row + 8 * OUT_NORM), 0, epsilon, out, width)
    if word(row + 8 * SHARED):
        x = word(row + 8 * SHARED) + m * width * 4
        if word(row + 8 * SHARED_NORM):
            norm(on.RMS_NORM, x, word(row + 8 * SHARED_NORM), 0, epsilon, x, width)
        share = real(row + 8 * SHARED_SHARE)
        if word(row + 8 * SHARED_GATE):
            normed = word(board + 8 * on.INPUT_FLOATS) + m * width * 4
            share = sigmoid_of(dot(normed, word(row + 8 * SHARED_GATE), width))
        add_scaled(share, x, out, width)


@compiled
def mixture_phase(board: Any, row: Any, counter: Any, tid: Any, kind: Any) -> None:
    if kind == on.ROUTE:
        route_phase(board, row, counter)
    elif kind == on.SORT:
        sort_phase(board, row, counter)
    elif kind == on.GATHER:
        gather_phase(board, row, counter)
    elif kind == on.EXPERTS:
        experts_phase(board, row, counter, tid)
    elif kind == on.EXPERTS_DOWN:
        experts_down_phase(board, row, counter)
    elif kind == on.COMBINE:
        combine_phase(board, row, counter)
