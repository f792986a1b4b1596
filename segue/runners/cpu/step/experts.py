"""Phases of a mixture of experts: each row chooses a few experts, and rows with the same expert are computed together.

A row's experts are added up in the order of their scores, so its bits do not depend on the rows beside it.
"""

from typing import Any

import numpy as np

from segue.runners.cpu.emit import Builder, Value, at, i32, load, loop, splat, store
from segue.runners.cpu.kernel import FLOAT, INT, VOID, compiled, define
from segue.runners.cpu.products.kernels import TILES
from segue.runners.cpu.products.product import product
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step import products as words
from segue.runners.cpu.step.atomics import fetch_add, put_real, put_word, real, word
from segue.runners.cpu.step.attention.shares import exp_one
from segue.runners.cpu.step.halves import lane
from segue.runners.cpu.step.lanes import add_into, add_scaled, dot, norm, scale, sigmoid
from segue.runners.cpu.step.pieces import finish, piece
from segue.runners.cpu.step.products import gated_unit

_LEAST_SHARE = 6.103515625e-5  # lower bound for the sum of the chosen shares: no division by 0
_LOWEST = -3e38  # no score counts as lower
_TAKEN = -np.inf  # the score of an expert that was chosen
_NOT_A_NUMBER = np.float32(np.nan)

# Words of the instructions. From SCORES on, they are the same in all instructions of a mixture.
(
    SCORES,  # f32 [rows][experts]
    COUNT,  # number of experts
    USED,  # experts per row
    CHOSEN,  # i64 [rows][used]
    SHARES,  # f32 [rows][used]
    PLACES,  # i64 [rows][used]: which row of the experts' inputs and outputs it is
    ORDER,  # i64 [rows * used]: which row of the step each of those is
    ACTIVE,  # i64 [experts that have rows][3]: its number, first row, rows
    FILLED,  # i64 [experts]: counters for sorting
) = range(8, 17)
# Words of ROUTE. CHANCES: f32 [rows][experts] where experts are not chosen by their scores, else 0.
# EXPERT_SCALES: f32 [experts], factors of the experts' shares, or 0.
ROUTING, SCORE_BIAS, CHANCES, CHOICE_BIAS, SHARE_SCALE, EXPERT_SCALES = range(1, 7)
TAKES_FLOATS = 1  # a word of GATHER
DOWN, OUT = 1, 2  # words of EXPERTS_DOWN and COMBINE
DOWN_BIAS, ADDED, SHARED, SHARED_GATE = range(4, 8)
OUT_NORM, SHARED_NORM, EPSILON = range(
    17, 20
)  # weights of norms of what experts, and a shared one, give; or 0


@define(VOID, INT, INT, INT)
def _copy(b: Builder, x: Value, out: Value, count: Value) -> None:
    """Copy `count` words of four bytes."""
    with loop(b, count) as each:
        store(b, load(b, at(b, x, each.index, 4), i32), at(b, out, each.index, 4))


@define(FLOAT, FLOAT)
def _sigmoid(b: Builder, x: Value) -> Value:
    return lane(b, sigmoid(b, splat(b, x)), 0)


@compiled
def _take_chances(row: Any, scores: Any, chances: Any, greatest: Any, total: Any) -> None:
    """Store an expert's chance: the sigmoid of its score, or softmax. Its score becomes what it is chosen by."""
    routing, bias = word(row + 8 * ROUTING), word(row + 8 * CHOICE_BIAS)
    is_sigmoid = routing == on.SIGMOID or routing == on.SIGMOID_RENORMALISED
    for i in range(word(row + 8 * COUNT)):
        score = real(scores + 4 * i)
        chance = _sigmoid(score) if is_sigmoid else exp_one(score - greatest) / total
        put_real(chances + 4 * i, chance)
        if bias:
            chance += real(bias + 4 * i)
        put_real(scores + 4 * i, chance if chance > _LOWEST else np.float32(_LOWEST))


