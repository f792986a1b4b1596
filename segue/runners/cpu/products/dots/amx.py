"""AMX: 16 rows by 16 outputs at once, out of registers that hold small matrices. Fewer rows take VPDPBUSD.

Codes are expanded to signed bytes beside the stack, zero taken off, since the instruction reads them from memory as the
tiles have them: a step is one row of 16 outputs times 4 columns. Its sums come back through memory as well.
"""

from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, ahead, call, i8, i64, load, number, store
from segue.runners.cpu.products.dots import x86
from segue.runners.cpu.products.dots.vectors import Part
from segue.runners.cpu.products.formats import GROUP, STEP

ROWS = 16
_LINE = 64  # bytes of a register's row
_INPUTS, _CODES, _SUMS = (
    0,
    1,
    3,
)  # registers: one of activations, then one for each vector of outputs
_VECTORS = 2
_VOID = ir.VoidType()
_POINTER = i8.as_pointer()


def configure(b: Builder, parts: int) -> None:
    """Say what shapes the registers have, on this thread."""
    shapes = {_INPUTS: (ROWS, GROUP // parts)}
    for v in range(_VECTORS):
        shapes[_CODES + v] = (GROUP // parts // STEP, _LINE)
        shapes[_SUMS + v] = (ROWS, _LINE)
    form = bytearray(64)
    form[0] = 1  # the only palette
    for register, (rows, size) in shapes.items():
        form[16 + 2 * register], form[48 + register] = size, rows
    place = _scratch(b, len(form))
    words = ir.VectorType(i8, 64)
    store(b, ir.Constant(words, list(form)), place, 1)
    call(b, "llvm.x86.ldtilecfg", _VOID, b.inttoptr(place, _POINTER))


def release(b: Builder) -> None:
    call(b, "llvm.x86.tilerelease", _VOID)


def tdpbssd(b: Builder, part: Part) -> list[list[Value]]:
    if len(part.rows) != ROWS:
        return x86.vnni(b, part)
    kind, steps = part.kind, list(part.steps)
    codes = _scratch(b, _VECTORS * GROUP // STEP * _LINE)
    sums = _scratch(b, _VECTORS * ROWS * _LINE)
    zero = kind.all(kind.bytes, part.codes.zero)
    for place, step in enumerate(steps):
        for v, vector in enumerate(part.codes.step(step)):
            signed = b.sub(vector, zero) if part.codes.zero else vector
            store(b, signed, ahead(b, codes, (place * _VECTORS + v) * _LINE), _LINE)
    stride = b.sub(part.rows[1], part.rows[0])
    _move(b, "tileloadd64", _INPUTS, ahead(b, part.rows[0], STEP * steps[0]), stride)
    found: list[list[Value]] = [[] for _ in range(ROWS)]
    for v in range(_VECTORS):
        _move(b, "tileloadd64", _CODES + v, ahead(b, codes, v * _LINE), number(_VECTORS * _LINE))
        call(b, "llvm.x86.tilezero", _VOID, _register(_SUMS + v))
        registers = [_register(r) for r in (_SUMS + v, _INPUTS, _CODES + v)]
        call(b, "llvm.x86.tdpbssd", _VOID, *registers)
        _move(b, "tilestored64", _SUMS + v, ahead(b, sums, v * ROWS * _LINE), number(_LINE))
    for v in range(_VECTORS):
        for m in range(ROWS):
            place = ahead(b, sums, (v * ROWS + m) * _LINE)
            found[m].append(load(b, place, kind.ints, _LINE))
    return found


def _move(b: Builder, name: str, register: int, place: Value, stride: Value) -> None:
    call(b, f"llvm.x86.{name}", _VOID, _register(register), b.inttoptr(place, _POINTER), stride)


def _register(number: int) -> Value:
    return ir.Constant(i8, number)


def _scratch(b: Builder, size: int) -> Value:
    """The address of memory of this function's own, at the start of a line."""
    with b.goto_entry_block():
        place: Any = b.alloca(ir.ArrayType(i8, size))
    place.align = _LINE
    return b.ptrtoint(place, i64)
