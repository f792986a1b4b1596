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
from segue.runners.cpu.products.dots import pairs
from segue.runners.cpu.products.dots.pairs import is_paired
from segue.runners.cpu.products.formats import STEP, Format, Small
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
    kind, exponent = (i8, 0xFF) if form.is_exponent else (i16, HALF_EXPONENT)
    size = kind.width // 8
    scale = load(b, ahead(b, source, form.scale_at), kind, 1)
    unsound = is_unsound(b, scale, exponent)
    store(b, scale, at(b, target, lane, size), 1)
    if form.min_at is not None:
        least = load(b, ahead(b, source, form.min_at), i16, 1)
        unsound = b.add(unsound, is_unsound(b, least, HALF_EXPONENT))
        store(b, least, at(b, ahead(b, target, size * width), lane, 2), 1)
    for group in range(form.groups):
        place = ahead(b, target, (form.head_bytes + group * form.group_bytes) * width)
        codes = [_step(b, form, source, group * _STEPS + step) for step in range(_STEPS)]
        _planes(b, form, flavour, codes, place, lane)
        smalls = [
            small
            for table in (form.scales, form.mins)
            for small in table[group * form.parts :][: form.parts if table else 0]
        ]
        for which, small in enumerate(smalls):
            byte = _small(b, small, source, form.scale_zero)
            store(b, byte, b.add(ahead(b, place, (form.plane_bytes + which) * width), lane), 1)
    return unsound


def _step(b: Builder, form: Format, source: Value, step: int) -> Value:
    """The codes of four columns, one per byte."""
    byte, shift = form.low[step]
    code = _masked(b, load(b, ahead(b, source, byte), i32, 1), shift, form.planes[0])
    if not form.high:
        return code
    byte, shift = form.high[step]
    if form.is_spread:  # four bits side by side: each to its own byte
        four = b.zext(load(b, ahead(b, source, byte), i8, 1), i32)
        four = b.and_(b.lshr(four, ir.Constant(i32, shift)), ir.Constant(i32, 15))
        part = _masked(b, b.mul(four, ir.Constant(i32, 0x00204081)), 0, 1)
    else:
        part = _masked(b, load(b, ahead(b, source, byte), i32, 1), shift, form.planes[1])
    return b.or_(code, b.shl(part, ir.Constant(i32, form.planes[0])))


def _masked(b: Builder, word: Value, shift: int, bits: int) -> Value:
    if bits == 8:
        return word
    return b.and_(
        b.lshr(word, ir.Constant(i32, shift)), ir.Constant(i32, ((1 << bits) - 1) * 0x01010101)
    )


def _planes(
    b: Builder, form: Format, flavour: Flavour, codes: list[Value], group: Value, lane: Value
) -> None:
    below = offset = 0
    for bits in form.planes:
        each, step_bytes = 8 // bits, flavour.width * bits // 2
        for first in range(0, _STEPS, each):
            word = ir.Constant(i32, 0)
            for place in range(each):
                part = _masked(b, codes[first + place], below, bits)
                word = b.or_(word, b.shl(part, ir.Constant(i32, place * bits)))
            if is_paired(flavour, form):
                target = pairs.place(b, group, lane, first, step_bytes)
            else:
                target = at(b, ahead(b, group, offset + first * step_bytes), lane, STEP)
            store(b, word, target, 1)
        below += bits
        offset += _STEPS * step_bytes


def _small(b: Builder, small: Small, source: Value, zero: int) -> Value:
    byte, shift = small.low
    value = b.lshr(load(b, ahead(b, source, byte), i8, 1), ir.Constant(i8, shift))
    value = b.and_(value, ir.Constant(i8, small.mask))
    if small.high_mask:
        byte, shift = small.high
        high = b.lshr(load(b, ahead(b, source, byte), i8, 1), ir.Constant(i8, shift))
        high = b.and_(high, ir.Constant(i8, small.high_mask))
        value = b.or_(value, b.shl(high, ir.Constant(i8, 4)))
    return b.sub(value, ir.Constant(i8, zero)) if zero else value
