"""Phases of latent attention: one key a token, of which the first part is the value of all heads.

Keys are stored before queries attend to them; queries meet them after each head's own matrix, and what a head takes of
them goes through another one. Heads are worked on a few at a time, so that threads share a row's heads.
"""

from typing import Any

import numpy as np

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.products.kernels import COLUMNS, TILES
from segue.runners.cpu.products.product import product
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import fetch_add, real, word
from segue.runners.cpu.step.attention.attend import attend
from segue.runners.cpu.step.attention.scratch import BLOCK
from segue.runners.cpu.step.attention.storing import put_value
from segue.runners.cpu.step.pieces import finish, over_rows, piece
from segue.runners.cpu.step.vectors.elementwise import scale
from segue.runners.cpu.step.vectors.rotation import rotate
from segue.runners.cpu.step.vectors.rows import norm, quantise

# Words of all instructions but LATENT_PRODUCTS.
(
    KEYS,  # address of the layer's keys in block 0: token by token
    BLOCK_BYTES,  # from one block to the next
    INPUT,  # address of the products' outputs, and bytes per row
    INPUT_ROW,
    KEY,  # offsets in a row of the input
    QUERY,
    RANK,  # numbers of a key that are a value
    TURNED,  # those after them
    PLAIN,  # dimensions of a query head before those that turn
    QUERY_RANK,  # what queries are made of stands first in a row of the input; 0: it is not there
    HEADS,
    SHARED,  # heads worked on together
    NEIGHBOURS,
    COSINES,  # address of [position][pairs]; 0: nothing turns
    SINES,
    SCALE,  # of queries
    TEMPERATURES,  # address of a factor of queries per position; 0: none
    QUERY_NORM,  # weights
    KEY_NORM,
    EPSILON,
) = range(1, 21)
# Words of LATENT_PRODUCTS. The output of a head has SIZE floats of TOGETHER heads', groups of which are as many rows
# apart as the step has.
MATRICES, NUM_HEADS, OUT, TOGETHER, SIZE = range(1, 6)  # OUT: index of a word of the board


@compiled
def _rotate(row: Any, x: Any, position: Any) -> None:
    if word(row + 8 * COSINES) == 0:
        return
    pairs = word(row + 8 * TURNED) // 2
    offset = position * pairs * 4
    cosines, sines = word(row + 8 * COSINES) + offset, word(row + 8 * SINES) + offset
    rotate(x, cosines, sines, x, pairs, word(row + 8 * NEIGHBOURS))


