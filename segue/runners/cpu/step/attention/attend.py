"""Attention over blocks of 32 cells: the query heads that share a key head, of one or several rows of a sequence.

A context is processed in segments of 8 blocks: scores of a segment, powers of 2 of them, the sum of values, which is
added to that of the segments before. That order does not depend on which rows share a tile, and so neither do a row's
bits. A row of a tile adds tokens that it does not see with a share of 0.
"""

from typing import Any

import numpy as np

from segue.runners.cpu.emit import LANES
from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.step.atomics import put_real, real, word
from segue.runners.cpu.step.attention.latents import ARE_COPIED, score_latents
from segue.runners.cpu.step.attention.scratch import (
    BLOCK,
    FIRST_ROWS,
    QUERY_PART,
    ROW_BYTES,
    SCORES,
    SEGMENT,
    SUM_BYTES,
    SUMS,
    TILE_ROWS,
    TOPS,
    TOTAL,
)
from segue.runners.cpu.step.attention.softmax import (
    LOST,
    NOTHING,
    cap_scores,
    drop_least,
    greatest,
    is_above,
    lean_scores,
    raise_top,
    shares,
    total_of,
    with_sink,
)
from segue.runners.cpu.step.attention.tiles import (
    FEW,
    HALF_TILE,
    TILE,
    mix_few,
    mix_first_tile,
    mix_tiles,
    score_few,
    score_tiles,
)
from segue.runners.cpu.step.vectors.elementwise import add_into, add_scaled, clear, copy


