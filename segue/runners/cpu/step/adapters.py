"""Phases of LoRA adapters: y += scale · B (A x), for the rows that have adapters.

A x is a phase of its own, before the product that it belongs to. B (A x) is added where the product's outputs are
computed: each output sums its ranks in order, then adds the sum to the product. Rows without adapters are not touched,
so their bits do not depend on rows with adapters.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir

from segue.runners.cpu.emit import (
    FLOATS,
    Builder,
    Value,
    ahead,
    at,
    cell,
    f32,
    floats,
    fma,
    load,
    loop,
    number,
    splat,
    store,
    tree,
)
from segue.runners.cpu.kernel import FLOAT, INT, VOID, compiled, define
from segue.runners.cpu.products.kernels import ADAPTED, OUTPUTS
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import fetch_add, real, word
from segue.runners.cpu.step.pieces import finish
from segue.runners.cpu.step.vectors.elementwise import vectors
from segue.runners.cpu.step.vectors.rows import dot

_BYTES = {FLOATS: 64, f32: 4}
_ZEROS = {FLOATS: None, f32: 0.0}
_PARTS = 4  # the ranks of one row and matrix are split among up to four threads
_TOGETHER = 4  # rows or ranks that are computed at once: one sum alone waits for its additions


@define(VOID, FLOAT, INT)
def _put(b: Builder, value: Value, place: Value) -> None:
    store(b, value, place)


def _dots(rows: int, ranks: int) -> Callable[..., None]:
    """A kernel: products of so many rows with so many rows of weights, each as `dot` computes it."""

    @define(VOID, *[INT] * 5)
    def dots(
        b: Builder, count: Value, x: Value, weights: Value, out: Value, out_row: Value
    ) -> None:
        row_bytes = b.mul(count, number(4))
        lefts = [b.add(x, b.mul(row_bytes, number(i))) for i in range(rows)]
        rights = [b.add(weights, b.mul(row_bytes, number(i))) for i in range(ranks)]
        totals = [[cell(b, floats(0.0)) for _ in rights] for _ in lefts]
        with loop(b, vectors(b, count)) as each:
            columns = [load(b, at(b, right, each.index, 64)) for right in rights]
            for left, own in zip(lefts, totals, strict=True):
                values = load(b, at(b, left, each.index, 64))
                for total, column in zip(own, columns, strict=True):
                    b.store(fma(b, values, column, b.load(total)), total)
        for row, own in enumerate(totals):
            place = b.add(out, b.mul(out_row, number(row)))
            for rank, total in enumerate(own):
                store(b, tree(b, b.load(total), b.fadd), ahead(b, place, 4 * rank))

    return dots


_dots_of_one = _dots(1, _TOGETHER)
_dots_of_rows = _dots(_TOGETHER, _TOGETHER)


class _Low(NamedTuple):
    """The outputs of some rows, A x of them, and B."""

    y: Value
    y_row: Value  # bytes from one row to the next
    low: Value
    low_row: Value
    weights: Value  # [rank][outputs]
    rank: Value
    row_bytes: Value  # of weights
    scale: Value


def _tile(b: Builder, given: _Low, first: Value, rows: int, kinds: list[Any]) -> None:
    """y[o] += scale · Σ low[r] · weights[r][o], the sum in the order of r, of some rows and outputs.

    The outputs begin at byte `first`. `kinds`: vectors of them, or one alone. Each lane is one output.
    """
    offsets = [sum(_BYTES[kind] for kind in kinds[:i]) for i in range(len(kinds))]
    totals = [[cell(b, ir.Constant(kind, _ZEROS[kind])) for kind in kinds] for _ in range(rows)]
    with loop(b, given.rank) as each:
        place = b.add(b.add(given.weights, first), b.mul(each.index, given.row_bytes))
        columns = [
            load(b, ahead(b, place, offset), kind)
            for offset, kind in zip(offsets, kinds, strict=True)
        ]
        for row, own in enumerate(totals):
            start = b.add(given.low, b.mul(given.low_row, number(row)))
            factor = load(b, at(b, start, each.index, 4), f32)
            for total, column, kind in zip(own, columns, kinds, strict=True):
                wide = factor if kind is f32 else splat(b, factor)
                b.store(fma(b, wide, column, b.load(total)), total)
    for row, own in enumerate(totals):
        start = b.add(b.add(given.y, first), b.mul(given.y_row, number(row)))
        for total, offset, kind in zip(own, offsets, kinds, strict=True):
            place = ahead(b, start, offset)
            wide = given.scale if kind is f32 else splat(b, given.scale)
            store(b, fma(b, b.load(total), wide, load(b, place, kind)), place)


def _add_low_rank(rows: int, wide: int) -> Callable[..., None]:
    """A kernel for so many rows, `wide` vectors of outputs at once."""

    @define(VOID, *[INT] * 8, FLOAT)
    def add(b: Builder, count: Value, *rest: Value) -> None:
        given = _Low(*rest)
        done = number(0)  # bytes of outputs
        for kinds in ([FLOATS] * wide, [FLOATS], [f32]):
            size = sum(_BYTES[kind] for kind in kinds)
            left = b.udiv(b.sub(b.mul(count, number(4)), done), number(size))
            with loop(b, left) as each:
                first = b.add(done, b.mul(each.index, number(size)))
                _tile(b, given, first, rows, kinds)
            done = b.add(done, b.mul(left, number(size)))

    return add


_add_one = _add_low_rank(1, 4)
_add_rows = _add_low_rank(_TOGETHER, 2)


@compiled
def _mixes(board: Any, rows: Any) -> Any:
    """The address of each row's mix; `rows`: the board's index of the number of rows."""
    return word(board + 8 * (on.WANTED_MIXES if rows == on.WANTED else on.MIXES))


@compiled
def adapt_phase(board: Any, row: Any, counter: Any) -> None:
    """[op, input, rows, matrices, then of each: its number]: A x of every row that has an adapter."""
    count, matrices = word(board + 8 * word(row + 16)), word(row + 24)
    mixes, x = _mixes(board, word(row + 16)), word(board + 8 * word(row + 8))
    items = (count + _TOGETHER - 1) // _TOGETHER * matrices * _PARTS
    done, i = 0, fetch_add(counter, 1)
    while i < items:
        done += 1
        m, which, part = i // (matrices * _PARTS) * _TOGETHER, i // _PARTS % matrices, i % _PARTS
        matrix, end = word(row + 32 + 8 * which), min(m + _TOGETHER, count)
        while matrix and m < end:
            mix, together = word(mixes + 8 * m), _alike(mixes, m, end)
            if mix:
                _project(board, mix, matrix, x, m, which, part, together)
            m += together
        i = fetch_add(counter, 1)
    finish(board, counter, done, items)


@compiled
def _project(
    board: Any, mix: Any, matrix: Any, x: Any, m: Any, which: Any, part: Any, together: Any
) -> None:
    """Some ranks of one row or of rows with the same mix, and one matrix, over all adapters."""
    low_row = word(board + 8 * on.LOW_RANK_ROW) * 4
    for k in range(word(mix)):
        adapter = mix + 8 + 8 * on.MIX_WORDS * k
        entry = word(adapter + 8 * on.MIX_TABLE) + matrix * 8 * on.LORA_WORDS
        columns, rank = word(entry + 8 * on.LORA_COLUMNS), word(entry + 8 * on.LORA_RANK)
        low, weights = (
            _low(board, m, which, word(adapter + 8 * on.MIX_PLACE)),
            word(entry + 8 * on.LORA_A),
        )
        for first in range(part * _TOGETHER, rank, _PARTS * _TOGETHER):
            start, place, out = x + m * columns * 4, weights + first * columns * 4, low + 4 * first
            if first + _TOGETHER > rank:
                for row in range(together):
                    for r in range(rank - first):
                        value = dot(start + row * columns * 4, place + r * columns * 4, columns)
                        _put(value, out + row * low_row + 4 * r)
            elif together == 1:
                _dots_of_one(columns, start, place, out, low_row)
            else:
                _dots_of_rows(columns, start, place, out, low_row)


@compiled
def _low(board: Any, m: Any, which: Any, place: Any) -> Any:
    """The address of A x for one row, matrix and adapter."""
    row, stride = word(board + 8 * on.LOW_RANK_ROW), word(board + 8 * on.LOW_RANK_STRIDE)
    return word(board + 8 * on.LOW_RANK) + 4 * (m * row + which * stride + place)


@compiled
def add_adapted(
    board: Any,
    matrix: Any,
    which: Any,
    rows: Any,
    count: Any,
    out: Any,
    row_floats: Any,
    low_tile: Any,
    high_tile: Any,
) -> None:
    """Add B (A x) to tiles low_tile … high_tile - 1 of a product. `which`: the index of its matrix in the phase."""
    index = word(matrix + 8 * ADAPTED)
    if index == 0 or word(board + 8 * on.ADAPTED) == 0:
        return
    wide, outputs = word(board + 8 * on.TILE_OUTPUTS), word(matrix + 8 * OUTPUTS)
    first, last = low_tile * wide, min(high_tile * wide, outputs)
    mixes = _mixes(board, rows)
    m = 0
    while m < count:
        mix, together = word(mixes + 8 * m), _alike(mixes, m, count)
        if mix:
            for k in range(word(mix)):
                adapter = mix + 8 + 8 * on.MIX_WORDS * k
                entry = word(adapter + 8 * on.MIX_TABLE) + index * 8 * on.LORA_WORDS
                rank = word(entry + 8 * on.LORA_RANK)
                if rank:
                    y, y_row = out + (m * row_floats + first) * 4, row_floats * 4
                    low = _low(board, m, which, word(adapter + 8 * on.MIX_PLACE))
                    low_row = word(board + 8 * on.LOW_RANK_ROW) * 4
                    weights, bytes_ = word(entry + 8 * on.LORA_B) + first * 4, outputs * 4
                    scale = real(entry + 8 * on.LORA_SCALE) * real(adapter + 8 * on.MIX_SCALE)
                    many = last - first
                    if together == 1:
                        _add_one(many, y, y_row, low, low_row, weights, rank, bytes_, scale)
                    else:
                        _add_rows(many, y, y_row, low, low_row, weights, rank, bytes_, scale)
        m += together


@compiled
def _alike(mixes: Any, m: Any, count: Any) -> Any:
    """How many rows from the m-th on are computed at once: some with the same mix, or one."""
    if m + _TOGETHER > count:
        return 1
    for i in range(1, _TOGETHER):
        if word(mixes + 8 * (m + i)) != word(mixes + 8 * m):
            return 1
    return _TOGETHER
