"""What a group adds to outputs on processors without fused multiply-adds: in doubles, as in fused.py, but in line.

Of two factors one is a float, and the other a whole number or an f16 times one. So where a result is below the least
normal float, its double is exact. Only what lies half way between two floats must be looked at again, which is rare.
"""

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, every, i32, lanes
from segue.runners.cpu.products.fused import BELOW, HALF_WAY

Terms = Callable[[], Iterator[tuple[Value, Value]]]
_f64 = ir.DoubleType()


def add(
    b: Builder, place: Value, terms: Terms, exactly: Callable[[Builder, Value, Any], Value]
) -> None:
    """Adds the products of terms to the vector at the place; `exactly` does it with fma."""
    before = b.load(place)
    kind = before.type
    doubles, ints = ir.VectorType(_f64, kind.count), ir.VectorType(i32, kind.count)
    doubtful, acc = None, before
    found = list(terms())
    for x, y in found:
        product = b.fmul(b.fpext(x, doubles), b.fpext(y, doubles))
        total = b.fadd(product, b.fpext(acc, doubles))
        acc = b.fptrunc(total, kind)
        low = b.bitcast(total, ir.VectorType(i32, 2 * kind.count))
        low = b.shuffle_vector(low, low, lanes(*range(0, 2 * kind.count, 2)))
        between = b.icmp_signed("==", b.and_(low, every(ints, BELOW)), every(ints, HALF_WAY))
        doubtful = between if doubtful is None else b.or_(doubtful, between)
    b.store(acc, place)
    some = b.bitcast(doubtful, ir.IntType(kind.count))
    with b.if_then(b.icmp_unsigned("!=", some, ir.Constant(some.type, 0))):
        b.store(exactly(b, before, found), place)
