"""The phase in which each row chooses its experts, and the words that all instructions of a mixture have."""

from typing import Any

import numpy as np
from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, at, cell, f32, greater, load, loop
from segue.runners.cpu.kernel import FLOAT, INT, compiled, define
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import put_real, put_word, real, word
from segue.runners.cpu.step.attention.softmax import exp_one
from segue.runners.cpu.step.pieces import over_rows
from segue.runners.cpu.step.vectors.functions import sigmoid_of

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
# A row chooses among the experts of its best groups; 0: among all.
GROUPS, GROUPS_USED = 17, 18


@compiled
def _take_chances(row: Any, scores: Any, chances: Any, greatest: Any, total: Any) -> None:
    """Store an expert's chance: the sigmoid of its score, or softmax. Its score becomes what it is chosen by."""
    routing, bias = word(row + 8 * ROUTING), word(row + 8 * CHOICE_BIAS)
    is_sigmoid = routing >= on.SIGMOID
    for i in range(word(row + 8 * COUNT)):
        score = real(scores + 4 * i)
        chance = sigmoid_of(score) if is_sigmoid else exp_one(score - greatest) / total
        put_real(chances + 4 * i, chance)
        if routing == on.SIGMOID_BY_SCORE:
            continue
        if bias:
            chance += real(bias + 4 * i)
        put_real(scores + 4 * i, chance if chance > _LOWEST else np.float32(_LOWEST))


@define(FLOAT, INT, INT)
def _group_score(b: Builder, scores: Value, size: Value) -> Value:
    """The sum of the two best scores of a group."""
    best, second = (cell(b, ir.Constant(f32, _TAKEN)) for _ in range(2))
    with loop(b, size) as each:
        score, top = load(b, at(b, scores, each.index, 4), f32), b.load(best)
        lower = b.select(b.fcmp_ordered("<", score, top), score, top)
        b.store(greater(b, lower, b.load(second)), second)
        b.store(greater(b, score, top), best)
    return b.fadd(b.load(best), b.load(second))


@compiled
def _leave_groups(row: Any, scores: Any) -> None:
    """Mark the experts of all groups but the best ones as taken: the worst group first, the last of equal ones."""
    groups = word(row + 8 * GROUPS)
    size = word(row + 8 * COUNT) // groups
    for _gone in range(groups - word(row + 8 * GROUPS_USED)):
        worst, lowest = -1, np.float32(0)
        for i in range(groups):
            first = scores + 4 * size * i
            if real(first) == np.float32(_TAKEN):
                continue
            score = _group_score(first, size)
            if worst < 0 or score <= lowest:
                worst, lowest = i, score
        for i in range(size * worst, size * (worst + 1)):
            put_real(scores + 4 * i, np.float32(_TAKEN))


@over_rows
@compiled
def route_phase(board: Any, row: Any, m: Any) -> None:
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
    if word(row + 8 * GROUPS):
        _leave_groups(row, scores)
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
    if routing == on.SOFTMAX or routing == on.SIGMOID or routing == on.SIGMOID_BY_SCORE:
        chosen_total = np.float32(1)
    chosen_total = max(chosen_total, np.float32(_LEAST_SHARE))
    for k in range(used):
        share = real(shares + 4 * k) / chosen_total
        if word(row + 8 * EXPERT_SCALES):
            share *= real(word(row + 8 * EXPERT_SCALES) + 4 * word(chosen + 8 * k))
        put_real(shares + 4 * k, share * factor if factor != np.float32(0) else share)
