"""Heads whose state is a matrix S of keys by values, which each row changes and reads: delta nets and RWKV.

S is read for a row in the pass in which it takes the change of the row before. So a state is S before the last row, and
then that row's change. Columns of values do not depend on each other: 32 of them stay in the first-level cache while
the rows of a span go by.

After rows that may be given back, drafts, S is that before the first of them: it stays as it is while they are computed
aside, and their changes follow it.

A head's state in memory: S as [value / 32][key][value % 32], and changes.
"""

from typing import Any, NamedTuple

from segue.runners.cpu.emit import Builder, Value, at, loop
from segue.runners.cpu.kernel import INT, VOID, compiled, define
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import word
from segue.runners.cpu.step.attention.loading import fetch
from segue.runners.cpu.step.recurrent.scratch import CHUNK, COLUMNS, MOST_PREPARED
from segue.runners.cpu.step.recurrent.spans import Kernel, over_spans
from segue.runners.cpu.step.vectors.elementwise import clear, copy, vectors

# The first words of an instruction.
(
    HEADS,
    SIZE,
    STATE,  # where the heads' states begin in a slot's state
    HEAD_BYTES,  # of a head's state
    RECORD_BYTES,  # of a row that is prepared; from there to what it changes; floats of that
    CHANGE_START,
    CHANGE_FLOATS,
    OWN,  # those of a kind of layer follow
) = range(1, 9)


class Matrices(NamedTuple):
    """What kinds of layers differ in: kernels. Beside them, what they are given; `record`: where a row is prepared."""

    # What is done to a row.
    prepare: Kernel  # row, m, head, record
    expect: Kernel  # board, row, m, head: ask for what it reads and writes, which comes soon
    finish: Kernel  # board, row, m, head, record
    # What is done to columns. `columns`: source, to, size, offset of Columns.
    take: Kernel  # row, change, *columns
    answer: Kernel  # row, m, head, change before it or 0, record, out, *columns


@define(VOID, INT, INT)
def prefetch(b: Builder, place: Value, count: Value) -> None:
    """Ask for numbers: no processor guesses where those of the next row are, if rows are far apart."""
    with loop(b, vectors(b, count)) as each:
        fetch(b, at(b, place, each.index, 64))


@compiled
def expect_nothing(board: Any, row: Any, m: Any, head: Any) -> None:
    """For layers whose rows lie where processors find them in time."""


@compiled
def _heads(board: Any, row: Any) -> Any:
    return word(row + 8 * HEADS)


@compiled
def _leave(row: Any, records: Any, many: Any, changes: Any, pending: Any, taken: Any) -> None:
    """Keep what is not `taken` of the changes that are pending, and then of those of `many` rows."""
    kept, bytes_each = word(row + 8 * CHANGE_FLOATS), word(row + 8 * RECORD_BYTES)
    bytes_kept, newest = 4 * kept, records + word(row + 8 * CHANGE_START)
    for i in range(taken, pending):
        copy(changes + i * bytes_kept, changes + (i - taken) * bytes_kept, kept)
    for i in range(max(taken - pending, 0), many):
        copy(newest + i * bytes_each, changes + (pending + i - taken) * bytes_kept, kept)


def _advancing(layer: Matrices) -> Kernel:
    """A kernel that computes rows which are prepared."""

    @compiled
    def advance(
        board: Any,
        row: Any,
        head: Any,
        m: Any,
        many: Any,
        state: Any,
        records: Any,
        pending: Any,
        taken: Any,
    ) -> None:
        """`many` rows from `m` on, prepared in `records`, after the changes of `pending` rows before.

        The state takes the first `taken` of all these changes. What follows is computed aside, and its changes
        stay pending.
        """
        size, bytes_each = word(row + 8 * SIZE), word(row + 8 * RECORD_BYTES)
        changes, bytes_kept = state + 4 * size * size, 4 * word(row + 8 * CHANGE_FLOATS)
        row_bytes, last = 4 * size * word(row + 8 * HEADS), word(row + 8 * CHANGE_START)
        outs = word(board + 8 * on.HEADS_FLOATS) + m * row_bytes + head * size * 4
        aside = records + MOST_PREPARED * bytes_each
        for offset in range(0, 4 * size, 4 * COLUMNS):
            block = state + size * offset
            source = block
            for i in range(pending - 1):
                to = block if i < taken else aside
                layer.take(row, changes + i * bytes_kept, source, to, size, offset)
                source = to
            for i in range(many):
                record, out = records + i * bytes_each, outs + i * row_bytes + offset
                if offset == 0 and many == CHUNK:  # more of a prompt may follow
                    layer.expect(board, row, m + i + CHUNK, head)
                before, to = 0, source
                if i:
                    before = record - bytes_each + last
                elif pending:
                    before = changes + (pending - 1) * bytes_kept
                if before:
                    to = block if pending + i - 1 < taken else aside
                layer.answer(row, m + i, head, before, record, out, source, to, size, offset)
                source = to
        _leave(row, records, many, changes, pending, taken)

    return advance


def _preparing(layer: Matrices) -> Kernel:
    """A kernel that computes so many rows as are prepared together."""
    advance = _advancing(layer)

    @compiled
    def compute_some(
        board: Any,
        row: Any,
        head: Any,
        m: Any,
        many: Any,
        state: Any,
        tid: Any,
        pending: Any,
        taken: Any,
    ) -> None:
        """A head's outputs for so many rows as are prepared together."""
        records = word(board + 8 * on.SCRATCH) + tid * word(board + 8 * on.SCRATCH_BYTES)
        bytes_each = word(row + 8 * RECORD_BYTES)
        for i in range(many):
            layer.prepare(row, m + i, head, records + i * bytes_each)
        advance(board, row, head, m, many, state, records, pending, taken)
        for i in range(many):
            layer.finish(board, row, m + i, head, records + i * bytes_each)

    return compute_some


def matrices_phase(layer: Matrices) -> Kernel:
    """Every head of every span."""
    compute_some = _preparing(layer)

    @compiled
    def compute(board: Any, row: Any, span: Any, head: Any, tid: Any) -> None:
        """A head's outputs for all rows of a span."""
        size = word(row + 8 * SIZE)
        start, rows = word(span + 8 * on.SPAN_FIRST), word(span + 8 * on.SPAN_ROWS)
        pending, left = word(span + 8 * on.SPAN_PENDING), word(span + 8 * on.SPAN_LEFT)
        state = word(span + 8 * on.SPAN_STATE) + word(row + 8 * STATE)
        state += head * word(row + 8 * HEAD_BYTES)
        if pending == on.FRESH:
            pending = 0
            clear(state, size * size)
        # Rows whose changes stay pending are computed together, unless it is one: aside is room for some columns only.
        end = rows if left == 1 else max(rows - left, 0)
        for first in range(0, end, CHUNK):
            many = min(CHUNK, end - first)
            taken = pending + many - 1
            compute_some(board, row, head, start + first, many, state, tid, pending, taken)
            pending = 1
        if end < rows:
            many = rows - end
            taken = pending + many - left
            compute_some(board, row, head, start + end, many, state, tid, pending, taken)

    return over_spans(_heads, compute)
