"""Phases of the MTP layer (architectures/parts/drafts.py).

PAIR makes its input: of each row the embedding of the token and what the model made of the token before, each normed,
side by side. HAND_ON keeps what the model makes of tokens for the rows that follow in later steps.
"""

from typing import Any

import numpy as np

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.products.product import take_row
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import fetch_add, real, word
from segue.runners.cpu.step.pieces import finish
from segue.runners.cpu.step.rows import token_of
from segue.runners.cpu.step.vectors.elementwise import clear, copy, scale
from segue.runners.cpu.step.vectors.rows import norm, quantise

# Words of PAIR; the first has the code (phase.py). EMBEDDING: matrix; the norms' weights; NORM: their kind.
EMBEDDING, EMBEDDING_SCALE, TOKEN_NORM, MADE_NORM, NORM, EPSILON = range(2, 8)


@compiled
def _pair(board: Any, row: Any, m: Any) -> None:
    width = word(board + 8 * on.WIDTH)
    first = word(board + 8 * on.HIDDEN_FLOATS) + m * 2 * width * 4
    second = first + width * 4
    kind, epsilon = word(row + 8 * NORM), real(row + 8 * EPSILON)
    take_row(word(row + 8 * EMBEDDING), token_of(board, m), first)
    factor = real(row + 8 * EMBEDDING_SCALE)
    if factor != np.float32(0):
        scale(factor, first, first, width)
    norm(kind, first, word(row + 8 * TOKEN_NORM), 0, epsilon, first, width)
    made = word(word(board + 8 * on.HIDDEN_BEFORE) + 8 * m)
    if made:
        norm(kind, made, word(row + 8 * MADE_NORM), 0, epsilon, second, width)
    else:
        clear(second, width)
    groups = 2 * width // 32
    quantise(
        first,
        word(board + 8 * on.HIDDEN_BYTES) + m * 2 * width,
        word(board + 8 * on.HIDDEN_SCALES) + m * groups * 16,
        groups,
    )


@compiled
def _hand_on(board: Any, m: Any) -> None:
    place, width = word(word(board + 8 * on.HANDED_ON) + 8 * m), word(board + 8 * on.WIDTH)
    if place:
        copy(word(board + 8 * on.INPUT_FLOATS) + m * width * 4, place, width)


@compiled
def drafts_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """Every row of the step."""
    kind, count = word(row), word(board + 8 * on.ROWS)
    done, m = 0, fetch_add(counter, 1)
    while m < count:
        done += 1
        if kind == on.PAIR:
            _pair(board, row, m)
        else:
            _hand_on(board, m)
        m = fetch_add(counter, 1)
    finish(board, counter, done, count)
