"""The compiled functions of one format: product, one row, packing. Compiled for a model's first tensor of that type."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, ahead, cell, i64, load, loop, number
from segue.runners.cpu.products import machine_code, packing
from segue.runners.cpu.products.dots.vectors import Kind
from segue.runners.cpu.products.formats import FLOATS, FORMATS
from segue.runners.cpu.products.layout import FloatFormat, Format
from segue.runners.cpu.products.machine_code import Kept
from segue.runners.cpu.products.processor import Target
from segue.runners.cpu.products.tiles import floats, many, rows, tile

# A descriptor: numbers that compiled code reads.
PRODUCT, TAKE_ROW, WEIGHTS, COLUMNS, OUTPUTS, TILES, TILE_BYTES, BLOCKS = range(8)
ADAPTED = 8  # the matrix's number in the tables of LoRA adapters; 0: in none
FACTOR = 9  # the bits of its scale, if its format has one for all blocks
FIELDS = 10

_CACHED = 1 << 18  # bytes of activations that stay in the cache while all tiles use them


@dataclass(frozen=True)
class Kernels:
    """The addresses of the functions. `product` and `take_row` take a descriptor's address first."""

    product: int  # (descriptor, rows, a, scales, x, out, ldo, first tile, last tile)
    take_row: int  # (descriptor, index, out)
    pack: int  # (source, row bytes, blocks of a row, outputs, target, first tile, last tile): how many are unsound


@cache
def kernels(form: Format | FloatFormat, target: Target, kept: Kept) -> Kernels:
    key, names = f"products-{form.name}", ["product", "take_row", "pack"]
    found = machine_code.load(key, lambda: module(form, target), names, target, kept)
    return Kernels(**found)


def module(form: Format | FloatFormat, target: Target) -> ir.Module:
    made = ir.Module(f"{form.name}.{target.flavour.name}")
    made.triple = target.triple
    kind, of_many = Kind(target.flavour), None
    if isinstance(form, FloatFormat):
        tiles = [(n, floats.build_tile(made, kind, form, n)) for n in target.flavour.rows]
        take = floats.build_take_row(made, kind, form)
        floats.build_pack(made, kind, form)
    else:
        counts = tile.row_counts(target.flavour, form)
        tiles = [(n, tile.build(made, kind, form, n)) for n in counts]
        of_many = many.build(made, kind, form) if many.pays(target.flavour, form) else None
        take = rows.build(made, kind, form)
        packing.build(made, target.flavour, form)
    _product(made, target.flavour.width, form, tiles, of_many)
    _take_row(made, target.flavour.width, form, take)
    return made


def _function(made: ir.Module, name: str, parameters: int) -> tuple[Builder, list[Value]]:
    function = ir.Function(made, ir.FunctionType(ir.VoidType(), [i64] * parameters), name)
    return ir.IRBuilder(function.append_basic_block()), list(function.args)


def _field(b: Builder, descriptor: Value, field: int) -> Value:
    return load(b, ahead(b, descriptor, 8 * field), i64, 8)


def _least(b: Builder, x: Value, y: Value) -> Value:
    return b.select(b.icmp_signed("<", x, y), x, y)


def _factor(b: Builder, descriptor: Value, form: Format | FloatFormat) -> list[Value]:
    """What tiles and rows of some formats take behind all else."""
    has_factor = isinstance(form, Format) and form.has_factor
    return [_field(b, descriptor, FACTOR)] if has_factor else []


def _product(
    made: ir.Module,
    width: int,
    form: Format | FloatFormat,
    tiles: list[tuple[int, Any]],
    of_many: Any,
) -> None:
    b, (descriptor, num_rows, a, scales, x, out, ldo, first, last) = _function(made, "product", 9)
    columns, is_float = _field(b, descriptor, COLUMNS), isinstance(form, FloatFormat)
    lda = b.mul(columns, number(4)) if is_float else columns
    inputs = x if is_float else a
    most = tiles[0][0]
    # Rows are computed in blocks whose activations stay in the cache; a block is a multiple of the largest tile.
    near = b.mul(b.add(b.udiv(number(_CACHED // most), lda), number(1)), number(most))
    done = cell(b, number(0))
    with _while(b, done, num_rows):
        start = b.load(done)
        stop = _least(b, b.add(start, near), num_rows)
        with loop(b, b.sub(last, first)) as each:
            index = b.add(first, each.index)
            weights = b.add(
                _field(b, descriptor, WEIGHTS), b.mul(index, _field(b, descriptor, TILE_BYTES))
            )
            left = b.sub(_field(b, descriptor, OUTPUTS), b.mul(index, number(width)))
            valid = _least(b, left, number(width))
            row = cell(b, start)
            b.store(start, row)

            def compute(function: Any, size: Value, *more: Value) -> None:
                m = b.load(row)
                place = b.add(b.mul(m, ldo), b.mul(index, number(width)))
                b.call(function, [
                    weights, _field(b, descriptor, BLOCKS), b.add(inputs, b.mul(m, lda)), lda,
                    b.add(scales, b.mul(m, b.lshr(columns, number(1)))),
                    b.add(out, b.mul(place, number(4))), b.mul(ldo, number(4)), valid,
                    *_factor(b, descriptor, form), *more,
                ])  # fmt: skip
                b.store(b.add(m, size), row)

            if of_many is not None:
                with _while(b, row, b.sub(stop, number(many.LEAST - 1))):
                    size = _least(b, b.sub(stop, b.load(row)), number(many.MOST))
                    size = b.sub(size, b.urem(size, number(many.ROWS)))
                    compute(of_many, size, size)
            for count, function in tiles:
                with _while(b, row, b.sub(stop, number(count - 1))):
                    compute(function, number(count))
        b.store(stop, done)
    b.ret_void()


class _while:
    """`with _while(b, place, stop)`: repeats while the number at the place is below the stop."""

    def __init__(self, b: Builder, place: Value, stop: Value):
        self.b, self.place, self.stop = b, place, stop

    def __enter__(self) -> None:
        b = self.b
        self.test, self.body, self.after = (b.append_basic_block() for _ in range(3))
        b.branch(self.test)
        b.position_at_end(self.test)
        b.cbranch(b.icmp_signed("<", b.load(self.place), self.stop), self.body, self.after)
        b.position_at_end(self.body)

    def __exit__(self, *_: object) -> None:
        self.b.branch(self.test)
        self.b.position_at_end(self.after)


def _take_row(made: ir.Module, width: int, form: Format | FloatFormat, take: Any) -> None:
    b, (descriptor, index, out) = _function(made, "take_row", 3)
    tile_index = b.udiv(index, number(width))
    start = b.mul(tile_index, _field(b, descriptor, TILE_BYTES))
    weights = b.add(_field(b, descriptor, WEIGHTS), start)
    place = b.urem(index, number(width))
    blocks = _field(b, descriptor, BLOCKS)
    b.call(take, [weights, blocks, place, out, *_factor(b, descriptor, form)])
    b.ret_void()


def form_of(name: str) -> Format | FloatFormat | None:
    """The format of a GGUF type; None if the type is not supported."""
    return FORMATS.get(name) or FLOATS.get(name)
