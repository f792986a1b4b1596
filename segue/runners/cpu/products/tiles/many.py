"""A tile of many rows: codes and scales are expanded once for all of them, then a few rows after the other meet them.

For AVX2 without VNNI: its sums of 16 bits leave no registers for codes, nor for what outputs have so far, which are in
the first-level cache anyway. Where there are registers for them, that costs more than to expand codes again.
"""

from dataclasses import replace
from typing import Any

from segue.runners.cpu.emit import (
    Builder,
    Value,
    ahead,
    at,
    load,
    loop,
    number,
    pointer,
    room,
    store,
)
from segue.runners.cpu.products.dots.vectors import Codes, Kind
from segue.runners.cpu.products.layout import GROUP, STEP, Format
from segue.runners.cpu.products.processor import Flavour
from segue.runners.cpu.products.tiles import tile
from segue.runners.cpu.products.weights import Reader

ROWS = 4  # that meet a group's codes together
LEAST, MOST = 8, 32  # rows of a tile, a multiple of ROWS: their outputs take 2 KiB
_STEPS = GROUP // STEP


def pays(flavour: Flavour, form: Format) -> bool:
    """Whether a flavour takes such tiles. Signed codes are bound by the products, not by what expands them."""
    return flavour.dot == "maddubs" and flavour.lanes < 16 and not form.is_signed


def build(module: Any, kind: Kind, form: Format) -> Any:
    """A function with the parameters of other tiles, then how many rows there are."""
    b, args = tile.function(module, "tile_of_many", 9 + form.has_factor)
    weights, blocks, a, lda, scales, out, ldo, valid, *factor, rows = args
    reader, lds = Reader(kind, form, *factor), b.lshr(lda, number(1))
    vectors, size = range(kind.flavour.vectors), kind.bytes.count
    sums = room(b, kind.floats, MOST * len(vectors))
    kept = room(b, kind.bytes, _STEPS * len(vectors))

    def of_row(m: Value) -> list[Value]:
        start = at(b, sums, m, len(vectors) * size)
        return [pointer(b, ahead(b, start, v * size), kind.floats) for v in vectors]

    def group(place: Value, head: tile.Head, index: Value) -> None:
        codes = _kept(b, kind, reader.codes(b, place, vectors), kept)
        made = tile.group_scales(b, reader, place, head, vectors)
        with loop(b, b.udiv(rows, number(ROWS))) as some:
            first = b.mul(some.index, number(ROWS))
            inputs = ((b.add(a, b.mul(lda, first)), lda), (b.add(scales, b.mul(lds, first)), lds))
            shared = tile.rows_of(b, kind, form, inputs, ROWS, index)
            acc = [of_row(b.add(first, number(m))) for m in range(ROWS)]
            tile.add_group(b, reader, codes, lambda: made, shared, acc)

    with loop(b, rows) as row:
        for output in of_row(row.index):
            b.store(kind.all(kind.floats, 0.0), output)
    tile.each_group(b, reader, weights, blocks, group)
    with loop(b, rows) as row:
        done = [b.load(output) for output in of_row(row.index)]
        tile.write(b, kind, done, b.add(out, b.mul(ldo, row.index)), valid)
    b.ret_void()
    return b.function


def _kept(b: Builder, kind: Kind, codes: Codes, place: Value) -> Codes:
    """Stores a group's codes, as bytes: the same codes, read from there."""
    size = kind.bytes.count
    places = [
        [ahead(b, place, (step * codes.vectors + v) * size) for v in range(codes.vectors)]
        for step in range(_STEPS)
    ]
    for step, own in enumerate(places):
        for vector, address in zip(codes.step(step), own, strict=True):
            store(b, vector, address)
    return replace(
        codes,
        step=lambda step: [load(b, address, kind.bytes) for address in places[step]],
        half=None,
    )
