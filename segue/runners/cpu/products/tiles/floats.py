"""Products, rows and packing of F32, F16 and BF16 tensors: weights are kept as in the file, sums are f32.

An output is `acc = fma(w, x, acc)` over the columns in order. A tile stores column after column; in each column, its
outputs are side by side.
"""

from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import (
    Builder,
    Value,
    ahead,
    at,
    cell,
    f32,
    fma,
    i16,
    i64,
    load,
    loop,
    number,
    splat,
    store,
)
from segue.runners.cpu.products.dots.vectors import Kind
from segue.runners.cpu.products.layout import FloatFormat
from segue.runners.cpu.products.packing import is_unsound
from segue.runners.cpu.products.tiles.tile import write
from segue.runners.cpu.products.weights import half, prefetch


def build_tile(module: Any, kind: Kind, form: FloatFormat, rows: int) -> Any:
    """A function (weights, columns, x, ldx, -, out, ldo, valid), with the parameters of a quantised tile's function."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [i64] * 8), f"tile_{rows}")
    function.linkage = "internal"
    function.attributes.add("noinline")
    b = ir.IRBuilder(function.append_basic_block())
    weights, columns, x, ldx, _, out, ldo, valid = function.args
    vectors = range(kind.flavour.vectors)
    acc = [[cell(b, kind.all(kind.floats, 0.0)) for _ in vectors] for _ in range(rows)]
    inputs = [b.add(x, b.mul(ldx, number(m))) for m in range(rows)]
    with loop(b, columns) as column:
        place = at(b, weights, column.index, kind.flavour.width * form.bytes)
        prefetch(b, kind, place, kind.flavour.width * form.bytes)
        size = kind.flavour.lanes * form.bytes
        column_weights = [_vector(b, kind, form, ahead(b, place, v * size)) for v in vectors]
        for m, base in enumerate(inputs):
            one = splat(b, load(b, at(b, base, column.index, 4), f32), kind.floats)
            for v, weight in enumerate(column_weights):
                b.store(fma(b, weight, one, b.load(acc[m][v])), acc[m][v])
    for m in range(rows):
        sums = [b.load(place) for place in acc[m]]
        write(b, kind, sums, b.add(out, b.mul(ldo, number(m))), valid)
    b.ret_void()
    return function


def _vector(b: Builder, kind: Kind, form: FloatFormat, address: Value) -> Value:
    if form.name == "F32":
        return load(b, address, kind.floats)
    if form.name == "F16":
        return half(b, kind, address)
    bits = load(b, address, ir.VectorType(i16, kind.flavour.lanes), 2)
    wide = b.shl(b.zext(bits, kind.ints), kind.all(kind.ints, 16))
    return b.bitcast(wide, kind.floats)


def build_take_row(module: Any, kind: Kind, form: FloatFormat) -> Any:
    """A function (tile, columns, lane, out): one output's weights as f32."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [i64] * 4), "take")
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block())
    tile, columns, lane, out = function.args
    lanes = kind.flavour.lanes
    vector = b.udiv(lane, number(lanes))
    with loop(b, columns) as column:
        place = at(b, tile, column.index, kind.flavour.width * form.bytes)
        found = _vector(b, kind, form, at(b, place, vector, lanes * form.bytes))
        one = b.extract_element(found, b.urem(lane, number(lanes)))
        store(b, one, at(b, out, column.index, 4))
    b.ret_void()
    return function


def build_pack(module: Any, kind: Kind, form: FloatFormat) -> Any:
    """A function (source, row bytes, columns, outputs, target, first tile, last tile).

    It returns how many weights are no finite numbers.
    """
    function = ir.Function(module, ir.FunctionType(i64, [i64] * 7), "pack")
    b = ir.IRBuilder(function.append_basic_block())
    source, row_bytes, columns, outputs, target, first, last = function.args
    unsound = cell(b, number(0))
    item, width = ir.IntType(8 * form.bytes), kind.flavour.width
    with loop(b, b.sub(last, first)) as each:
        tile = b.add(first, each.index)
        left = b.sub(outputs, b.mul(tile, number(width)))
        valid = b.select(b.icmp_signed("<", left, number(width)), left, number(width))
        rows = b.add(source, b.mul(b.mul(tile, number(width)), row_bytes))
        kept = b.add(target, b.mul(b.mul(tile, columns), number(width * form.bytes)))
        with loop(b, columns) as column, loop(b, valid) as lane:
            start = b.add(rows, b.mul(lane.index, row_bytes))
            value = load(b, at(b, start, column.index, form.bytes), item, 1)
            found = is_unsound(b, value, form.exponent)
            b.store(b.add(b.load(unsound), found), unsound)
            place = at(b, kept, column.index, width * form.bytes)
            store(b, value, at(b, place, lane.index, form.bytes), 1)
    b.ret(b.load(unsound))
    return function
