"""One tile of a quantised product: all outputs of a tile for a few rows.

The exact value of an output, for every flavour and any number of rows in the tile. Over the groups in order:

    acc = fma(d·sc · sa, float(dot), acc)                              one scale per group
    acc = fma(d · sa, sc₀·dot₀ + sc₁·dot₁, acc)                        a scale for each half (the sum is exact)
    acc = fma(d · sa, fma(sc₀, dot₀, sc₁·dot₁), acc)                   the same, where they are floats
    acc = fma(m, sa · float(sum), acc)                                 a minimum; m = -dmin·min where it is small
    acc = fma(-dmin · sa, min₀·sum₀ + min₁·sum₁, acc)                  a minimum for each half (the sum is exact)

with dot = Σ a·(code - zero) and sum = Σ a in integers; every other operation is rounded once, as IEEE says.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
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
    i32,
    i64,
    load,
    loop,
    number,
    room,
    splat,
    store,
)
from segue.runners.cpu.products.dots import table
from segue.runners.cpu.products.dots.pairs import is_paired, joined, separated, spread
from segue.runners.cpu.products.dots.vectors import Codes, Kind, Part
from segue.runners.cpu.products.layout import GROUP, SCALES, STEP, Format
from segue.runners.cpu.products.processor import Flavour
from segue.runners.cpu.products.tiles import without_fma
from segue.runners.cpu.products.weights import Reader, prefetch

PARTS = 2  # integer sums of activations are kept for each half of a group
# Words of a group of activations: its scale, that times its sum, then the sums.
SCALE, ADDED, SUMS = range(3)
SMALL = 4  # bytes of one scale or sum of activations
_MANY_ROWS = 4  # of a tile on ARM: see _in_turn

Head = Callable[[int], Any]  # the scale and minimum of a block, for a register of outputs


@dataclass(frozen=True)
class Scales:
    """The weights' scales of one group, for one vector of outputs."""

    scale: Value  # the group's scale; d alone if each half has a scale
    parts: tuple[Value, ...]  # the small scales of halves
    minimum: Value | None
    minima: tuple[Value, ...]


@dataclass(frozen=True)
class Row:
    """The activations of one row in one group."""

    address: Value
    numbers: Callable[[], list[Value]]  # its scale, and that times the sum of all parts
    sums: tuple[Value, ...]  # i32: the sum of each part


@dataclass(frozen=True)
class Line:
    """The numbers of one row, or of a pair of rows, as vectors."""

    scale: Value
    added: Value
    sums: tuple[Value, ...]  # as floats, where halves have a minimum each


def row_counts(flavour: Flavour, form: Format) -> tuple[int, ...]:
    """How many rows a tile may take: limited by the number of registers."""
    return tuple(rows for rows in flavour.rows if rows <= 4 or not is_paired(flavour, form))


def _has_pairs(kind: Kind, form: Format, rows: int) -> bool:
    """Whether the tile's sums are in the order of pairs.py."""
    return is_paired(kind.flavour, form) and rows % 2 == 0


