"""AMX in plain IR: its registers are a piece of memory, its configuration another."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import ahead, at, i8, i16, i32, i64, load, loop, number, store

_REGISTER = 1024
_SIZES, _ROWS = 16, 48  # where the configuration has them: two bytes, and one


def define_amx(module: ir.Module, function: ir.Function) -> None:
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block())
    places = [
        b.ptrtoint(_memory(module, *each), i64) for each in (("registers", 8192), ("form", 64))
    ]
    AMX[function.name](b, places[0], places[1], list(function.args))
    b.ret_void()


def _memory(module: ir.Module, name: str, size: int) -> Any:
    if name in module.globals:
        return module.globals[name]
    kind = ir.ArrayType(i8, size)
    made = ir.GlobalVariable(module, kind, name)
    made.initializer, made.linkage = ir.Constant(kind, None), "internal"
    return made


def _of(b: Any, registers: Any, form: Any, register: Any) -> tuple[Any, Any, Any]:
    """Where a register is, and its rows and bytes of a row."""
    index = b.zext(register, i64)
    rows = b.zext(load(b, b.add(ahead(b, form, _ROWS), index), i8, 1), i64)
    size = b.zext(load(b, at(b, ahead(b, form, _SIZES), index, 2), i16, 1), i64)
    return at(b, registers, index, _REGISTER), rows, size


def _ldtilecfg(b: Any, registers: Any, form: Any, args: Any) -> None:
    with loop(b, number(64)) as each:
        value = load(b, b.add(b.ptrtoint(args[0], i64), each.index), i8, 1)
        store(b, value, b.add(form, each.index), 1)


def _tilezero(b: Any, registers: Any, form: Any, args: Any) -> None:
    place, _, _ = _of(b, registers, form, args[0])
    with loop(b, number(_REGISTER)) as each:
        store(b, ir.Constant(i8, 0), b.add(place, each.index), 1)


def _move(b: Any, registers: Any, form: Any, args: Any, is_load: bool) -> None:
    place, rows, size = _of(b, registers, form, args[0])
    memory = b.ptrtoint(args[1], i64)
    with loop(b, rows) as row, loop(b, size) as byte:
        inside = b.add(at(b, place, row.index, 64), byte.index)
        outside = b.add(b.add(memory, b.mul(row.index, args[2])), byte.index)
        source, target = (outside, inside) if is_load else (inside, outside)
        store(b, load(b, source, i8, 1), target, 1)


def _tileload(b: Any, registers: Any, form: Any, args: Any) -> None:
    _move(b, registers, form, args, True)


def _tilestore(b: Any, registers: Any, form: Any, args: Any) -> None:
    _move(b, registers, form, args, False)


def _tdpbssd(b: Any, registers: Any, form: Any, args: Any) -> None:
    sums, rows, size = _of(b, registers, form, args[0])
    x, _, depth = _of(b, registers, form, args[1])
    y, _, _ = _of(b, registers, form, args[2])
    four = number(4)
    with loop(b, rows) as m, loop(b, b.udiv(size, four)) as n, loop(b, depth) as k:
        place = at(b, at(b, sums, m.index, 64), n.index, 4)
        left = load(b, b.add(at(b, x, m.index, 64), k.index), i8, 1)
        step, byte = b.udiv(k.index, four), b.urem(k.index, four)
        right = load(b, b.add(at(b, at(b, y, step, 64), n.index, 4), byte), i8, 1)
        product = b.mul(b.sext(left, i32), b.sext(right, i32))
        store(b, b.add(load(b, place, i32), product), place)


def _nothing(b: Any, registers: Any, form: Any, args: Any) -> None:
    pass


AMX: dict[str, Callable[[Any, Any, Any, Any], None]] = {
    "llvm.x86.ldtilecfg": _ldtilecfg,
    "llvm.x86.tilezero": _tilezero,
    "llvm.x86.tileloadd64": _tileload,
    "llvm.x86.tilestored64": _tilestore,
    "llvm.x86.tdpbssd": _tdpbssd,
    "llvm.x86.tilerelease": _nothing,
}
