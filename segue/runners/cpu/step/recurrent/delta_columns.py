"""Columns of a delta net's state (delta.py): sums over the keys in order, and the changes that they take meanwhile."""

from collections.abc import Callable
from typing import Any, NamedTuple

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
from segue.runners.cpu.step.recurrent.scratch import BETA, COLUMNS, DECAY, OVERLAP

_VECTORS = COLUMNS // LANES
_SHIFT = 3
_KEYS = 1 << _SHIFT  # that a turn of the loop reads


class _Columns(NamedTuple):
    """32 columns of S."""

    b: Builder
    is_by_key: bool  # whether each key fades at a speed of its own
    source: Value  # where they are
    to: Value  # where they are written, if they take a change
    size: Value
    offset: Value  # of their values in a row

    def behind(self, address: Value, parts: int) -> Value:
        """The address behind so many rows of keys or values."""
        return at(self.b, address, self.size, 4 * parts)

    def sums(self, change: Value | None, rows: list[Value]) -> list[list[Value]]:
        """Of the columns times each of `rows`, keys or queries, after a change that they take."""
        b, sums = self.b, [[cell(self.b, floats(0.0)) for _ in range(_VECTORS)] for _ in rows]
        if change is not None:
            fades = self.behind(change, 2)
            fade = splat(b, load(b, fades, f32))
            values = b.add(self.behind(change, 1), self.offset)
            changes = [load(b, ahead(b, values, 64 * v)) for v in range(_VECTORS)]
        with loop(b, b.lshr(self.size, number(_SHIFT))) as each:
            place, to = (
                at(b, start, each.index, 4 * COLUMNS * _KEYS) for start in (self.source, self.to)
            )
            places = [at(b, row, each.index, 4 * _KEYS) for row in rows]
            if change is not None:
                key, own_fades = (at(b, x, each.index, 4 * _KEYS) for x in (change, fades))
            added = [[b.load(total) for total in own] for own in sums]
            for i in range(_KEYS):
                factors = [splat(b, load(b, ahead(b, row, 4 * i), f32)) for row in places]
                if change is not None:
                    before = splat(b, load(b, ahead(b, key, 4 * i), f32))
                    if self.is_by_key:
                        fade = splat(b, load(b, ahead(b, own_fades, 4 * i), f32))
                for v in range(_VECTORS):
                    own_bytes = 4 * (COLUMNS * i + LANES * v)
                    value = load(b, ahead(b, place, own_bytes))
                    if change is not None:
                        value = fma(b, before, changes[v], b.fmul(value, fade))
                        store(b, value, ahead(b, to, own_bytes))
                    for own, factor in zip(added, factors, strict=True):
                        own[v] = fma(b, value, factor, own[v])
            for totals, found in zip(sums, added, strict=True):
                for total, value in zip(totals, found, strict=True):
                    b.store(value, total)
        return [[b.load(total) for total in own] for own in sums]

    def answer(self, change: Value | None, record: Value, value: Value, out: Value) -> None:
        """d, which goes to `record`, and the output of a row, from S k and S q."""
        b = self.b
        of_key, of_query = self.sums(change, [self.behind(record, 1), record])
        parts = (3, 5) if self.is_by_key else (2, 3)
        own, numbers = (self.behind(record, count) for count in parts)
        own = b.add(own, self.offset)
        fade, beta, overlap = (
            splat(b, load(b, ahead(b, numbers, 4 * which), f32)) for which in (DECAY, BETA, OVERLAP)
        )
        for v in range(_VECTORS):
            wanted, seen, found = load(b, ahead(b, value, 64 * v)), of_key[v], of_query[v]
            if not self.is_by_key:
                seen, found = b.fmul(seen, fade), b.fmul(found, fade)
            d = b.fmul(b.fsub(wanted, seen), beta)
            store(b, d, ahead(b, own, 64 * v))
            store(b, fma(b, d, overlap, found), ahead(b, out, 64 * v))


Emitted = Callable[..., Any]


def _kernels(is_by_key: bool) -> tuple[Emitted, Emitted, Emitted]:
    """Functions that let columns take a change, read them for a row, or do both. `columns`: the rest of _Columns."""

    @define(VOID, *[INT] * 5)
    def change(b: Builder, change: Value, *columns: Value) -> None:
        _Columns(b, is_by_key, *columns).sums(change, [])

    @define(VOID, *[INT] * 7)
    def read(b: Builder, record: Value, value: Value, out: Value, *columns: Value) -> None:
        _Columns(b, is_by_key, *columns).answer(None, record, value, out)

    @define(VOID, *[INT] * 8)
    def change_and_read(
        b: Builder, change: Value, record: Value, value: Value, out: Value, *columns: Value
    ) -> None:
        _Columns(b, is_by_key, *columns).answer(change, record, value, out)

    return change, read, change_and_read


change, read, change_and_read = _kernels(is_by_key=False)
change_keys, read_keys, change_and_read_keys = _kernels(is_by_key=True)
