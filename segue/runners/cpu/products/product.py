"""The products that a step calls: y = W x for some tiles of a matrix, and one row. The descriptor names the code."""

from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, ahead, i64, load
from segue.runners.cpu.kernel import INT, VOID, define
from segue.runners.cpu.products.kernels import PRODUCT, TAKE_ROW


def _call(b: Builder, field: int, *args: Value) -> None:
    kind = ir.FunctionType(ir.VoidType(), [i64] * len(args)).as_pointer()
    address = load(b, ahead(b, args[0], 8 * field), i64, 8)
    b.call(b.inttoptr(address, kind), list(args))


@define(VOID, *[INT] * 9)
def product(b: Builder, *args: Value) -> None:
    """(descriptor, rows, a, scales, x, out, ldo, first, last): tiles first … last - 1 of every row.

    All are addresses or counts; ldo counts floats. A quantised matrix reads a and scales, one of floats reads x.
    """
    _call(b, PRODUCT, *args)


@define(VOID, *[INT] * 3)
def take_row(b: Builder, *args: Value) -> None:
    """(descriptor, index, out): the weights of one output as f32."""
    _call(b, TAKE_ROW, *args)
