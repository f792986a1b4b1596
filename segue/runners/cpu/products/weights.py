"""Reads the weights of a tile: codes expanded to bytes, and scales as floats.

A tile's group has, for all its outputs: planes, then small scales and minima of one byte each. In a plane, the four
columns of a step are four bytes per lane. Bytes hold two steps of 4 bits, four of 2 bits or eight of 1 bit.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, ahead, call, f16, f32, i8, i16, i32, load, splat
from segue.runners.cpu.products.dots.pairs import is_paired
from segue.runners.cpu.products.dots.vectors import Codes, Kind, chosen
from segue.runners.cpu.products.layout import GROUP, MARKS_AT, STEP, Format

_AHEAD = 4096  # bytes; measured: 2 to 16 KiB are equally good
_LINE = 64
_POINTER = i8.as_pointer()


@dataclass(frozen=True)
class Reader:
    """Reads the packed weights of one format with the vectors of one flavour."""

    kind: Kind
    form: Format
    factor: Value = None  # the bits of the matrix's scale, if its blocks have none

    @property
    def width(self) -> int:
        return self.kind.flavour.width

    def codes(self, b: Builder, group: Value, some: range) -> Codes:
        """The codes of some of the tile's registers."""
        return Codes(
            lambda step: [self._vector(b, group, step, v) for v in some],
            top=self.form.top,
            is_signed=self.form.is_signed,
            zero=self.form.zero,
            vectors=len(some),
            is_paired=is_paired(self.kind.flavour, self.form),
            half=partial(self._half, b, group, some) if self.form.doubling else None,
        )

    def _half(self, b: Builder, group: Value, some: range, step: int) -> list[Value]:
        """Half of the codes of four columns."""
        once = replace(self, form=replace(self.form, doubling=self.form.doubling - 1))
        return [once._vector(b, group, step, v) for v in some]

    # --- codes ---

    def step(self, b: Builder, group: Value, step: int) -> list[Value]:
        """The bytes of four columns: one vector for each of the tile's registers."""
        return [self._vector(b, group, step, v) for v in range(self.kind.flavour.vectors)]

    def _vector(self, b: Builder, group: Value, step: int, v: int) -> Value:
        code, below, offset = None, self.form.doubling, 0
        for bits in self.form.planes:
            each = 8 // bits  # steps per chunk
            chunk = offset + step // each * self.width * STEP + v * self.kind.bytes.count
            plane = load(b, ahead(b, group, chunk), self.kind.bytes, 1)
            part = self._bits(b, plane, step % each * bits, bits, below)
            code = part if code is None else b.or_(code, part)
            below += bits
            offset += 8 // each * self.width * STEP
        if self.form.marks:
            mark = MARKS_AT + step * self.form.marks // (GROUP // STEP)
            code = b.or_(code, self._bits(b, self._marks(b, group, v), mark, 1, below))
        return self._meaning(b, code) if self.form.codebook else code

    def _marks(self, b: Builder, group: Value, v: int) -> Value:
        """The byte with the marks of each output, in all of its lane's bytes."""
        small = self.small(b, group, 0, v)
        return chosen(b, small, small, [place // STEP for place in range(self.kind.bytes.count)])

    def _bits(self, b: Builder, plane: Value, start: int, bits: int, below: int) -> Value:
        """The `bits` bits of each byte from bit `start` on, moved to bit `below`."""
        if bits == 8:
            return plane
        shift = start - below
        if shift > 0:
            plane = b.lshr(plane, self.kind.all(self.kind.bytes, shift))
        elif shift < 0:
            plane = b.shl(plane, self.kind.all(self.kind.bytes, -shift))
        if shift == 8 - bits:  # the shift has removed all other bits
            return plane
        return b.and_(plane, self.kind.all(self.kind.bytes, ((1 << bits) - 1) << below))

    def _meaning(self, b: Builder, code: Value) -> Value:
        kind = self.kind.bytes
        if self.kind.flavour.arch == "x86_64":
            name = {
                16: "llvm.x86.avx512.pshuf.b.512",
                8: "llvm.x86.avx2.pshuf.b",
                4: "llvm.x86.ssse3.pshuf.b.128",
            }
            table = ir.Constant(kind, list(self.form.codebook) * (kind.count // 16))
            return call(b, name[self.kind.flavour.lanes], kind, table, code)
        if self.kind.flavour.arch == "aarch64":
            table = ir.Constant(kind, list(self.form.codebook))
            return call(b, "llvm.aarch64.neon.tbl1.v16i8", kind, table, code)
        return b.call(_lookup(b.module, self.kind, self.form.codebook), [code])

    # --- scales ---

    def scale(self, b: Builder, block: Value, v: int) -> Value:
        lanes = self.kind.flavour.lanes
        if self.form.has_factor:
            return splat(b, b.bitcast(b.trunc(self.factor, i32), f32), self.kind.floats)
        if self.form.is_exponent:
            return self._power(b, load(b, ahead(b, block, v * lanes), ir.VectorType(i8, lanes), 1))
        found = half(b, self.kind, ahead(b, block, 2 * v * lanes))
        if self.form.factor == 1:
            return found
        return b.fmul(found, self.kind.all(self.kind.floats, self.form.factor))

    def minimum(self, b: Builder, block: Value, v: int) -> Value:
        return half(b, self.kind, ahead(b, block, 2 * self.width + 2 * v * self.kind.flavour.lanes))

    def small(self, b: Builder, group: Value, which: int, v: int) -> Value:
        """A group's which-th small scale (minima come after scales), as packed: bytes."""
        offset = (self.form.plane_bytes + which) * self.width + v * self.kind.flavour.lanes
        return load(b, ahead(b, group, offset), ir.VectorType(i8, self.kind.flavour.lanes), 1)

    def _power(self, b: Builder, exponent: Value) -> Value:
        """Half of 2 to the (e - 127): half, because the codebook's numbers are doubled."""
        ints, every = self.kind.ints, self.kind.all
        wide = b.zext(exponent, ints)
        usual = b.shl(b.sub(wide, every(ints, 1)), every(ints, 23))
        tiny = b.shl(every(ints, 0x00200000), wide)
        is_tiny = b.icmp_unsigned("<", wide, every(ints, 2))
        return b.bitcast(b.select(is_tiny, tiny, usual), self.kind.floats)

    # --- small scales ---

    def smalls(
        self, b: Builder, group: Value, v: int
    ) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """A group's small scales, one for each part, and its small minima, as floats."""
        form = self.form
        count = (len(form.scales) + len(form.mins)) // form.groups
        kept = [self.small(b, group, which, v) for which in range(count)]
        if form.smalls == "signed":
            numbers = [b.sitofp(b.sext(small, self.kind.ints), self.kind.floats) for small in kept]
            return tuple(numbers[: form.parts]), tuple(numbers[form.parts :])
        if form.smalls == "float":
            return tuple(self._short(b, small) for small in kept), ()
        wide = [b.zext(small, self.kind.ints) for small in kept]
        if form.smalls == "with minimum":
            lows = tuple(self._number(b, b.and_(each, self._int(15))) for each in wide)
            return lows, tuple(self._number(b, b.lshr(each, self._int(4))) for each in wide)
        most = 14 if form.marks else 30
        found = [self._odd(b, b.shl(each, self._int(1)), most) for each in wide]
        if form.smalls == "odd halves":
            found += [self._odd(b, b.lshr(each, self._int(3)), most) for each in wide]
        return tuple(found), ()

    def _int(self, value: int) -> Value:
        return self.kind.all(self.kind.ints, value)

    def _number(self, b: Builder, value: Value) -> Value:
        return b.sitofp(value, self.kind.floats)

    def _odd(self, b: Builder, doubled: Value, most: int) -> Value:
        """2n + 1, where 2n is at most `most` and other bits stand beside it."""
        return self._number(b, b.or_(b.and_(doubled, self._int(most)), self._int(1)))

    def _short(self, b: Builder, small: Value) -> Value:
        """A float of 4 and 3 bits: as an f16 of the same bits it is 2 to the 8th smaller, exactly."""
        wide = ir.VectorType(i16, self.kind.flavour.lanes)
        return widened(b, self.kind, b.shl(b.zext(small, wide), self.kind.all(wide, 7)))


def half(b: Builder, kind: Kind, address: Value) -> Value:
    """f16 → f32."""
    lanes = kind.flavour.lanes
    if kind.flavour.has_halves:
        return b.fpext(load(b, address, ir.VectorType(f16, lanes), 2), kind.floats)
    return _half_by_hand(b, kind, load(b, address, ir.VectorType(i16, lanes), 2))


def widened(b: Builder, kind: Kind, bits: Value) -> Value:
    """The bits of f16 → f32."""
    if kind.flavour.has_halves:
        return b.fpext(b.bitcast(bits, ir.VectorType(f16, bits.type.count)), kind.floats)
    return _half_by_hand(b, kind, bits)


def _half_by_hand(b: Builder, kind: Kind, bits: Value) -> Value:
    """f16 → f32 for processors without f16: exact, also for subnormals, infinities and NaN."""
    ints, every = kind.ints, kind.all
    wide = b.zext(bits, ints)
    body = b.shl(b.and_(wide, every(ints, 0x7FFF)), every(ints, 13))
    scaled = b.fmul(b.bitcast(body, kind.floats), every(kind.floats, 2.0**112))
    is_odd = b.icmp_unsigned(">=", body, every(ints, 0x7C00 << 13))
    body = b.select(is_odd, b.or_(body, every(ints, 0x7F800000)), b.bitcast(scaled, ints))
    sign = b.shl(b.and_(wide, every(ints, 0x8000)), every(ints, 16))
    return b.bitcast(b.or_(body, sign), kind.floats)


def _lookup(module: Any, kind: Kind, codebook: tuple[int, ...]) -> Any:
    """A function that looks up a codebook, for processors without a byte shuffle."""
    name = "lookup"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(kind.bytes, [kind.bytes]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    b = ir.IRBuilder(function.append_basic_block())
    found = kind.all(kind.bytes, 0)
    for number, value in enumerate(codebook):
        same = b.icmp_unsigned("==", function.args[0], kind.all(kind.bytes, number))
        found = b.select(same, kind.all(kind.bytes, value), found)
    b.ret(found)
    return function


def prefetch(b: Builder, kind: Kind, start: Value, size: int) -> None:
    """Prefetch weights that are read soon. x86 does not prefetch beyond a page by itself: a single row gains a sixth.

    Not on ARM: there, computing the addresses would cost a single row more than it gains.
    """
    if kind.flavour.arch != "x86_64":
        return
    name, kinds = "llvm.prefetch.p0", [_POINTER, i32, i32, i32]
    function = b.module.globals.get(name) or ir.Function(
        b.module, ir.FunctionType(ir.VoidType(), kinds), name
    )
    to_read, to_keep, data = (ir.Constant(i32, value) for value in (0, 3, 1))
    for line in range(0, size, _LINE):
        place = b.inttoptr(ahead(b, start, _AHEAD + line), _POINTER)
        b.call(function, [place, to_read, to_keep, data])
