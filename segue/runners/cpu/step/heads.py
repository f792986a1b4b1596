"""Phases of attention: rotate queries and keys, store keys and values in the KV cache, then attend."""

from typing import Any

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import fetch_add, real, word
from segue.runners.cpu.step.attention.attend import attend
from segue.runners.cpu.step.attention.loading import LINE
from segue.runners.cpu.step.attention.scratch import BLOCK, TILE_ROWS
from segue.runners.cpu.step.attention.storing import put_key, put_value
from segue.runners.cpu.step.attention.tiles import fetch_ahead
from segue.runners.cpu.step.pieces import finish
from segue.runners.cpu.step.vectors.elementwise import add_into, scale
from segue.runners.cpu.step.vectors.rotation import rotate
from segue.runners.cpu.step.vectors.rows import norm, quantise

# Words of an instruction of either phase.
(
    KEYS,  # addresses of the layer's keys and values
    VALUES,
    BLOCK_BYTES,  # from one block to the next
    INPUT,  # address of the products' outputs, and bytes per row
    INPUT_ROW,
    Q,  # offsets in a row of the input
    K,  # 0: keys and values are those of another layer, which has stored them
    V,
    SIZE,  # of a head
    SHARED,  # query heads per key head
    KEY_HEADS,
    PAIRS,  # pairs of dimensions that RoPE rotates
    NEIGHBOURS,
    COSINES,  # address of [position][pairs]
    SINES,
    SCALE,  # of queries
    Q_BIAS,  # addresses, 0 where there is none
    K_BIAS,
    V_BIAS,
    Q_NORM,
    K_NORM,
    EPSILON,
    NORM,  # its kind
    Q_NORM_BYTES,  # from one head's weights to the next
    K_NORM_BYTES,
    WINDOW,  # tokens that a row sees; 0: all
    CAP,  # of scores; 0: none
    SINKS,  # address of one score per head; 0: none
    NORMS_LAST,  # whether heads are normed after they are rotated
    TEMPERATURES,  # address of a factor of queries per position; 0: none
    V_NORM,  # weights of the norm of values, or 0
    Q_BYTES,  # from one head's queries to the next
    SLOPES,  # address of one number per head, by which scores fall with distance; 0: none
    MIXED,  # numbers of a value
    NORM_BIAS,  # bytes from the weights of a head's norm to its bias; 0: it has none
    HEAD_BYTES,  # of the keys of a head in a block, and of its values
) = range(1, 37)


@compiled
def _turn(row: Any, x: Any, weights: Any, position: Any) -> None:
    """Norm and rotate one head in place, in the order of the model."""
    size, pairs = word(row + 8 * SIZE), word(row + 8 * PAIRS)
    for step in range(2):
        if step == word(row + 8 * NORMS_LAST):
            if weights:
                bias = weights + word(row + 8 * NORM_BIAS) if word(row + 8 * NORM_BIAS) else 0
                norm(word(row + 8 * NORM), x, weights, bias, real(row + 8 * EPSILON), x, size)
        else:
            offset = position * pairs * 4
            cosines, sines = word(row + 8 * COSINES) + offset, word(row + 8 * SINES) + offset
            rotate(x, cosines, sines, x, pairs, word(row + 8 * NEIGHBOURS))