@compiled
def _choose(row: Any, m: Any) -> None:
    """Store the best experts of a row, the lower number first among equals, and their shares.

    Never one twice, whatever the scores: an expert's memory has room for each row once. A row with a score that is
    not a number gets shares that are none.
    """
    count, used = word(row + 8 * COUNT), word(row + 8 * USED)
    scores = word(row + 8 * SCORES) + m * count * 4
    chosen = word(row + 8 * CHOSEN) + m * used * 8
    shares = word(row + 8 * SHARES) + m * used * 4
    bias, routing = word(row + 8 * SCORE_BIAS), word(row + 8 * ROUTING)
    greatest, spoilt = np.float32(_LOWEST), np.float32(0)
    for i in range(count):
        score = real(scores + 4 * i)
        if bias:
            score += real(bias + 4 * i)
        if score != score:
            spoilt = _NOT_A_NUMBER
        if not score > _LOWEST:
            score = np.float32(_LOWEST)
        put_real(scores + 4 * i, score)
        greatest = max(greatest, score)
    total = np.float32(0)
    for i in range(count):
        total += exp_one(real(scores + 4 * i) - greatest)
    chances = word(row + 8 * CHANCES)
    if chances:
        chances += m * count * 4
        _take_chances(row, scores, chances, greatest, total)
    chosen_total = np.float32(0)
    for k in range(used):
        best = 0
        for i in range(1, count):
            if real(scores + 4 * i) > real(scores + 4 * best):
                best = i
        if chances:
            share = real(chances + 4 * best)
        else:
            share = exp_one(real(scores + 4 * best) - greatest)
            if routing != on.OF_THE_CHOSEN:
                share /= total
        share += spoilt
        chosen_total += share
        put_word(chosen + 8 * k, best)
        put_real(shares + 4 * k, share)
        put_real(scores + 4 * best, np.float32(_TAKEN))
    factor = real(row + 8 * SHARE_SCALE)
    if routing == on.SOFTMAX or routing == on.SIGMOID:
        chosen_total = np.float32(1)
    chosen_total = max(chosen_total, np.float32(_LEAST_SHARE))
    for k in range(used):
        share = real(shares + 4 * k) / chosen_total
        if word(row + 8 * EXPERT_SCALES):
            share *= real(word(row + 8 * EXPERT_SCALES) + 4 * word(chosen + 8 * k))
        put_real(shares + 4 * k, share * factor if factor != np.float32(0) else share)


@compiled
def route_phase(board: Any, row: Any, counter: Any) -> None:
    count = word(board + 8 * on.ROWS)
    done, m = 0, fetch_add(counter, 1)
    while m < count:
        done += 1
        _choose(row, m)
        m = fetch_add(counter, 1)
    finish(board, counter, done, count)


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
def gather_phase(board: Any, row: Any, counter: Any) -> None:
    """Copy the input rows of each expert next to each other."""
    width = word(board + 8 * on.WIDTH)
    groups, many = width // 32, word(row + 8 * USED) * word(board + 8 * on.ROWS)
    done, i = 0, fetch_add(counter, 1)
    while i < many:
        done += 1
        m = word(word(row + 8 * ORDER) + 8 * i)
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
            gate = word(word(row + 8 * words.GATE) + 8 * expert)
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


@compiled
def combine_phase(board: Any, row: Any, counter: Any) -> None:
    """Sum the outputs of a row's experts, weighted by their shares, and the output of the shared expert."""
    width, used = word(board + 8 * on.WIDTH), word(row + 8 * USED)
    done, m = 0, fetch_add(counter, 1)
    while m < word(board + 8 * on.ROWS):
        done += 1
        out = word(row + 8 * ADDED) + m * width * 4
        for k in range(used):
            i = m * used + k
            x = word(row + 8 * OUT) + word(word(row + 8 * PLACES) + 8 * i) * width * 4
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
            share = np.float32(1)
            if word(row + 8 * SHARED_GATE):
                normed = word(board + 8 * on.INPUT_FLOATS) + m * width * 4
                share = _sigmoid(dot(normed, word(row + 8 * SHARED_GATE), width))
            add_scaled(share, x, out, width)
        m = fetch_add(counter, 1)
    finish(board, counter, done, word(board + 8 * on.ROWS))


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
