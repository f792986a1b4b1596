"""Phases of LoRA adapters: y += scale · B (A x), for the rows that have adapters.

A x is a phase of its own, before the product that it belongs to. B (A x) is added where the product's outputs are
computed: each output sums its ranks in order, then adds the sum to the product. Rows without adapters are not touched,
so their bits do not depend on rows with adapters.
"""

from typing import Any

from segue.runners.cpu.emit import (
    Builder,
    Value,
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
)
from segue.runners.cpu.kernel import FLOAT, INT, VOID, compiled, define
from segue.runners.cpu.products.kernels import ADAPTED, OUTPUTS
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import fetch_add, real, word
from segue.runners.cpu.step.lanes import dot

_PARTS = 4  # the ranks of one row and matrix are split among up to four threads


@define(VOID, FLOAT, INT)
def _put(b: Builder, value: Value, place: Value) -> None:
    store(b, value, place)


@define(VOID, *[INT] * 6, FLOAT)
def _add_low_rank(
    b: Builder,
    y: Value,
    weights: Value,
    low: Value,
    rank: Value,
    row_bytes: Value,
    count: Value,
    scale: Value,
) -> None:
    """y[o] += scale · Σ low[r] · weights[r][o], the sum in the order of r. Each lane is one output."""

    def summed(place: Value, zero: Value, kind: Any) -> Value:
        total = cell(b, zero)
        b.store(zero, total)
        with loop(b, rank) as each:
            factor = load(b, at(b, low, each.index, 4), f32)
            wide = factor if kind is f32 else splat(b, factor)
            column = load(b, b.add(place, b.mul(each.index, row_bytes)), kind)
            b.store(fma(b, wide, column, b.load(total)), total)
        return b.load(total)

    vectors = b.lshr(count, number(4))
    with loop(b, vectors) as each:
        total = summed(at(b, weights, each.index, 64), floats(0.0), floats(0.0).type)
        place = at(b, y, each.index, 64)
        store(b, fma(b, total, splat(b, scale), load(b, place)), place)
    done = b.shl(vectors, number(4))
    with loop(b, b.sub(count, done)) as each:
        index = b.add(done, each.index)
        total = summed(at(b, weights, index, 4), f32(0.0), f32)
        place = at(b, y, index, 4)
        store(b, fma(b, total, scale, load(b, place, f32)), place)


@compiled
def _mixes(board: Any, rows: Any) -> Any:
    """The address of each row's mix; `rows`: the board's index of the number of rows."""
    return word(board + 8 * (on.WANTED_MIXES if rows == on.WANTED else on.MIXES))


@compiled
def adapt_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """[op, input, rows, matrices, then of each: its number]: A x of every row that has an adapter."""
    count, matrices = word(board + 8 * word(row + 16)), word(row + 24)
    mixes, x = _mixes(board, word(row + 16)), word(board + 8 * word(row + 8))
    if word(board + 8 * on.IS_PRIVATE) and word(row + 8) == on.INPUT_FLOATS:
        x += tid * word(board + 8 * on.PRIVATE_FLOATS)
    items = count * matrices * _PARTS
    i = fetch_add(counter, 1)
    while i < items:
        m, which, part = i // (matrices * _PARTS), i // _PARTS % matrices, i % _PARTS
        mix, matrix = word(mixes + 8 * m), word(row + 32 + 8 * which)
        if mix and matrix:
            _project(board, mix, matrix, x, m, which, part)
        i = fetch_add(counter, 1)


@compiled
def _project(board: Any, mix: Any, matrix: Any, x: Any, m: Any, which: Any, part: Any) -> None:
    """Some ranks of one row and matrix, over all its adapters."""
    for k in range(word(mix)):
        adapter = mix + 8 + 8 * on.MIX_WORDS * k
        entry = word(adapter + 8 * on.MIX_TABLE) + matrix * 8 * on.LORA_WORDS
        columns, low = (
            word(entry + 8 * on.LORA_COLUMNS),
            _low(board, m, which, word(adapter + 8 * on.MIX_PLACE)),
        )
        for r in range(part, word(entry + 8 * on.LORA_RANK), _PARTS):
            weights = word(entry + 8 * on.LORA_A) + r * columns * 4
            _put(dot(x + m * columns * 4, weights, columns), low + 4 * r)


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
    low: Any,
    high: Any,
) -> None:
    """Add B (A x) to tiles low … high - 1 of a product. `which`: the index of its matrix in the phase."""
    index = word(matrix + 8 * ADAPTED)
    if index == 0 or word(board + 8 * on.ADAPTED) == 0:
        return
    wide, outputs = word(board + 8 * on.TILE_OUTPUTS), word(matrix + 8 * OUTPUTS)
    first, last = low * wide, min(high * wide, outputs)
    mixes = _mixes(board, rows)
    for m in range(count):
        mix = word(mixes + 8 * m)
        if mix == 0:
            continue
        for k in range(word(mix)):
            adapter = mix + 8 + 8 * on.MIX_WORDS * k
            entry = word(adapter + 8 * on.MIX_TABLE) + index * 8 * on.LORA_WORDS
            if word(entry + 8 * on.LORA_RANK):
                _add_low_rank(
                    out + (m * row_floats + first) * 4,
                    word(entry + 8 * on.LORA_B) + first * 4,
                    _low(board, m, which, word(adapter + 8 * on.MIX_PLACE)),
                    word(entry + 8 * on.LORA_RANK),
                    outputs * 4,
                    last - first,
                    real(entry + 8 * on.LORA_SCALE) * real(adapter + 8 * on.MIX_SCALE),
                )
