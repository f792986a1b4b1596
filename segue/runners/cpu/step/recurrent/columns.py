"""32 columns of a head's state (matrices.py): sums over the keys in order, and the changes they take meanwhile."""

from collections.abc import Callable
from typing import NamedTuple

from segue.runners.cpu.emit import (
    LANES,
    Builder,
    Value,
    ahead,
    at,
    cell,
    f32,
    floats,
    fma,
    load,
    loop,
    number,
    splat,
    store,
)
from segue.runners.cpu.kernel import INT, VOID, define
from segue.runners.cpu.step.recurrent.scratch import COLUMNS
from segue.runners.cpu.step.recurrent.spans import Kernel

VECTORS = COLUMNS // LANES
_SHIFT = 3
_KEYS = 1 << _SHIFT  # that a turn of the loop reads


class Change(NamedTuple):
    """S' = fades S + k (x) v + …: addresses."""

    fades: Value
    is_by_key: bool  # whether each key has a fade of its own; else there is one
    keys: list[Value]
    values: list[Value]  # of each of `keys`: those of the columns


class Columns(NamedTuple):
    """`source` and `to` are the same unless a change is computed aside."""

    b: Builder
    source: Value  # where they are
    to: Value  # where they are written, if they take a change
    size: Value
    offset: Value  # of their values in a row

    def behind(self, address: Value, parts: int) -> Value:
        """The address behind so many rows of keys or values."""
        return at(self.b, address, self.size, 4 * parts)

    def own(self, address: Value, parts: int) -> Value:
        """The address of these columns' values, behind so many rows."""
        return self.b.add(self.behind(address, parts), self.offset)

    def loaded(self, place: Value) -> list[Value]:
        return [load(self.b, ahead(self.b, place, 64 * v)) for v in range(VECTORS)]

    def numbers(self, address: Value, which: tuple[int, ...]) -> list[Value]:
        """Some of the numbers at `address`, each in every lane."""
        return [splat(self.b, load(self.b, ahead(self.b, address, 4 * i), f32)) for i in which]

    def sums(self, change: Change | None, rows: list[Value]) -> list[list[Value]]:
        """Of each of `rows`, which have a number for each key, times the columns, after a change that they take."""
        b, sums = self.b, [[cell(self.b, floats(0.0)) for _ in range(VECTORS)] for _ in rows]
        parts: list[Value] = []
        if change is not None:
            brought = [self.loaded(place) for place in change.values]
            if change.is_by_key:
                parts = [change.fades, *change.keys]
            else:
                [fade], parts = self.numbers(change.fades, (0,)), change.keys
        with loop(b, b.lshr(self.size, number(_SHIFT))) as each:
            place, to = (
                at(b, start, each.index, 4 * COLUMNS * _KEYS) for start in (self.source, self.to)
            )
            places, own_parts = (
                [at(b, row, each.index, 4 * _KEYS) for row in some] for some in (rows, parts)
            )
            added = [[b.load(total) for total in own] for own in sums]
            for i in range(_KEYS):
                factors, changes = (
                    [self.numbers(row, (i,))[0] for row in some] for some in (places, own_parts)
                )
                if change is not None and change.is_by_key:
                    fade = changes.pop(0)
                for v in range(VECTORS):
                    own_bytes = 4 * (COLUMNS * i + LANES * v)
                    value = load(b, ahead(b, place, own_bytes))
                    if change is not None:
                        value = b.fmul(value, fade)
                        for key, values in zip(changes, brought, strict=True):
                            value = fma(b, key, values[v], value)
                        store(b, value, ahead(b, to, own_bytes))
                    for own, factor in zip(added, factors, strict=True):
                        own[v] = fma(b, value, factor, own[v])
            for totals, found in zip(sums, added, strict=True):
                for total, value in zip(totals, found, strict=True):
                    b.store(value, total)
        return [[b.load(total) for total in own] for own in sums]


def column_kernels(
    change_of: Callable[[Columns, Value], Change],
    read: Callable[[Columns, Change | None, Value, Value], None],
) -> tuple[Kernel, Kernel]:
    """`take` and `answer` of Matrices. `change_of`: of its address; `read`: what a row gives, after a change, to an
    output.
    """

    @define(VOID, *[INT] * 6)
    def take(b: Builder, row: Value, change: Value, *addresses: Value) -> None:
        columns = Columns(b, *addresses)
        columns.sums(change_of(columns, change), [])

    @define(VOID, *[INT] * 10)
    def answer(
        b: Builder,
        row: Value,
        m: Value,
        head: Value,
        before: Value,
        record: Value,
        out: Value,
        *addresses: Value,
    ) -> None:
        columns = Columns(b, *addresses)
        with b.if_else(b.icmp_signed("!=", before, number(0))) as (changed, unchanged):
            with changed:
                read(columns, change_of(columns, before), record, out)
            with unchanged:
                read(columns, None, record, out)

    return take, answer
