"""How a block's keys and values are read: 16 lanes as floats, whatever they are kept as (kv_formats.py).

A code times its scale is exact, since both have few bits. So attention computes with the numbers that are kept, by the
same operations in the same order for every kind.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from llvmlite import ir

from segue.runners.cpu.emit import (
    BYTES,
    INTS,
    LANES,
    Builder,
    Value,
    ahead,
    at,
    call,
    f32,
    i8,
    i32,
    load,
    loop,
    number,
    pointer,
    room,
    splat,
    store,
)
from segue.runners.cpu.emit import FLOATS as FLOATS_OF
from segue.runners.cpu.step.attention.kv_formats import (
    GROUP,
    GROUP_BYTES,
    SCALES_BYTES,
    STRIP_BYTES,
    KvType,
)
from segue.runners.cpu.step.attention.scratch import BLOCK
from segue.runners.cpu.step.halves import widened

KV_IN_CODES = "SEGUE_KV_IN_CODES"  # set by compile.py
kv_type: KvType = "q8_0" if os.environ.get(KV_IN_CODES) == "1" else "f16"

LINE = 64  # bytes of a cache line
# Dimensions or tokens of floats in a round of a loop, whose own steps would take a tenth of what the processor issues.
AT_ONCE = 4

Read = Callable[[int], Value]  # which 16 of a block's tokens → one dimension of their keys
Values = Callable[[Value], list[Value]]  # a token → some columns of its value, 16 each


def fetch(b: Builder, place: Value) -> None:
    """Prefetch a cache line."""
    options = [ir.Constant(i32, option) for option in (0, 3, 1)]  # to read, to keep, data
    call(b, "llvm.prefetch.p0i8", ir.VoidType(), pointer(b, place, i8), *options)


@dataclass(frozen=True)
class Plain:
    """Numbers side by side: keys as [dimension][32], values as [32][dimension]."""

    size: int  # bytes of a number
    read: Callable[[Builder, Value], Value]
    at_once: int = 1  # dimensions of a round

    @contextmanager
    def each_key(
        self, b: Builder, keys: Value, dimensions: Value, parts: range, following: Value | None
    ) -> Iterator[tuple[Value, list[Read]]]:
        """Goes over a block's dimensions, a multiple of 16, in rounds: the first of each, and what reads it and those
        after it for these parts of 16 tokens. Prefetches the block at `following`.
        """
        with loop(b, b.udiv(dimensions, number(self.at_once))) as each:
            first = b.mul(each.index, number(self.at_once))
            place = at(b, keys, first, self.size * BLOCK)
            if following is not None:
                fetch(b, at(b, following, first, self.size * BLOCK))

            def read(i: int, part: int) -> Value:
                return self.read(b, ahead(b, place, self.size * (BLOCK * i + LANES * part)))

            yield first, [partial(read, i) for i in range(self.at_once)]

    def values(
        self, b: Builder, place: Value, following: Value, column: Value, width: int, apart: Value
    ) -> Values:
        """What reads 16 * width columns of a token's value. `apart`: numbers of a token.

        It prefetches as much of the block at `following`.
        """
        token_bytes, start = b.mul(apart, number(self.size)), b.mul(column, number(self.size))

        def read(token: Value) -> list[Value]:
            offset = b.add(b.mul(token, token_bytes), start)
            for line in range(0, self.size * LANES * width, LINE):
                fetch(b, ahead(b, b.add(following, offset), line))
            own = b.add(place, offset)
            return [self.read(b, ahead(b, own, self.size * LANES * j)) for j in range(width)]

        return read


_STEP = GROUP_BYTES // BLOCK  # 32 steps of so many bytes touch every line of a group


class Codes:
    """Codes of 8 bits in groups that have a scale for each token."""

    @contextmanager
    def each_key(
        self, b: Builder, keys: Value, dimensions: Value, parts: range, following: Value | None
    ) -> Iterator[tuple[Value, list[Read]]]:
        groups = b.udiv(b.add(dimensions, number(GROUP - 1)), number(GROUP))
        with loop(b, groups) as group:
            first, offset = (b.mul(group.index, number(each)) for each in (GROUP, GROUP_BYTES))
            place, left = b.add(keys, offset), b.sub(dimensions, first)
            scales = {part: widened(b, ahead(b, place, 2 * LANES * part)) for part in parts}
            is_last = b.icmp_signed("<", left, number(GROUP))
            with loop(b, b.select(is_last, left, number(GROUP))) as each:
                codes = at(b, ahead(b, place, SCALES_BYTES), each.index, BLOCK)
                if following is not None:
                    fetch(b, at(b, b.add(following, offset), each.index, _STEP))

                def read(part: int) -> Value:
                    return b.fmul(_codes(b, ahead(b, codes, LANES * part)), scales[part])

                yield b.add(first, each.index), [read]

    def values(
        self, b: Builder, place: Value, following: Value, column: Value, width: int, apart: Value
    ) -> Values:
        """The scales of a group are widened once: each of them is read again for its token."""
        groups = [
            b.udiv(b.add(column, number(LANES * j)), number(GROUP)) for j in range(0, width, 2)
        ]
        offsets = [b.mul(group, number(GROUP_BYTES)) for group in groups]
        scales = [room(b, f32, BLOCK) for _ in groups]
        for offset, wide in zip(offsets, scales, strict=True):
            for part in range(BLOCK // LANES):
                some = widened(b, ahead(b, b.add(place, offset), 2 * LANES * part))
                store(b, some, ahead(b, wide, 4 * LANES * part))
        strip = b.and_(b.udiv(column, number(LANES)), number(1)) if width == 1 else number(0)
        starts = [ahead(b, b.add(place, offset), SCALES_BYTES) for offset in offsets]
        starts = [b.add(start, b.mul(strip, number(STRIP_BYTES))) for start in starts]

        def read(token: Value) -> list[Value]:
            for offset in offsets:
                fetch(b, at(b, b.add(following, offset), token, _STEP))
            factors = [splat(b, load(b, at(b, wide, token, 4), f32)) for wide in scales]
            found = []
            for j in range(width):
                own = ahead(b, at(b, starts[j // 2], token, LANES), STRIP_BYTES * (j % 2))
                found.append(b.fmul(_codes(b, own), factors[j // 2]))
            return found

        return read


def _codes(b: Builder, place: Value) -> Value:
    """16 codes as floats."""
    return b.sitofp(b.sext(load(b, place, BYTES, 1), INTS), FLOATS_OF)


Numbers = Plain | Codes
HALVES, FLOATS = Plain(2, widened), Plain(4, load, AT_ONCE)
KEPT: Numbers = Codes() if kv_type == "q8_0" else HALVES  # what the KV cache holds
