"""Keys and values of one token, written to a block of the KV cache as they are kept (kv_formats.py)."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import (
    BYTES,
    INTS,
    LANES,
    Builder,
    Value,
    ahead,
    at,
    f32,
    floats,
    greater,
    load,
    loop,
    number,
    splat,
    store,
)
from segue.runners.cpu.kernel import INT, VOID, define
from segue.runners.cpu.step.attention.kv_formats import (
    GROUP,
    GROUP_BYTES,
    SCALES_BYTES,
    STRIP_BYTES,
)
from segue.runners.cpu.step.attention.loading import kv_type
from segue.runners.cpu.step.attention.scratch import BLOCK
from segue.runners.cpu.step.halves import bounded, lane, narrowed, put_halves, widened_words
from segue.runners.cpu.step.vectors.elementwise import vectors
from segue.runners.cpu.step.vectors.functions import absolute, maximum, nearest

_MOST = 127.0  # of a code


def _key_of_halves(b: Builder, x: Value, block: Value, place: Value, count: Value) -> None:
    out = at(b, block, place, 2)
    with loop(b, vectors(b, count)) as each:
        column = narrowed(b, load(b, at(b, x, each.index, 64)))
        own = at(b, out, each.index, 2 * BLOCK * LANES)
        for i in range(LANES):
            store(b, lane(b, column, i), ahead(b, own, 2 * BLOCK * i), 2)


def _value_of_halves(b: Builder, x: Value, out: Value, count: Value) -> None:
    with loop(b, vectors(b, count)) as each:
        put_halves(b, load(b, at(b, x, each.index, 64)), at(b, out, each.index, 32))


def _over_groups(b: Builder, count: Value, work: Callable[[Value, int], None]) -> None:
    """Call `work` with the number of each group, and how many vectors it has: 2, or 1 that is left over."""
    whole = b.udiv(count, number(GROUP))
    with loop(b, whole) as each:
        work(each.index, GROUP // LANES)
    with loop(b, b.udiv(b.urem(count, number(GROUP)), number(LANES))):
        work(whole, 1)


def _coded(b: Builder, x: Value, num_vectors: int) -> tuple[Any, list[Value]]:
    """A group's scale, as a 16-bit word, and its codes: the nearest whole numbers of the scale as it is kept."""
    values = [bounded(b, load(b, ahead(b, x, 64 * j))) for j in range(num_vectors)]
    top = absolute(b, values[0])
    for value in values[1:]:
        top = greater(b, top, absolute(b, value))
    words = narrowed(b, splat(b, b.fdiv(maximum(b, top), ir.Constant(f32, _MOST))))
    scale = widened_words(b, words)
    is_zero = b.fcmp_ordered("==", scale, floats(0.0))  # the group is less than any half
    factor = b.select(is_zero, floats(0.0), b.fdiv(floats(1.0), scale))
    codes = []
    for value in values:
        near = greater(b, nearest(b, b.fmul(value, factor)), floats(-_MOST))
        near = b.select(b.fcmp_ordered("<", near, floats(_MOST)), near, floats(_MOST))
        codes.append(b.trunc(b.fptosi(near, INTS), BYTES))
    return lane(b, words, 0), codes


def _key_of_codes(b: Builder, x: Value, block: Value, place: Value, count: Value) -> None:
    def put(group: Value, num_vectors: int) -> None:
        scale, codes = _coded(b, at(b, x, group, 4 * GROUP), num_vectors)
        own = at(b, block, group, GROUP_BYTES)
        store(b, scale, at(b, own, place, 2), 2)
        first = b.add(ahead(b, own, SCALES_BYTES), place)
        for i in range(LANES * num_vectors):
            store(b, lane(b, codes[i // LANES], i % LANES), ahead(b, first, BLOCK * i), 1)

    _over_groups(b, count, put)


def _value_of_codes(b: Builder, x: Value, block: Value, place: Value, count: Value) -> None:
    def put(group: Value, num_vectors: int) -> None:
        scale, codes = _coded(b, at(b, x, group, 4 * GROUP), num_vectors)
        own = at(b, block, group, GROUP_BYTES)
        store(b, scale, at(b, own, place, 2), 2)
        first = at(b, ahead(b, own, SCALES_BYTES), place, LANES)
        for j, some in enumerate(codes):
            store(b, some, ahead(b, first, STRIP_BYTES * j), 1)

    _over_groups(b, count, put)


@define(VOID, INT, INT, INT, INT)
def put_key(b: Builder, x: Value, block: Value, place: Value, count: Value) -> None:
    """Write the key of the token at `place` of a block."""
    (_key_of_codes if kv_type == "q8_0" else _key_of_halves)(b, x, block, place, count)


@define(VOID, INT, INT, INT, INT, INT)
def put_value(b: Builder, x: Value, block: Value, place: Value, count: Value, apart: Value) -> None:
    """Write the value of the token at `place` of a block. `apart`: numbers from one token to the next."""
    if kv_type == "q8_0":
        _value_of_codes(b, x, block, place, count)
    else:
        _value_of_halves(b, x, b.add(block, b.mul(place, b.mul(apart, number(2)))), count)