@compiled
def _seen(context: Any, row: Any, group: Any, start: Any, most: Any) -> Any:
    """How many tokens from `start` on a row sees, at most `most`. Rows differ at the end only."""
    return most if context - start >= most else max(0, min(most, context + row // group - start))


@compiled
def _unseen(context: Any, row: Any, group: Any, start: Any, window: Any) -> Any:
    """How many tokens from `start` on lie before what a row sees. A window below 0: it sees the last chunk of its text,
    which is cut into chunks of that size.
    """
    if window < 0:
        return max(0, (context + row // group - 1) // -window * -window - start)
    return max(0, context + row // group - window - start) if window else 0


@compiled
def _block(base: Any, table: Any, position: Any, stride: Any) -> Any:
    """The address of the block with the token at `position`."""
    return base + word(table + 8 * (position // BLOCK)) * stride


# --- one segment: tokens `begin` … `end` - 1, scores from `start` on ---


@compiled
def _score_segment(
    q: Any,
    rows: Any,
    begin: Any,
    end: Any,
    start: Any,
    keys: Any,
    values: Any,
    stride: Any,
    table: Any,
    size: Any,
    scratch: Any,
    floats: Any,
) -> None:
    """All rows against the segment's keys, which may have the values in them. `floats`: where a block is copied; 0: it
    is read as it is, since the rows are few.
    """
    for position in range(begin, end, BLOCK):
        block = _block(keys, table, position, stride)
        out = scratch + SCORES + 4 * (position - start)
        if position + BLOCK < end:
            following = _block(keys, table, position + BLOCK, stride)
        else:
            following = _block(values, table, begin, stride)
        if keys == values:
            score_latents(q, rows, block, following, floats, out, size)
        elif floats:
            score_tiles(q, rows, block, following, floats, out, size)
        else:
            score_few(q, rows, block, following, out, size)


@compiled
def _mix_segment(
    p: Any,
    rows: Any,
    begin: Any,
    end: Any,
    values: Any,
    after: Any,
    stride: Any,
    table: Any,
    size: Any,
    apart: Any,
    part: Any,
    floats: Any,
    sums: Any,
) -> None:
    """Add the segment's values by their shares at `p`, `size` numbers of each token's `apart`. `after`: the block that
    is read next, or 0. `part`: where the first rows have their sums of the segment.
    """
    firsts = min(rows, TILE) if floats else rows
    clear(part, firsts * size)
    for position in range(begin, end, BLOCK):
        block = _block(values, table, position, stride)
        own, tokens = p + 4 * (position - begin), min(BLOCK, end - position)
        following = block
        if position + BLOCK < end:
            following = _block(values, table, position + BLOCK, stride)
        elif after:
            following = after
        if floats:
            place = floats + (position - begin) * LANES * 4
            mix_first_tile(own, block, following, place, tokens, part, size, size, apart)
        else:
            mix_few(own, rows, block, following, tokens, part, size, apart)
    add_into(sums, part, firsts * size)
    if floats:
        mix_tiles(p, rows, floats, end - begin, sums, size)


@compiled
def _clear_scores(first: Any, until: Any, count: Any, scratch: Any) -> None:
    for row in range(first, until):
        clear(scratch + SCORES + row * ROW_BYTES, count)


@compiled
def _bend(
    first: Any,
    rows: Any,
    group: Any,
    context: Any,
    start: Any,
    count: Any,
    cap: Any,
    slopes: Any,
    scratch: Any,
) -> None:
    """Cap `count` scores of each row, and let them fall with distance."""
    for row in range(first, first + rows):
        scores = scratch + SCORES + row * ROW_BYTES
        if cap != np.float32(0):
            cap_scores(scores, count, cap)
        if slopes:
            own = start - (context + row // group - 1)
            lean_scores(scores, count, own, real(slopes + (row % group) * 4))


@compiled
def _raise(row: Any, low: Any, count: Any, slopes: Any, scratch: Any, size: Any) -> None:
    """A row has a score above all before: make what was added up relative to that."""
    sums, values = scratch + SUMS + row * SUM_BYTES, scratch + TOTAL + row * size * 4
    most, place = greatest(scratch + SCORES + row * ROW_BYTES, low, count), TOPS + row * SUM_BYTES
    if slopes and most - real(scratch + place) > np.float32(LOST):  # else denormal: slow
        clear(sums, LANES)
        clear(values, size)
    raise_top(scratch + place, most, sums, values, size)


@compiled
def _share(
    first: Any, rows: Any, low: Any, count: Any, bound: Any, slopes: Any, scratch: Any, size: Any
) -> None:
    """Turn scores of rows that see the same tokens into shares (not normalised), and add them to each row's sum."""
    scores, tops = scratch + SCORES + first * ROW_BYTES, scratch + TOPS + first * SUM_BYTES
    for row in range(rows):
        if is_above(scores + row * ROW_BYTES, low, count, tops + row * SUM_BYTES):
            _raise(first + row, low, count, slopes, scratch, size)
    shares(scores, rows, low, count, bound, tops, scratch + SUMS + first * SUM_BYTES)


@compiled
def _weigh(
    rows: Any,
    group: Any,
    context: Any,
    start: Any,
    end: Any,
    window: Any,
    cap: Any,
    slopes: Any,
    scratch: Any,
    size: Any,
) -> None:
    """Turn scores into shares, some rows at a time: those of a position, or more where all see the whole segment."""
    bound = min(SEGMENT, -(-(end - start) // BLOCK) * BLOCK)
    hidden = _unseen(context, rows - 1, group, start, window)  # from the last row
    together = FIRST_ROWS if context - start >= SEGMENT and hidden == 0 else group
    row = 0
    while row < rows:
        some = min(together, rows - row)
        low = _unseen(context, row, group, start, window)
        count = _seen(context, row, group, start, SEGMENT)
        if count > low:
            if slopes or cap != np.float32(0):
                _bend(row, some, group, context, start, count, cap, slopes, scratch)
            _share(row, some, low, count, bound, slopes, scratch, size)
            if slopes:
                for i in range(row, row + some):
                    drop_least(scratch + SCORES + i * ROW_BYTES, bound)
        else:
            _clear_scores(row, row + some, bound, scratch)
        row += some


# --- a tile of rows ---


@compiled
def _take_queries(q: Any, rows: Any, padded: Any, size: Any, out: Any) -> None:
    """Copy queries to rows ROW_BYTES apart, one part after the other. Rows that only fill up a tile are 0."""
    for first in range(0, size, QUERY_PART):
        count = min(QUERY_PART, size - first)
        for row in range(rows):
            copy(q + (row * size + first) * 4, out + row * ROW_BYTES, count)
        for row in range(rows, padded):
            clear(out + row * ROW_BYTES, count)
        out += TILE_ROWS * ROW_BYTES


@compiled
def _begin(rows: Any, padded: Any, scratch: Any, size: Any) -> None:
    clear(scratch + SUMS, rows * LANES)
    clear(scratch + TOTAL, padded * size)
    for row in range(rows):
        put_real(scratch + TOPS + row * SUM_BYTES, np.float32(NOTHING))


@compiled
def _finish(
    rows: Any,
    group: Any,
    scratch: Any,
    size: Any,
    out: Any,
    out_bytes: Any,
    head_bytes: Any,
    sinks: Any,
) -> None:
    for row in range(rows):
        place = out + (row // group) * out_bytes + (row % group) * head_bytes
        factor = np.float32(1) / total_of(scratch + SUMS + row * SUM_BYTES)
        if sinks:
            top = real(scratch + TOPS + row * SUM_BYTES)
            factor = with_sink(top, factor, real(sinks + (row % group) * 4))
        # Plus 0, since the sign of a 0 could tell of tokens that the row does not see.
        clear(place, size)
        add_scaled(factor, scratch + TOTAL + row * size * 4, place, size)


@compiled
def attend(
    q: Any,
    rows: Any,
    group: Any,
    context: Any,
    keys: Any,
    values: Any,
    stride: Any,
    table: Any,
    size: Any,
    mixed: Any,
    scratch: Any,
    out: Any,
    out_bytes: Any,
    head_bytes: Any,
    window: Any,
    cap: Any,
    sinks: Any,
    slopes: Any,
    upcoming: Any,
) -> None:
    """`rows` queries [rows][size]: `group` heads a position, the first of which sees `context` tokens. Queries are
    scaled so that scores are exponents of 2.

    `keys` and `values` are those of the head in block 0; the block table is at `table`. If both are one address, keys
    lie token by token, and the first `mixed` numbers of each are its value; else values have the room of keys, and
    `mixed` numbers. Results go to `out`, positions `out_bytes` and heads `head_bytes` apart. A row sees the last
    `window` tokens (0: all; below 0: a chunk); `cap` (0: none) limits scores by tanh; `sinks` (0: none) is the address
    of one score per head that takes a share of the softmax but adds no value; `slopes` (0: none) that of one number per
    head, by which scores fall with each token of distance. `upcoming` (0: none) is the block that will be read after
    this call.
    """
    part = scratch + TOTAL + TILE_ROWS * mixed * 4
    copies, floats, padded, scored = part + FIRST_ROWS * mixed * 4, 0, rows, rows
    if rows > FEW:
        floats = copies
        padded = -(-rows // HALF_TILE) * HALF_TILE
        if keys == values:
            _clear_scores(rows, padded, SEGMENT, scratch)
        else:
            _take_queries(q, rows, padded, size, copies + SEGMENT * size * 4)
            q, scored = copies + SEGMENT * size * 4, padded
    copied = copies if ARE_COPIED and keys == values else floats
    last = context + (rows - 1) // group
    first = _unseen(context, 0, group, 0, window) // BLOCK * BLOCK
    _begin(rows, padded, scratch, mixed)
    start = first // SEGMENT * SEGMENT
    while start < last:
        begin, end = max(first, start), min(last, start + SEGMENT)
        after = _block(keys, table, end, stride) if end < last else upcoming
        _score_segment(
            q, scored, begin, end, start, keys, values, stride, table, size, scratch, copied
        )
        _weigh(rows, group, context, start, end, window, cap, slopes, scratch, mixed)
        p, sums = scratch + SCORES + 4 * (begin - start), scratch + TOTAL
        _mix_segment(
            p, padded, begin, end, values, after, stride, table, mixed, size, part, floats, sums
        )
        start += SEGMENT
    _finish(rows, group, scratch, mixed, out, out_bytes, head_bytes, sinks)
