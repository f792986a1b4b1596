"""Many numbers in order: a radix sort of floats and their places, highest first, among equals in the order they had.

The order is that of the heap (heap.py), which is faster where few are wanted.
"""

from typing import Any

from llvmlite import ir

from segue.runners.cpu.draws.writing import Num, Writer
from segue.runners.cpu.emit import f32, i32, i64, room

_VOID = ir.VoidType()
_DIGITS, _BITS = 4, 8  # passes, an even number, and bits that each looks at
_NUM_BUCKETS = 1 << _BITS
_ALL, _SIGN = (1 << 32) - 1, 1 << 31


def sort(made: ir.Module) -> Any:
    """(values, places, spare values, spare places, count): bring the places into order. Values are lost."""
    spread = _spread(made)
    w = Writer(made, "sort", _VOID, *(i64, i64, i64, i64, i64))
    values, places, spare_values, spare_places, count = w.args
    with w.each(count) as i:
        w.store(_key(w, w.load(f32, values, i) + 0.0), values, i, i32)  # -0.0 becomes 0.0
    here, there = (values, places), (spare_values, spare_places)
    for digit in range(_DIGITS):
        w.call(spread, *here, *there, count, w.whole(_BITS * digit))
        here, there = there, here
    w.give()
    return w.function


def _key(w: Writer, value: Num) -> Num:
    """A whole number that is the lower the higher the float is: 32 bits, as if without a sign."""
    bits = Num(w.b, w.b.zext(w.b.bitcast(value.value, i32), i64))
    is_negative = bits >= _SIGN
    return is_negative.pick(bits, w.whole(_SIGN - 1) - bits)


def _spread(made: ir.Module) -> Any:
    """(keys, places, out keys, out places, count, shift): a pass, by the digit that many bits up."""
    w = Writer(made, "spread", _VOID, *(i64, i64, i64, i64, i64, i64))
    keys, places, out_keys, out_places, count, shift = w.args
    starts = Num(w.b, room(w.b, i64, _NUM_BUCKETS))

    def digit(key: Num) -> Num:
        return Num(w.b, w.b.lshr((key & _ALL).value, shift.value)) & (_NUM_BUCKETS - 1)

    with w.each(w.whole(_NUM_BUCKETS)) as i:
        w.store(w.whole(0), starts, i)
    with w.each(count) as i:
        bucket = digit(w.load(i32, keys, i))
        w.store(w.load(i64, starts, bucket) + 1, starts, bucket)
    with w.each(w.whole(_NUM_BUCKETS - 1)) as i:  # where each bucket ends
        w.store(w.load(i64, starts, i) + w.load(i64, starts, i + 1), starts, i + 1)
    with w.each(count) as i:
        last = count - 1 - i  # backwards: each bucket is filled from its end
        key = w.load(i32, keys, last)
        bucket = digit(key)
        place = w.load(i64, starts, bucket) - 1
        w.store(place, starts, bucket)
        w.store(key, out_keys, place, i32)
        w.store(w.load(i32, places, last), out_places, place, i32)
    w.give()
    return w.function