def build(module: Any, kind: Kind, form: Format, rows: int) -> Any:
    """A function (weights, blocks, a, lda, scales, out, ldo, valid): strides in bytes, `valid` outputs written.

    A ninth parameter is the matrix's scale, if the format has one.
    """
    b, args = function(module, f"tile_{rows}", 8 + form.has_factor)
    weights, blocks, a, lda, scales, out, ldo, valid, *factor = args
    inputs = ((a, lda), (scales, b.lshr(lda, number(1))))
    reader = Reader(kind, form, *factor)
    each_line = 2 if _has_pairs(kind, form, rows) else 1  # rows of a line
    acc = [
        [cell(b, kind.all(kind.floats, 0.0)) for _ in range(each_line * kind.flavour.vectors)]
        for _ in range(rows // each_line)
    ]

    def group(place: Value, head: Head, index: Value) -> None:
        _group(b, reader, place, head, rows_of(b, kind, form, inputs, rows, index), acc)

    each_group(b, reader, weights, blocks, group)
    done = [[b.load(place) for place in line] for line in acc]
    if _has_pairs(kind, form, rows):
        done = [row for line in done for row in separated(b, line)]
    for m, row in enumerate(done):
        write(b, kind, row, b.add(out, b.mul(ldo, number(m))), valid)
    b.ret_void()
    return b.function


def function(module: Any, name: str, parameters: int) -> tuple[Builder, Any]:
    """A tile's function: its builder and parameters."""
    made = ir.Function(module, ir.FunctionType(ir.VoidType(), [i64] * parameters), name)
    made.linkage = "internal"
    made.attributes.add("noinline")
    return ir.IRBuilder(made.append_basic_block()), made.args


def each_group(
    b: Builder,
    reader: Reader,
    weights: Value,
    blocks: Value,
    work: Callable[[Value, Head, Value], None],
) -> None:
    """Goes over a tile's groups: the address of each, its block's scale and minimum, its number."""
    kind, form, width = reader.kind, reader.form, reader.width
    with loop(b, blocks) as block:
        start = at(b, weights, block.index, form.kept_bytes * width)
        head: Head = partial(_head, b, reader, start)
        if form.groups > 1 or not _reads_late(kind):
            head = [head(v) for v in range(kind.flavour.vectors)].__getitem__
        groups = ahead(b, start, form.head_bytes * width)

        def group(inside: Value, place: Value) -> None:
            index = b.add(b.mul(block.index, number(form.groups)), inside)
            prefetch(b, kind, place, form.group_bytes * width)
            work(place, head, index)

        if form.groups == 1:
            group(number(0), groups)
        else:
            with loop(b, number(form.groups)) as each:
                group(each.index, at(b, groups, each.index, form.group_bytes * width))


def _head(b: Builder, reader: Reader, block: Value, v: int) -> tuple[Value, Value | None]:
    """A block's scale and minimum."""
    scale = reader.scale(b, block, v)
    if reader.form.min_at is None:
        return scale, None
    minimum = reader.minimum(b, block, v)
    return scale, b.fneg(minimum) if reader.form.scales else minimum


def _reads_late(kind: Kind) -> bool:
    """Whether scales are read where they are used: LLVM keeps the order of reads on ARM (dots/arm.py)."""
    return kind.flavour.arch == "aarch64"


def rows_of(
    b: Builder, kind: Kind, form: Format, inputs: Any, count: int, index: Value
) -> list[Row]:
    """The first rows in the group of this number; `inputs`: addresses and strides of activations and their scales."""
    return [_row(b, kind, form, inputs, m, index) for m in range(count)]


def _row(b: Builder, kind: Kind, form: Format, inputs: Any, m: int, index: Value) -> Row:
    """Load the activations of a row in a group."""
    (a, lda), (scales, lds) = inputs
    a = at(b, b.add(a, b.mul(lda, number(m))), index, GROUP)
    scales = at(b, b.add(scales, b.mul(lds, number(m))), index, SCALES * SMALL)
    halves = [load(b, ahead(b, scales, SMALL * (SUMS + part)), i32) for part in range(PARTS)]
    numbers = partial(_numbers, b, scales, _reads_late(kind))
    if not _reads_late(kind):
        numbers = partial(list, numbers())
    return Row(a, numbers, tuple(halves) if form.parts == PARTS else (b.add(*halves),))


def _numbers(b: Builder, place: Value, is_one_load: bool) -> list[Value]:
    """A row's scale, and its scale times its sum; as lanes of one vector if a lane can be a factor."""
    if not is_one_load:
        return [load(b, ahead(b, place, SMALL * word), f32) for word in (SCALE, ADDED)]
    found = load(b, place, ir.VectorType(f32, SCALES))
    return [b.extract_element(found, ir.Constant(i32, word)) for word in (SCALE, ADDED)]


def _group(
    b: Builder,
    reader: Reader,
    group: Value,
    head: Head,
    shared: list[Row],
    acc: list[list[Value]],
) -> None:
    kind, form = reader.kind, reader.form
    has_pairs = _has_pairs(kind, form, len(shared))
    each = 2 if has_pairs else 1
    for some in _in_turn(kind, form, len(shared), has_pairs):
        codes = reader.codes(b, group, some)
        scales = partial(group_scales, b, reader, group, head, some)
        own = [line[some.start * each : some.stop * each] for line in acc]
        add_group(b, reader, codes, scales, shared, own)


def add_group(
    b: Builder,
    reader: Reader,
    codes: Codes,
    scales: Callable[[], list[Scales]],
    shared: list[Row],
    acc: list[list[Value]],
) -> None:
    """Adds a group's products, and minima, to what outputs have so far: a variable for each row and register."""
    kind, form = reader.kind, reader.form
    dots = _dots(b, reader, codes, shared)
    made = scales()
    if _has_pairs(kind, form, len(shared)):
        made = [half for scale in made for half in _spread(b, scale)]
    for m, line in enumerate(_lines(b, kind, form, shared)):
        for v, scale in enumerate(made):
            parts = [kind.as_floats(b, dot[m][v]) for dot in dots]
            terms = partial(_terms, b, reader, scale, line, parts)
            if kind.flavour.has_fma:
                b.store(_added(b, b.load(acc[m][v]), terms()), acc[m][v])
            else:
                without_fma.add(b, acc[m][v], terms, _added)


def _in_turn(kind: Kind, form: Format, rows: int, has_pairs: bool) -> list[range]:
    """The tile's registers of outputs, those together that are computed together.

    One after the other if integer sums of all of them would not leave enough registers for the rest.
    """
    flavour, count = kind.flavour, range(kind.flavour.vectors)
    # Signed codes are summed in two digits, each in registers of its own.
    has_digits = flavour.dot == "maddubs" and flavour.lanes == 16 and form.is_signed
    is_many = _reads_late(kind) and not has_pairs and rows >= _MANY_ROWS
    return [range(v, v + 1) for v in count] if has_digits or is_many else [count]


def _dots(b: Builder, reader: Reader, codes: Codes, shared: list[Row]) -> Any:
    """For each part of the group its integer sums."""
    each = GROUP // STEP // reader.form.parts
    dots = []
    for part in range(reader.form.parts):
        steps = range(part * each, (part + 1) * each)
        totals = [row.sums[part] for row in shared]
        rows = [row.address for row in shared]
        dots.append(table.sums(b, Part(reader.kind, codes, steps, rows, totals)))
    return dots


def _lines(b: Builder, kind: Kind, form: Format, shared: list[Row]) -> list[Line]:
    found = []
    for row in shared:
        halves = [b.sitofp(total, f32) for total in row.sums if form.smalls == "with minimum"]
        found.append([splat(b, x, kind.floats) for x in (*row.numbers(), *halves)])
    if _has_pairs(kind, form, len(shared)):
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [[joined(b, *both) for both in zip(*pair, strict=True)] for pair in pairs]
    return [Line(scale, added, tuple(sums)) for scale, added, *sums in found]


def _spread(b: Builder, scales: Scales) -> list[Scales]:
    """The scales of four outputs, for the two vectors that they have in the order of pairs.py."""
    of_scale = spread(b, scales.scale)
    of_minimum = [None, None] if scales.minimum is None else spread(b, scales.minimum)
    of_parts, of_minima = (
        [tuple(side) for side in zip(*(spread(b, x) for x in own), strict=True)] or [(), ()]
        for own in (scales.parts, scales.minima)
    )
    sides = zip(of_scale, of_parts, of_minimum, of_minima, strict=True)
    return [Scales(*side) for side in sides]


def group_scales(b: Builder, reader: Reader, group: Value, head: Head, some: range) -> list[Scales]:
    """The scales of a group, for some of the tile's registers."""
    return [_scales(b, reader, group, head(v), v) for v in some]


def _scales(b: Builder, reader: Reader, group: Value, head: Any, v: int) -> Scales:
    form = reader.form
    scale, minimum = head
    if not form.scales:
        return Scales(scale, (), minimum, ())
    parts, minima = reader.smalls(b, group, v)
    if form.parts == PARTS:
        return Scales(scale, parts, minimum, minima)
    if minima:
        minimum = b.fmul(minimum, minima[0])
    return Scales(b.fmul(scale, parts[0]), (), minimum, ())


def _terms(
    b: Builder, reader: Reader, scale: Scales, line: Line, parts: Sequence[Value]
) -> Iterator[tuple[Value, Value]]:
    """The factors of what is added to an output, one after the other."""
    whole = _whole(b, reader, scale.parts, parts) if scale.parts else parts[0]
    yield b.fmul(scale.scale, line.scale), whole
    if scale.minima:
        whole = _whole(b, reader, scale.minima, line.sums)
        yield b.fmul(scale.minimum, line.scale), whole
    elif scale.minimum is not None:
        yield scale.minimum, line.added


def _whole(b: Builder, reader: Reader, scales: Sequence[Value], halves: Sequence[Value]) -> Value:
    """What both halves of a group have: a whole number, but for small scales that are none."""
    second = b.fmul(scales[1], halves[1])
    if reader.form.smalls == "float" or reader.kind.flavour.has_fma:
        return fma(b, scales[0], halves[0], second)
    return b.fadd(b.fmul(scales[0], halves[0]), second)


def _added(b: Builder, acc: Value, terms: Iterable[tuple[Value, Value]]) -> Value:
    for x, y in terms:
        acc = fma(b, x, y, acc)
    return acc


def write(b: Builder, kind: Kind, sums: list[Value], out: Value, valid: Value) -> None:
    """Store outputs: whole vectors if all their lanes are outputs of the matrix, else the `valid` ones one by one."""
    full = b.icmp_signed("==", valid, number(kind.flavour.width))
    size = kind.flavour.lanes * 4
    with b.if_else(full) as (whole, some):
        with whole:
            for v, value in enumerate(sums):
                store(b, value, ahead(b, out, v * size))
        with some:
            scratch = room(b, kind.floats, len(sums))
            for v, value in enumerate(sums):
                store(b, value, ahead(b, scratch, v * size))
            with loop(b, valid) as each:
                one = load(b, at(b, scratch, each.index, 4), f32)
                store(b, one, at(b, out, each.index, 4))
