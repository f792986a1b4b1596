"""What a block of the file says, in compiled code: the codes of four columns, one per byte, and small numbers."""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, ahead, at, call, i8, i16, i32, i64, load
from segue.runners.cpu.products import grids
from segue.runners.cpu.products.layout import MARKS_AT, STEP, Bits, Format, Grid, Small

_ALL = 0x01010101  # times a byte: that byte four times


def step_codes(b: Builder, form: Format, source: Value, step: int) -> Value:
    """The codes of four columns, one per byte."""
    if form.grid is not None:
        return _of_grid(b, form, form.grid, source, step)
    if form.is_ternary:
        byte, digit = form.low[step]
        return _digits(b, load(b, ahead(b, source, byte), i32, 1), digit)
    if not form.high:
        return _plane(b, source, form.low[step], form.planes[0], form.is_spread)
    code = _plane(b, source, form.low[step], form.planes[0], False)
    return b.or_(code, _above(b, _high(b, form, source, step), form.planes[0]))


def masked(b: Builder, word: Value, shift: int, bits: int) -> Value:
    """These bits of each of four bytes."""
    if bits == 8:
        return word
    return b.and_(b.lshr(word, ir.Constant(i32, shift)), ir.Constant(i32, ((1 << bits) - 1) * _ALL))


def _high(b: Builder, form: Format, source: Value, step: int) -> Value:
    bits = 1 if form.is_spread else form.planes[1]
    return _plane(b, source, form.high[step], bits, form.is_spread)


def _plane(b: Builder, source: Value, place: Bits, bits: int, is_spread: bool) -> Value:
    """The bits of one plane, those of each column in a byte of their own."""
    byte, shift = place
    if not is_spread:
        return masked(b, load(b, ahead(b, source, byte), i32, 1), shift, bits)
    own = b.zext(load(b, ahead(b, source, byte), i8, 1), i32)
    return _spread(b, b.lshr(own, ir.Constant(i32, shift)), bits)


def _spread(b: Builder, word: Value, bits: int) -> Value:
    """The lowest four times `bits` bits of a byte, side by side: those of each column to their own byte."""
    found = word
    for column in range(1, STEP):
        found = b.or_(found, b.shl(word, ir.Constant(i32, column * (8 - bits))))
    return masked(b, found, 0, bits)


def _above(b: Builder, part: Value, bits: int) -> Value:
    return b.shl(part, ir.Constant(i32, bits))


def _digits(b: Builder, word: Value, digit: int) -> Value:
    """A digit in base 3 of each byte, which is a fraction of 256: what 3 times the rest carries over."""
    four, wide = ir.VectorType(i8, STEP), ir.VectorType(i16, STEP)
    rest = b.mul(b.bitcast(word, four), ir.Constant(four, [3**digit] * STEP))
    carried = b.mul(b.zext(rest, wide), ir.Constant(wide, [3] * STEP))
    return b.bitcast(b.trunc(b.lshr(carried, ir.Constant(wide, [8] * STEP)), four), i32)


# --- rows of a table ---


def _of_grid(b: Builder, form: Format, grid: Grid, source: Value, step: int) -> Value:
    run, place = divmod(step * STEP, grid.columns)
    row = b.zext(bits_of(b, grid.rows[run], source, i16), i64)
    start = b.ptrtoint(_table(b.module, form.name), i64)
    code = load(b, ahead(b, at(b, start, row, grid.columns), place), i32, 1)
    if grid.signs:
        return b.or_(code, _above(b, _signs(b, grid.signs[step // 2], source, step), grid.bits))
    if form.high:
        return b.or_(code, _above(b, _high(b, form, source, step), grid.bits))
    return code


def _signs(b: Builder, seven: Small, source: Value, step: int) -> Value:
    """Four of eight signs, each in a byte: the eighth says whether the number of the others is odd."""
    known = bits_of(b, seven, source, i8)
    if step % 2:
        is_odd = b.and_(call(b, "llvm.ctpop.i8", i8, known), ir.Constant(i8, 1))
        last = b.shl(is_odd, ir.Constant(i8, 3))
        known = b.or_(b.lshr(known, ir.Constant(i8, 4)), last)
    return _spread(b, b.zext(known, i32), 1)


def _table(module: Any, name: str) -> Any:
    if "grid" not in module.globals:
        codes = grids.table(name)
        kind = ir.ArrayType(i8, len(codes))
        made = ir.GlobalVariable(module, kind, "grid")
        made.linkage, made.global_constant = "internal", True
        made.initializer = ir.Constant(kind, bytearray(codes))
    return module.globals["grid"]


# --- numbers ---


def bits_of(b: Builder, small: Small, source: Value, kind: Any) -> Value:
    """A number of a few bits."""
    value = _part(b, source, small.low, small.mask, kind)
    if small.high_mask:
        high = _part(b, source, small.high, small.high_mask, kind)
        value = b.or_(value, b.shl(high, ir.Constant(kind, small.above)))
    return value


def _part(b: Builder, source: Value, place: Bits, mask: int, kind: Any) -> Value:
    """Bits of one byte; of two where one does not have them all."""
    byte, shift = place
    own = i8 if shift + mask.bit_length() <= 8 else i16
    value = b.lshr(load(b, ahead(b, source, byte), own, 1), ir.Constant(own, shift))
    value = b.and_(value, ir.Constant(own, mask))
    if own == kind:
        return value
    return b.trunc(value, kind) if own.width > kind.width else b.zext(value, kind)


def marks_of(b: Builder, marks: Sequence[Bits], source: Value) -> Value:
    """Marks as bits of a byte, where a group has them beside its small scale."""
    found = ir.Constant(i8, 0)
    for i, place in enumerate(marks, MARKS_AT):
        found = b.or_(found, b.shl(_part(b, source, place, 1, i8), ir.Constant(i8, i)))
    return found


def scale_bits(b: Builder, form: Format, source: Value) -> Value:
    """The scale of a block as it is in the file: an f16, or a byte."""
    if not form.quarters_at:
        return load(b, ahead(b, source, form.scale_at or 0), i8 if form.is_exponent else i16, 1)
    found = ir.Constant(i16, 0)
    for i, byte in enumerate(form.quarters_at):
        part = _part(b, source, (byte, 4), 15, i16)
        found = b.or_(found, b.shl(part, ir.Constant(i16, 4 * i)))
    return found
