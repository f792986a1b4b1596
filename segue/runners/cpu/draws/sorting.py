"""Many numbers in order: a radix sort of floats and their places, highest first, among equals in the order they had.

The order is that of the heap (heap.py), which is faster where few are wanted. Where not all are, `floor_of` finds which
need not be sorted.
"""

from typing import Any

from llvmlite import ir

from segue.runners.cpu.draws.writing import Num, Var, Writer
from segue.runners.cpu.emit import f32, i32, i64, room

_VOID = ir.VoidType()
_DIGITS, _BITS = 4, 8  # passes, an even number, and bits that each looks at
_NUM_BUCKETS = 1 << _BITS
_SIGN = 1 << 31
_FLOOR_BITS = 12  # sign, exponent and three bits of the mantissa: some 50 steps from 0.5 to 32
_LOW_BITS = 32 - _FLOOR_BITS


def sort(made: ir.Module) -> Any:
    """(values, places, spare values, spare places, count): bring the places into order. Values are lost."""
    spread = _spread(made)
    w = Writer(made, "sort", _VOID, *(i64, i64, i64, i64, i64))
    values, places, spare_values, spare_places, count = w.args
    tables = [_zeros(w, _NUM_BUCKETS) for _ in range(_DIGITS)]
    with w.each(count) as i:
        key = _key(w, w.load(f32, values, i) + 0.0)  # -0.0 becomes 0.0
        w.store(key, values, i, i32)
        for digit, numbers in enumerate(tables):
            _count(w, numbers, _digit(w, key, w.whole(_BITS * digit)))
    here, there = (values, places), (spare_values, spare_places)
    for digit, numbers in enumerate(tables):
        w.call(spread, *here, *there, count, w.whole(_BITS * digit), numbers)
        here, there = there, here
    w.give()
    return w.function


def floor_of(made: ir.Module) -> Any:
    """(values, count, wanted, lowest): a number that the highest `wanted` values reach, and not many others.

    It is not below `lowest`, whether or not so many values reach that. No value is NaN.
    """
    w = Writer(made, "floor_of", f32, *(i64, i64, i64, f32))
    values, count, wanted, lowest = w.args
    numbers = _zeros(w, 1 << _FLOOR_BITS)
    with w.each(count) as i:
        key = _key(w, w.load(f32, values, i))
        _count(w, numbers, _shifted(w, key, w.whole(_LOW_BITS)))
    bucket, found = Var(w.whole(0)), Var(w.load(i32, numbers))
    with w.during(lambda: (found.now < wanted) & (bucket.now < (1 << _FLOOR_BITS) - 1)):
        bucket.set(bucket.now + 1)
        found.set(found.now + w.load(i32, numbers, bucket.now))
    last = (bucket.now + 1) * (1 << _LOW_BITS) - 1  # the key of the lowest value of this bucket
    bits = (last >= _SIGN).pick(last, w.whole(_SIGN - 1) - last)
    floor = Num(w.b, w.b.bitcast(w.b.trunc(bits.value, i32), f32))
    w.give((floor > lowest).pick(floor, lowest))  # the lowest buckets have NaN and -inf
    return w.function


def _spread(made: ir.Module) -> Any:
    """(keys, places, out keys, out places, count, shift, numbers): a pass, by the digit that many bits up.

    `numbers`: how many keys have each digit. They are lost.
    """
    w = Writer(made, "spread", _VOID, *(i64, i64, i64, i64, i64, i64, i64))
    keys, places, out_keys, out_places, count, shift, numbers = w.args
    start = Var(w.whole(0))
    with w.each(w.whole(_NUM_BUCKETS)) as i:  # where each bucket begins
        number = w.load(i32, numbers, i)
        w.store(start.now, numbers, i, i32)
        start.set(start.now + number)
    with w.each(count) as i:
        key = w.load(i32, keys, i)
        bucket = _digit(w, key, shift)
        place = w.load(i32, numbers, bucket)
        w.store(place + 1, numbers, bucket, i32)
        w.store(key, out_keys, place, i32)
        w.store(w.load(i32, places, i), out_places, place, i32)
    w.give()
    return w.function


def _key(w: Writer, value: Num) -> Num:
    """A whole number that is the lower the higher the float is: 32 bits, as if without a sign."""
    bits = Num(w.b, w.b.zext(w.b.bitcast(value.value, i32), i64))
    is_negative = bits >= _SIGN
    return is_negative.pick(bits, w.whole(_SIGN - 1) - bits)


def _digit(w: Writer, key: Num, shift: Num) -> Num:
    """Of the 32 lowest bits of a number, those from `shift` on."""
    return _shifted(w, key & 0xFFFF_FFFF, shift) & (_NUM_BUCKETS - 1)


def _shifted(w: Writer, key: Num, shift: Num) -> Num:
    return Num(w.b, w.b.lshr(key.value, shift.value))


def _zeros(w: Writer, count: int) -> Num:
    """The address of so many 32-bit zeros, which last as long as the call."""
    start = Num(w.b, room(w.b, i32, count))
    with w.each(w.whole(count)) as i:
        w.store(w.whole(0), start, i, i32)
    return start


def _count(w: Writer, numbers: Num, place: Num) -> None:
    w.store(w.load(i32, numbers, place) + 1, numbers, place, i32)
