"""f16 in memory: widened when read, rounded when stored. With integer operations if the processor may lack f16."""

import os
from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import (
    FLOATS,
    HALVES,
    INTS,
    LANES,
    Builder,
    Value,
    floats,
    greater,
    i16,
    i32,
    ints,
    load,
    store,
)

BY_HAND = "SEGUE_HALVES_BY_HAND"  # set by compile.py

_LARGEST = 65504.0
_SHORTS = ir.VectorType(i16, LANES)
_is_by_hand = os.environ.get(BY_HAND) == "1"


def widened(b: Builder, address: Value) -> Value:
    """16 finite halves as floats."""
    if not _is_by_hand:
        return b.fpext(load(b, address, HALVES, 2), FLOATS)
    return widened_words(b, load(b, address, _SHORTS, 2))


def widened_words(b: Builder, words: Value) -> Value:
    """The same of 16-bit words that are in registers."""
    if not _is_by_hand:
        return b.fpext(b.bitcast(words, HALVES), FLOATS)
    bits = b.zext(words, INTS)
    body = b.shl(b.and_(bits, ints(0x7FFF)), ints(13))
    scaled = b.fmul(b.bitcast(body, FLOATS), floats(2.0**112))
    sign = b.shl(b.and_(bits, ints(0x8000)), ints(16))
    return b.bitcast(b.or_(b.bitcast(scaled, INTS), sign), FLOATS)


def bounded(b: Builder, value: Value) -> Value:
    """What lies among finite halves. Never infinite, so that 0 times a value is 0, not NaN."""
    value = greater(b, value, floats(-_LARGEST))
    return b.select(b.fcmp_ordered("<", value, floats(_LARGEST)), value, floats(_LARGEST))


def narrowed(b: Builder, value: Value) -> Value:
    """16 floats as 16-bit words: the nearest finite halves."""
    value = bounded(b, value)
    if not _is_by_hand:
        return b.bitcast(b.fptrunc(value, HALVES), _SHORTS)
    bits = b.bitcast(value, INTS)
    body = b.and_(bits, ints(0x7FFFFFFF))
    is_odd = b.and_(b.lshr(body, ints(13)), ints(1))
    normal = b.lshr(b.add(b.add(body, ints(((15 - 127) << 23) + 0xFFF)), is_odd), ints(13))
    # Adding 0.5 rounds a float to a multiple of the smallest subnormal half.
    shifted = b.bitcast(b.fadd(b.bitcast(body, FLOATS), floats(0.5)), INTS)
    small = b.sub(shifted, ints(0x3F000000))
    is_normal = b.icmp_unsigned(">=", body, ints(0x38800000))
    sign = b.and_(b.lshr(bits, ints(16)), ints(0x8000))
    return b.trunc(b.or_(b.select(is_normal, normal, small), sign), _SHORTS)


def put_halves(b: Builder, value: Value, address: Value) -> None:
    store(b, narrowed(b, value), address, 2)


def lane(b: Builder, vector: Value, index: int) -> Any:
    return b.extract_element(vector, ir.Constant(i32, index))
