"""x * y + z rounded once, in plain operations: for x86 processors without FMA, where LLVM would call the C library.

Lanes are doubles: a product of two floats is exact, and a sum rounded to a double becomes the right float unless it
lies half way between two floats, or is so small that a float has fewer bits. Then what the sum has lost decides: the
last bit of the double is set if anything was lost, so that it lies on the right side.
"""

import re
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, cell, every, f32, i32, i64, lanes

_NAMED = re.compile(r'@"llvm\.fma\.(v\d+)?f32"')
_f64 = ir.DoubleType()
# Of the 29 bits that a double has more than a float, those of a number half way between two floats.
BELOW, HALF_WAY = 0x1FFFFFFF, 0x10000000
_SIZE, _LEAST_NORMAL = 0x7FFFFFFF, 0x00800000  # of a float's bits


def spelled_out(text: str) -> str:
    """The IR text, with plain operations instead of LLVM's fma."""
    counts = {int(found.group(1)[1:]) if found.group(1) else 0 for found in _NAMED.finditer(text)}
    if not counts:
        return text
    lines = [line for line in text.split("\n") if not _is_declared(line)]
    named = _NAMED.sub(
        lambda found: f'@"{_name(int((found.group(1) or "v0")[1:]))}"', "\n".join(lines)
    )
    return "\n".join([named, *(_defined(count) for count in sorted(counts))])


def _is_declared(line: str) -> bool:
    return line.startswith("declare ") and '@"llvm.fma.' in line


def _name(count: int) -> str:
    return f"fused.{count}"


def _defined(count: int) -> str:
    """A function of vectors of so many lanes; 0: of floats."""
    kind = ir.VectorType(f32, count or 1)
    outside: Any = kind if count else f32
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(outside, [outside] * 3), _name(count))
    function.linkage = "internal"
    function.attributes.add("noinline")
    b = ir.IRBuilder(function.append_basic_block())
    made = _fused(b, kind, *(b.bitcast(each, kind) for each in function.args))
    b.ret(b.bitcast(made, outside))
    return str(function)


def _fused(b: Builder, kind: Any, x: Value, y: Value, z: Value) -> Value:
    doubles, ints = ir.VectorType(_f64, kind.count), ir.VectorType(i32, kind.count)
    x, y, z = (b.fpext(each, doubles) for each in (x, y, z))
    product = b.fmul(x, y)
    total = b.fadd(product, z)
    rounded = b.fptrunc(total, kind)
    low = b.bitcast(total, ir.VectorType(i32, 2 * kind.count))
    low = b.shuffle_vector(low, low, lanes(*range(0, 2 * kind.count, 2)))
    between = b.icmp_signed("==", b.and_(low, every(ints, BELOW)), every(ints, HALF_WAY))
    # From 1 to the least normal number, as a range of signed numbers.
    small = b.add(b.and_(b.bitcast(rounded, ints), every(ints, _SIZE)), every(ints, _SIZE))
    is_small = b.icmp_signed("<", small, every(ints, _LEAST_NORMAL - (1 << 31)))
    doubtful = b.bitcast(b.or_(between, is_small), ir.IntType(kind.count))
    found = cell(b, rounded)
    with b.if_then(b.icmp_unsigned("!=", doubtful, ir.Constant(doubtful.type, 0))):
        b.store(b.fptrunc(_to_odd(b, product, z, total), kind), found)
    return b.load(found)


def _to_odd(b: Builder, x: Value, y: Value, total: Value) -> Value:
    """x + y, whose nearest double is the total: that if it is exact, else the odd one of the two doubles around it."""
    kind, words = total.type, ir.VectorType(i64, total.type.count)
    part = b.fsub(total, x)
    lost = b.fadd(b.fsub(x, b.fsub(total, part)), b.fsub(y, part))
    is_lost = b.zext(b.fcmp_ordered("!=", lost, every(kind, 0.0)), words)
    bits = b.bitcast(total, words)
    is_above = b.lshr(b.xor(bits, b.bitcast(lost, words)), every(words, 63))
    below = b.sub(bits, b.and_(is_above, is_lost))
    return b.bitcast(b.or_(below, is_lost), kind)
