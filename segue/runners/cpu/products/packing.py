"""Packs a tensor of the file (one row of blocks per output) into tiles: the compiled part.

What is infinite or not a number is counted on the way: rounding activations to 8 bits would hide it from the logits.
"""

from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import (
    Builder,
    Value,
    ahead,
    at,
    cell,
    i8,
    i16,
    i32,
    i64,
    load,
    loop,
    number,
    store,
)
from segue.runners.cpu.products.codes import bits_of, marks_of, masked, scale_bits, step_codes
from segue.runners.cpu.products.dots import pairs
from segue.runners.cpu.products.dots.pairs import is_paired
from segue.runners.cpu.products.layout import STEP, Format
from segue.runners.cpu.products.processor import Flavour

NAME = "pack"
HALF_EXPONENT = 0x7C00  # its bits in an f16
_STEPS = 8  # steps per group


def build(module: Any, flavour: Flavour, form: Format) -> Any:
    """A function (source, row bytes, blocks of a row, outputs, target, first tile, last tile).

    It returns how many scales and minima are no finite numbers.
    """
    function = ir.Function(module, ir.FunctionType(i64, [i64] * 7), NAME)
    b = ir.IRBuilder(function.append_basic_block())
    source, row_bytes, blocks, outputs, target, first, last = function.args
    unsound = cell(b, number(0))
    width = flavour.width
    tile_bytes = b.mul(blocks, number(width * form.kept_bytes))
    with loop(b, b.sub(last, first)) as each:
        tile = b.add(first, each.index)
        left = b.sub(outputs, b.mul(tile, number(width)))
        valid = b.select(b.icmp_signed("<", left, number(width)), left, number(width))
        rows = b.add(source, b.mul(b.mul(tile, number(width)), row_bytes))
        kept = b.add(target, b.mul(tile, tile_bytes))
        with loop(b, blocks) as block, loop(b, valid) as lane:
            start = b.add(rows, b.mul(lane.index, row_bytes))
            found = _block(
                b, form, flavour, lane.index,
                at(b, start, block.index, form.block_bytes),
                at(b, kept, block.index, form.kept_bytes * width),
            )  # fmt: skip
            b.store(b.add(b.load(unsound), found), unsound)
    b.ret(b.load(unsound))
    return function


def is_unsound(b: Builder, bits: Value, exponent: int) -> Value:
    """1 if all bits of the exponent are set: an infinite number, or none at all."""
    mask = ir.Constant(bits.type, exponent)
    return b.zext(b.icmp_unsigned("==", b.and_(bits, mask), mask), i64)


def _block(
    b: Builder, form: Format, flavour: Flavour, lane: Value, source: Value, target: Value
) -> Value:
    """One output's block: its scales, then its groups. How many of its scale and minimum are unsound."""
    width = flavour.width
    unsound, size = number(0), form.scale_bytes
    if size:
        scale = scale_bits(b, form, source)
        unsound = is_unsound(b, scale, 0xFF if form.is_exponent else HALF_EXPONENT)
        store(b, scale, at(b, target, lane, size), 1)
    if form.min_at is not None:
        least = load(b, ahead(b, source, form.min_at), i16, 1)
        unsound = b.add(unsound, is_unsound(b, least, HALF_EXPONENT))
        store(b, least, at(b, ahead(b, target, size * width), lane, 2), 1)
    for group in range(form.groups):
        place = ahead(b, target, (form.head_bytes + group * form.group_bytes) * width)
        codes = [step_codes(b, form, source, group * _STEPS + step) for step in range(_STEPS)]
        _planes(b, form, flavour, codes, place, lane)
        for which, byte in enumerate(_smalls(b, form, source, group)):
            store(b, byte, b.add(ahead(b, place, (form.plane_bytes + which) * width), lane), 1)
    return unsound


def _planes(
    b: Builder, form: Format, flavour: Flavour, codes: list[Value], group: Value, lane: Value
) -> None:
    below = offset = 0
    for bits in form.planes:
        each, step_bytes = 8 // bits, flavour.width * bits // 2
        for first in range(0, _STEPS, each):
            word = ir.Constant(i32, 0)
            for place in range(each):
                part = masked(b, codes[first + place], below, bits)
                word = b.or_(word, b.shl(part, ir.Constant(i32, place * bits)))
            if is_paired(flavour, form):
                target = pairs.place(b, group, lane, first, step_bytes)
            else:
                target = at(b, ahead(b, group, offset + first * step_bytes), lane, STEP)
            store(b, word, target, 1)
        below += bits
        offset += _STEPS * step_bytes


def _smalls(b: Builder, form: Format, source: Value, group: int) -> list[Value]:
    """The bytes of a group's small scales, then of its small minima."""
    found = []
    for table in (form.scales, form.mins):
        each = len(table) // form.groups
        for small in table[group * each :][:each]:
            value = bits_of(b, small, source, i8)
            found.append(
                b.sub(value, ir.Constant(i8, form.scale_zero)) if form.scale_zero else value
            )
    if form.smalls == "float":
        found = [_number(b, value) for value in found]
    if form.grid is not None and form.marks:
        marks = form.grid.marks[group * form.marks :][: form.marks]
        found[0] = b.or_(found[0], marks_of(b, marks, source))
    return found


def _number(b: Builder, value: Value) -> Value:
    """A small float without its sign, which counts for nothing. 127, not a number elsewhere, is 0 in llama.cpp."""
    none, size = ir.Constant(i8, 127), b.and_(value, ir.Constant(i8, 127))
    return b.select(b.icmp_unsigned("==", value, none), ir.Constant(i8, 0), size)
