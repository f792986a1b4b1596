"""RoPE: rotations of pairs of dimensions, 16 pairs at a time."""

from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import (
    LANES,
    Builder,
    Value,
    ahead,
    at,
    call,
    f32,
    fma,
    i32,
    load,
    number,
    store,
)
from segue.runners.cpu.kernel import INT, VOID, compiled, define


def _turned(b: Builder, x: Value, y: Value, cosine: Value, sine: Value) -> tuple[Value, Value]:
    return (
        fma(b, x, cosine, b.fneg(b.fmul(y, sine))),
        fma(b, x, sine, b.fmul(y, cosine)),
    )


@define(VOID, INT, INT, INT, INT, INT, INT)
def _turn_halves(
    b: Builder, x: Value, cosines: Value, sines: Value, out: Value, first: Value, pairs: Value
) -> None:
    """Rotate 16 pairs (i, i + pairs) from `first` on."""
    offset, gap = b.mul(first, number(4)), b.mul(pairs, number(4))
    low, high = b.add(x, offset), b.add(b.add(x, offset), gap)
    cosine, sine = (load(b, b.add(table, offset)) for table in (cosines, sines))
    u, v = _turned(b, load(b, low), load(b, high), cosine, sine)
    store(b, u, b.add(out, offset))
    store(b, v, b.add(b.add(out, offset), gap))


@define(VOID, INT, INT, INT, INT, INT)
def _turn_neighbours(
    b: Builder, x: Value, cosines: Value, sines: Value, out: Value, first: Value
) -> None:
    """Rotate 16 pairs (2i, 2i + 1) from pair `first` on."""
    offset = b.mul(first, number(4))
    place = b.add(x, b.mul(first, number(8)))
    low, high = load(b, place), load(b, ahead(b, place, 64))
    pick = ir.VectorType(i32, LANES)
    evens, odds = (
        b.shuffle_vector(low, high, ir.Constant(pick, [2 * i + odd for i in range(LANES)]))
        for odd in (0, 1)
    )
    cosine, sine = (load(b, b.add(table, offset)) for table in (cosines, sines))
    u, v = _turned(b, evens, odds, cosine, sine)
    target = b.add(out, b.mul(first, number(8)))
    for half in range(2):
        order = [half * 8 + i // 2 + LANES * (i % 2) for i in range(LANES)]
        store(b, b.shuffle_vector(u, v, ir.Constant(pick, order)), ahead(b, target, 64 * half))


@define(VOID, INT, INT, INT, INT, INT, INT, INT)
def _turn_one(
    b: Builder,
    x: Value,
    y: Value,
    cosine: Value,
    sine: Value,
    out_x: Value,
    out_y: Value,
    index: Value,
) -> None:
    """Rotate the pair of floats at x and y."""
    c, s = (load(b, at(b, table, index, 4), f32) for table in (cosine, sine))
    left, right = load(b, x, f32), load(b, y, f32)
    name = "llvm.fma.f32"
    u = call(b, name, f32, left, c, b.fneg(b.fmul(right, s)))
    v = call(b, name, f32, left, s, b.fmul(right, c))
    store(b, u, out_x)
    store(b, v, out_y)


@compiled
def rotate(x: Any, cosines: Any, sines: Any, out: Any, pairs: Any, neighbours: Any) -> None:
    """Rotate `pairs` pairs of dimensions: neighbours, or dimensions i and i + `pairs`."""
    first = 0
    while first + 16 <= pairs:
        if neighbours:
            _turn_neighbours(x, cosines, sines, out, first)
        else:
            _turn_halves(x, cosines, sines, out, first, pairs)
        first += 16
    for i in range(first, pairs):
        if neighbours:
            place = 8 * i
            _turn_one(x + place, x + place + 4, cosines, sines, out + place, out + place + 4, i)
        else:
            low, high = 4 * i, 4 * (i + pairs)
            _turn_one(x + low, x + high, cosines, sines, out + low, out + high, i)