@compiled
def _store_key(board: Any, row: Any, m: Any) -> None:
    """Norm, rotate and store the key of a row, and norm what its queries are made of."""
    base = word(row + 8 * INPUT) + m * word(row + 8 * INPUT_ROW)
    position = word(word(board + 8 * on.POSITIONS) + 8 * m)
    key, rank, epsilon = base + word(row + 8 * KEY), word(row + 8 * RANK), real(row + 8 * EPSILON)
    norm(on.RMS_NORM, key, word(row + 8 * KEY_NORM), 0, epsilon, key, rank)
    _rotate(row, key + 4 * rank, position)
    table, size = word(word(board + 8 * on.TABLES) + 8 * m), rank + word(row + 8 * TURNED)
    block = word(table + 8 * (position // BLOCK)) * word(row + 8 * BLOCK_BYTES)
    put_value(key, word(row + 8 * KEYS) + block, position % BLOCK, size, size)
    asked = word(row + 8 * QUERY_RANK)
    if asked:
        out = word(board + 8 * on.HIDDEN_FLOATS) + m * asked * 4
        norm(on.RMS_NORM, base, word(row + 8 * QUERY_NORM), 0, epsilon, out, asked)
        scales = word(board + 8 * on.HIDDEN_SCALES) + m * asked // 2
        quantise(out, word(board + 8 * on.HIDDEN_BYTES) + m * asked, scales, asked // 32)


@over_rows
@compiled
def keys_phase(board: Any, row: Any, m: Any) -> None:
    _store_key(board, row, m)


@compiled
def _prepare_query(board: Any, row: Any, m: Any, head: Any) -> None:
    """Scale a query head; what turns is a part of the query already, the rest goes to the head's matrix."""
    plain, turned, rows = word(row + 8 * PLAIN), word(row + 8 * TURNED), word(board + 8 * on.ROWS)
    rank, shared = word(row + 8 * RANK), word(row + 8 * SHARED)
    x = word(row + 8 * INPUT) + m * word(row + 8 * INPUT_ROW) + word(row + 8 * QUERY)
    x += head * (plain + turned) * 4
    position = word(word(board + 8 * on.POSITIONS) + 8 * m)
    factor = real(row + 8 * SCALE)
    if word(row + 8 * TEMPERATURES):
        factor *= real(word(row + 8 * TEMPERATURES) + 4 * position)
    place = (head * rows + m) * plain
    out = word(board + 8 * on.LATENT_FLOATS) + place * 4
    scale(factor, x, out, plain)
    scales = word(board + 8 * on.LATENT_SCALES) + place // 2
    quantise(out, word(board + 8 * on.LATENT_BYTES) + place, scales, plain // 32)
    query = ((head // shared * rows + m) * shared + head % shared) * (rank + turned) + rank
    _rotate(row, x + plain * 4, position)
    scale(factor, x + plain * 4, word(board + 8 * on.QUERIES) + query * 4, turned)


@compiled
def queries_phase(board: Any, row: Any, counter: Any) -> None:
    heads = word(row + 8 * HEADS)
    count = heads * word(board + 8 * on.ROWS)
    done, i = 0, fetch_add(counter, 4)
    while i < count:
        done += min(4, count - i)
        for j in range(i, min(count, i + 4)):
            _prepare_query(board, row, j // heads, j % heads)
        i = fetch_add(counter, 4)
    finish(board, counter, done, count)


@compiled
def products_phase(board: Any, row: Any, counter: Any) -> None:
    """Each head's own matrix: all rows of the head, some outputs at a time."""
    table, heads, rows = (
        word(row + 8 * MATRICES),
        word(row + 8 * NUM_HEADS),
        word(board + 8 * on.ROWS),
    )
    together, size = word(row + 8 * TOGETHER), word(row + 8 * SIZE)
    columns, tiles = word(word(table) + 8 * COLUMNS), word(word(table) + 8 * TILES)
    taken = min(tiles, piece(tiles * heads, rows, word(board + 8 * on.THREADS)))
    pieces = (tiles + taken - 1) // taken
    done, i = 0, fetch_add(counter, 1)
    while i < pieces * heads:
        done += 1
        head, low = i // pieces, i % pieces * taken
        place = head * rows * columns
        target = (head // together * rows * together + head % together) * size
        product(
            word(table + 8 * head),
            rows,
            word(board + 8 * on.LATENT_BYTES) + place,
            word(board + 8 * on.LATENT_SCALES) + place // 2,
            word(board + 8 * on.LATENT_FLOATS) + place * 4,
            word(board + 8 * word(row + 8 * OUT)) + target * 4,
            together * size,
            low,
            min(tiles, low + taken),
        )
        i = fetch_add(counter, 1)
    finish(board, counter, done, pieces * heads)


@compiled
def attend_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """Attend for every item and group of heads: the last rows of a prompt first, which see the most tokens."""
    groups, items = word(row + 8 * HEADS) // word(row + 8 * SHARED), word(board + 8 * on.NUM_ITEMS)
    is_fused = word(board + 8 * on.IS_FUSED) != 0
    count = groups * items
    done, i = 0, fetch_add(counter, 1)
    while i < count:
        done += 1
        item = i // groups if is_fused else items - 1 - i % items
        group = i % groups if is_fused else i // items
        place = word(board + 8 * on.ITEMS) + 16 * item
        _attend_item(board, row, word(place), word(place + 8), group, tid)
        i = fetch_add(counter, 1)
    finish(board, counter, done, count)


@compiled
def _attend_item(board: Any, row: Any, first: Any, rows: Any, group: Any, tid: Any) -> None:
    rank, shared = word(row + 8 * RANK), word(row + 8 * SHARED)
    size, all_rows = rank + word(row + 8 * TURNED), word(board + 8 * on.ROWS)
    keys, start = word(row + 8 * KEYS), (group * shared * all_rows + first) * rank
    out = word(board + 8 * on.LATENT_FLOATS) + start * 4
    attend(
        word(board + 8 * on.QUERIES) + (group * all_rows + first) * shared * size * 4,
        rows * shared,
        shared,
        word(word(board + 8 * on.POSITIONS) + 8 * first) + 1,
        keys,
        keys,
        word(row + 8 * BLOCK_BYTES),
        word(word(board + 8 * on.TABLES) + 8 * first),
        size,
        rank,
        word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES),
        out,
        rank * 4,
        all_rows * rank * 4,
        0,
        np.float32(0),
        0,
        0,
        0,
    )
    for i in range(shared):
        place = start + i * all_rows * rank
        quantise(
            word(board + 8 * on.LATENT_FLOATS) + place * 4,
            word(board + 8 * on.LATENT_BYTES) + place,
            word(board + 8 * on.LATENT_SCALES) + place // 2,
            rows * rank // 32,
        )


@compiled
def latent_phase(board: Any, row: Any, counter: Any, tid: Any, kind: Any) -> None:
    if kind == on.LATENT_KEYS:
        keys_phase(board, row, counter)
    elif kind == on.LATENT_QUERIES:
        queries_phase(board, row, counter)
    elif kind == on.LATENT_PRODUCTS:
        products_phase(board, row, counter)
    else:
        attend_phase(board, row, counter, tid)
