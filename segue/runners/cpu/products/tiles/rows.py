"""One output's weights as floats: looks up an embedding in a packed matrix, so that tied embeddings are stored once.

w = d·sc · (code - zero) + m        each operation rounded once
"""

from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import (
    Builder,
    Value,
    ahead,
    at,
    f32,
    fma,
    i8,
    i32,
    i64,
    load,
    loop,
    number,
    room,
    splat,
    store,
)
from segue.runners.cpu.products.dots import pairs
from segue.runners.cpu.products.dots.pairs import is_paired
from segue.runners.cpu.products.dots.vectors import Kind
from segue.runners.cpu.products.layout import GROUP, STEP, Format
from segue.runners.cpu.products.weights import Reader

_STEPS = GROUP // STEP
_FOUR = ir.VectorType(f32, STEP)


def build(module: Any, kind: Kind, form: Format) -> Any:
    """A function (tile, blocks, lane, out), and the matrix's scale if the format has one."""
    kinds = [i64] * (4 + form.has_factor)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), "take")
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block())
    tile, blocks, lane, out, *factor = function.args
    reader, width, lanes = Reader(kind, form, *factor), kind.flavour.width, kind.flavour.lanes
    scratch = room(b, i8, width * GROUP)
    with loop(b, blocks) as block:
        start = at(b, tile, block.index, form.kept_bytes * width)
        # The lane's own vector, as if it were the first one.
        own = b.udiv(lane, number(lanes))
        inside = b.urem(lane, number(lanes))
        with loop(b, number(form.groups)) as each:
            group = at(
                b, ahead(b, start, form.head_bytes * width), each.index, form.group_bytes * width
            )
            for step in range(_STEPS):
                for v, vector in enumerate(reader.step(b, group, step)):
                    place = (step * width + v * lanes) * STEP
                    store(b, vector, ahead(b, scratch, place), 1)
            scales = _scales(b, reader, start, group, own, inside)
            column = b.add(b.mul(block.index, number(form.groups)), each.index)
            for step in range(_STEPS):
                if is_paired(kind.flavour, form):
                    place = pairs.place(b, scratch, lane, step, width * STEP)
                else:
                    place = at(b, ahead(b, scratch, step * width * STEP), lane, STEP)
                values = _values(b, form, place, scales[step * form.parts // _STEPS])
                store(b, values, ahead(b, at(b, out, column, GROUP * 4), step * STEP * 4))
    b.ret_void()
    return function


def _scales(
    b: Builder, reader: Reader, block: Value, group: Value, own: Value, inside: Value
) -> list[tuple[Value, Value | None]]:
    """For each part of the group: scale and minimum of one lane."""
    form, lanes = reader.form, reader.kind.flavour.lanes

    def one(vector: Value) -> Value:
        return b.extract_element(vector, inside)

    scale = one(reader.scale(b, at(b, block, own, form.scale_bytes * lanes), 0))
    minimum = None
    if form.min_at is not None:
        minimum = one(reader.minimum(b, at(b, block, own, 2 * lanes), 0))
    if not form.scales:
        return [(scale, minimum)]
    parts, minima = reader.smalls(b, at(b, group, own, lanes), 0)
    least = [b.fneg(b.fmul(minimum, one(each))) for each in minima] or [None] * form.parts
    return [(b.fmul(scale, one(part)), low) for part, low in zip(parts, least, strict=True)]


def _values(b: Builder, form: Format, place: Value, scale: tuple[Value, Value | None]) -> Value:
    """Four weights."""
    wide = ir.VectorType(i32, STEP)
    bytes_ = load(b, place, ir.VectorType(i8, STEP), 1)
    codes = b.sext(bytes_, wide) if form.is_signed else b.zext(bytes_, wide)
    codes = b.sub(codes, ir.Constant(wide, [form.zero] * STEP))
    values, factor = b.sitofp(codes, _FOUR), splat(b, scale[0], _FOUR)
    if scale[1] is None:
        return b.fmul(factor, values)
    return fma(b, factor, values, splat(b, scale[1], _FOUR))