@compiled
def _prepare(board: Any, row: Any, m: Any, head: Any) -> None:
    """Prepare the queries of one key head of one row, and store its key and value, if any, in the KV cache."""
    size, shared = word(row + 8 * SIZE), word(row + 8 * SHARED)
    base = word(row + 8 * INPUT) + m * word(row + 8 * INPUT_ROW)
    position = word(word(board + 8 * on.POSITIONS) + 8 * m)
    table = word(word(board + 8 * on.TABLES) + 8 * m)
    block = word(table + 8 * (position // BLOCK)) * word(row + 8 * BLOCK_BYTES)
    block += head * word(row + 8 * HEAD_BYTES)
    fetch_ahead(word(row + 8 * KEYS) + block, word(row + 8 * HEAD_BYTES) // LINE)
    queries = word(board + 8 * on.QUERIES)
    queries += (head * word(board + 8 * on.ROWS) + m) * shared * size * 4
    factor = real(row + 8 * SCALE)
    if word(row + 8 * TEMPERATURES):
        factor *= real(word(row + 8 * TEMPERATURES) + 4 * position)
    for i in range(shared):
        offset = (head * shared + i) * size * 4
        x = base + word(row + 8 * Q) + (head * shared + i) * word(row + 8 * Q_BYTES)
        if word(row + 8 * Q_BIAS):
            add_into(x, word(row + 8 * Q_BIAS) + offset, size)
        weights = word(row + 8 * Q_NORM) + (head * shared + i) * word(row + 8 * Q_NORM_BYTES)
        _turn(row, x, weights, position)
        scale(factor, x, queries + i * size * 4, size)
    if not word(row + 8 * K):
        return
    key = base + word(row + 8 * K) + head * size * 4
    mixed = word(row + 8 * MIXED)
    value = base + word(row + 8 * V) + head * mixed * 4
    if word(row + 8 * K_BIAS):
        add_into(key, word(row + 8 * K_BIAS) + head * size * 4, size)
    if word(row + 8 * V_BIAS):
        add_into(value, word(row + 8 * V_BIAS) + head * mixed * 4, mixed)
    _turn(row, key, word(row + 8 * K_NORM) + head * word(row + 8 * K_NORM_BYTES), position)
    if word(row + 8 * V_NORM):
        kind, epsilon = word(row + 8 * NORM), real(row + 8 * EPSILON)
        norm(kind, value, word(row + 8 * V_NORM), 0, epsilon, value, mixed)
    place = position % BLOCK
    put_key(key, word(row + 8 * KEYS) + block, place, size)
    put_value(value, word(row + 8 * VALUES) + block, place, mixed, size)


@compiled
def heads_phase(board: Any, row: Any, counter: Any) -> None:
    """Prepare every row and key head. Not needed if the step is fused."""
    heads = word(row + 8 * KEY_HEADS)
    count = heads * word(board + 8 * on.ROWS)
    done, i = 0, fetch_add(counter, 4)
    while i < count:
        done += min(4, count - i)
        for j in range(i, min(count, i + 4)):
            _prepare(board, row, j // heads, j % heads)
        i = fetch_add(counter, 4)
    finish(board, counter, done, count)


@compiled
def _place(board: Any, row: Any, i: Any) -> Any:
    """The address of unit i's item: all heads of a row if the step is fused, else all items of a head."""
    items, heads = word(board + 8 * on.NUM_ITEMS), word(row + 8 * KEY_HEADS)
    index = i // heads if word(board + 8 * on.IS_FUSED) else items - 1 - i % items
    return word(board + 8 * on.ITEMS) + 16 * index


@compiled
def _head(board: Any, row: Any, i: Any) -> Any:
    if word(board + 8 * on.IS_FUSED):
        return i % word(row + 8 * KEY_HEADS)
    return i // word(board + 8 * on.NUM_ITEMS)


@compiled
def _first_block(board: Any, row: Any, i: Any) -> Any:
    """The address of the keys that unit i reads first."""
    item, head = _place(board, row, i), _head(board, row, i)
    table = word(word(board + 8 * on.TABLES) + 8 * word(item))
    block = word(table) * word(row + 8 * BLOCK_BYTES)
    return word(row + 8 * KEYS) + block + head * word(row + 8 * HEAD_BYTES)


@compiled
def attend_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """Attend for every item and key head, the last rows of a prompt first: they see the most tokens.

    A prompt's items are done head by head, so that the keys and values of one head stay in the cache. If there are many
    units with few rows, a thread takes the next one before it works on this one, to prefetch its first keys.
    """
    count = word(row + 8 * KEY_HEADS) * word(board + 8 * on.NUM_ITEMS)
    is_fused = word(board + 8 * on.IS_FUSED) != 0
    takes_ahead = is_fused and count >= 4 * word(board + 8 * on.THREADS)
    done, i = 0, fetch_add(counter, 1)
    while i < count:
        done += 1
        following = fetch_add(counter, 1) if takes_ahead else count
        upcoming = _first_block(board, row, following) if following < count else 0
        item, head = _place(board, row, i), _head(board, row, i)
        first, rows = word(item), word(item + 8)
        if is_fused:
            for m in range(first, first + rows):
                _prepare(board, row, m, head)
        _attend_item(board, row, first, rows, head, tid, upcoming)
        i = following if takes_ahead else fetch_add(counter, 1)
    finish(board, counter, done, count)


@compiled
def _attend_item(
    board: Any, row: Any, first: Any, rows: Any, head: Any, tid: Any, upcoming: Any
) -> None:
    size, shared = word(row + 8 * SIZE), word(row + 8 * SHARED)
    mixed = word(row + 8 * MIXED)
    columns = word(row + 8 * KEY_HEADS) * shared * mixed
    offset = head * word(row + 8 * HEAD_BYTES)
    queries = word(board + 8 * on.QUERIES)
    queries += (head * word(board + 8 * on.ROWS) + first) * shared * size * 4
    out = word(board + 8 * on.HEADS_FLOATS) + (first * columns + head * shared * mixed) * 4
    scratch = word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES)
    table = word(word(board + 8 * on.TABLES) + 8 * first)
    context = word(word(board + 8 * on.POSITIONS) + 8 * first) + 1
    sinks, slopes = word(row + 8 * SINKS), word(row + 8 * SLOPES)
    # Either all heads of several rows, or some heads of one row.
    for i in range(0, shared, TILE_ROWS):
        attend(
            queries + i * size * 4,
            rows * shared if shared <= TILE_ROWS else min(TILE_ROWS, shared - i),
            min(TILE_ROWS, shared),
            context,
            word(row + 8 * KEYS) + offset,
            word(row + 8 * VALUES) + offset,
            word(row + 8 * BLOCK_BYTES),
            table,
            size,
            mixed,
            scratch,
            out + i * mixed * 4,
            columns * 4,
            mixed * 4,
            word(row + 8 * WINDOW),
            real(row + 8 * CAP),
            sinks + (head * shared + i) * 4 if sinks else 0,
            slopes + (head * shared + i) * 4 if slopes else 0,
            upcoming,
        )
    if shared * mixed % 32 == 0:
        _round(board, first, rows, columns, head * shared * mixed, shared * mixed)


@compiled
def _round(board: Any, first: Any, rows: Any, columns: Any, start: Any, count: Any) -> None:
    groups = columns // 32
    for m in range(first, first + rows):
        place = m * groups + start // 32
        quantise(
            word(board + 8 * on.HEADS_FLOATS) + (m * columns + start) * 4,
            word(board + 8 * on.HEADS_BYTES) + m * columns + start,
            word(board + 8 * on.HEADS_SCALES) + place * 16,
            count // 32,
        )
