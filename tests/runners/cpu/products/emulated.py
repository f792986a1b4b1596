"""Instructions of other processors, spelled out in plain IR: so the code of every flavour runs here."""

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from segue.runners.cpu.emit import i8, i16, i32
from segue.runners.cpu.products import kernels, processor
from segue.runners.cpu.products.layout import FloatFormat, Format
from segue.runners.cpu.products.processor import Flavour, Target

Lane = Callable[[Any, Any, Any, int], Any]  # builder, arguments, number of a lane → its value


def target_of(flavour: Flavour) -> Target:
    """The flavour's IR, for this processor."""
    own = processor.this_target({})
    return Target(flavour, own.triple, llvm.get_host_cpu_name(), own.features)


def compiled(text: str, target: Target) -> bytes:
    """An object file, made in a fourth of the time: what is tested is what the IR says, not this machine's code."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=0, jit=True, codemodel="jitdefault"
    )
    parsed = llvm.parse_assembly(text)
    parsed.verify()
    made: bytes = machine.emit_object(parsed)
    return made


class Emulated:
    """Stands for a module where its text is asked for."""

    def __init__(self, module: ir.Module):
        self.module = module

    def __str__(self) -> str:
        names = [name for name in self.module.globals if name in _LANES]
        for name in names:
            _define(self.module.globals[name], _LANES[name])
        text = str(self.module)
        for name in names:
            text = text.replace(f'@"{name}"', f'@"emulated.{name}"')
        return text


def module(form: Format | FloatFormat, target: Target) -> Emulated:
    return Emulated(_module(form, target))


_module = kernels.module


def _define(function: ir.Function, lane: Lane) -> None:
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block())
    made = ir.Constant(function.function_type.return_type, ir.Undefined)
    for number in range(made.type.count):
        value = lane(b, function.args, made.type.element, number)
        made = b.insert_element(made, value, ir.Constant(i32, number))
    b.ret(made)


def _at(b: Any, vector: Any, lane: int, kind: Any, signed: bool = True) -> Any:
    value = b.extract_element(vector, ir.Constant(i32, lane))
    return (b.sext if signed else b.zext)(value, kind)


def _dot(b: Any, start: Any, pairs: list[tuple[Any, Any]]) -> Any:
    for x, y in pairs:
        start = b.add(start, b.mul(x, y))
    return start


def _vpdpbusd(b: Any, args: Any, kind: Any, lane: int) -> Any:
    bytes_ = ir.VectorType(i8, args[0].type.count * 4)
    x, y = b.bitcast(args[1], bytes_), b.bitcast(args[2], bytes_)
    pairs = [(_at(b, x, 4 * lane + c, i32, False), _at(b, y, 4 * lane + c, i32)) for c in range(4)]
    return _dot(b, b.extract_element(args[0], ir.Constant(i32, lane)), pairs)


def _sdot(b: Any, args: Any, kind: Any, lane: int) -> Any:
    acc, x, y = args
    pairs = [(_at(b, x, 4 * lane + c, i32), _at(b, y, 4 * lane + c, i32)) for c in range(4)]
    return _dot(b, b.extract_element(acc, ir.Constant(i32, lane)), pairs)


def _smmla(b: Any, args: Any, kind: Any, lane: int) -> Any:
    acc, x, y = args
    row, column = divmod(lane, 2)
    pairs = [(_at(b, x, 8 * row + c, i32), _at(b, y, 8 * column + c, i32)) for c in range(8)]
    return _dot(b, b.extract_element(acc, ir.Constant(i32, lane)), pairs)


def _smull(b: Any, args: Any, kind: Any, lane: int) -> Any:
    return b.mul(_at(b, args[0], lane, i16), _at(b, args[1], lane, i16))


def _saddlp(b: Any, args: Any, kind: Any, lane: int) -> Any:
    return b.add(_at(b, args[0], 2 * lane, i32), _at(b, args[0], 2 * lane + 1, i32))


def _addp(b: Any, args: Any, kind: Any, lane: int) -> Any:
    half = args[0].type.count // 2
    source = args[0] if lane < half else args[1]
    first, second = (ir.Constant(i32, 2 * (lane % half) + c) for c in (0, 1))
    return b.add(b.extract_element(source, first), b.extract_element(source, second))


def _tbl(b: Any, args: Any, kind: Any, lane: int) -> Any:
    return b.extract_element(args[0], _at(b, args[1], lane, i32, False))


def _pmaddubs(b: Any, args: Any, kind: Any, lane: int) -> Any:
    x, y = args
    pairs = [(_at(b, x, 2 * lane + c, i32, False), _at(b, y, 2 * lane + c, i32)) for c in (0, 1)]
    total = _dot(b, ir.Constant(i32, 0), pairs)
    for name, bound in (("<", -32768), (">", 32767)):
        limit = ir.Constant(i32, bound)
        total = b.select(b.icmp_signed(name, total, limit), limit, total)
    return b.trunc(total, i16)


def _pmaddwd(b: Any, args: Any, kind: Any, lane: int) -> Any:
    x, y = args
    pairs = [(_at(b, x, 2 * lane + c, i32), _at(b, y, 2 * lane + c, i32)) for c in (0, 1)]
    return _dot(b, ir.Constant(i32, 0), pairs)


def _psign(b: Any, args: Any, kind: Any, lane: int) -> Any:
    value, sign = (b.extract_element(arg, ir.Constant(i32, lane)) for arg in args)
    zero = ir.Constant(i8, 0)
    negated = b.select(b.icmp_signed("<", sign, zero), b.neg(value), value)
    return b.select(b.icmp_signed("==", sign, zero), zero, negated)


def _pshufb(b: Any, args: Any, kind: Any, lane: int) -> Any:
    place = b.add(_at(b, args[1], lane, i32, False), ir.Constant(i32, lane // 16 * 16))
    return b.extract_element(args[0], place)


_LANES: dict[str, Lane] = {
    "llvm.x86.avx512.pmaddubs.w.512": _pmaddubs,
    "llvm.x86.avx2.pmadd.ub.sw": _pmaddubs,
    "llvm.x86.avx512.pmaddw.d.512": _pmaddwd,
    "llvm.x86.avx2.pmadd.wd": _pmaddwd,
    "llvm.x86.avx2.psign.b": _psign,
    "llvm.x86.ssse3.pmadd.ub.sw.128": _pmaddubs,
    "llvm.x86.sse2.pmadd.wd": _pmaddwd,
    "llvm.x86.ssse3.psign.b.128": _psign,
    "llvm.x86.ssse3.pshuf.b.128": _pshufb,
    "llvm.x86.avx512.pshuf.b.512": _pshufb,
    "llvm.x86.avx2.pshuf.b": _pshufb,
    "llvm.x86.avx512.vpdpbusd.512": _vpdpbusd,
    "llvm.x86.avx512.vpdpbusd.256": _vpdpbusd,
    "llvm.aarch64.neon.sdot.v4i32.v16i8": _sdot,
    "llvm.aarch64.neon.smmla.v4i32.v16i8": _smmla,
    "llvm.aarch64.neon.smull.v8i16": _smull,
    "llvm.aarch64.neon.saddlp.v4i32.v8i16": _saddlp,
    "llvm.aarch64.neon.addp.v4i32": _addp,
    "llvm.aarch64.neon.tbl1.v16i8": _tbl,
}
