"""States of 16 columns pass through changes and rows: those of Mamba 1 and of Mamba 2, which differ in what a row does.

Some of them stay in registers while the rows of a span go by, a few rows at a time, so that what is read of these stays
in the first-level cache.
"""

from collections.abc import Callable
from typing import Any, Protocol

from segue.runners.cpu.emit import (
    Builder,
    Value,
    ahead,
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
from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.attention.tiles import is_wide
from segue.runners.cpu.step.recurrent.scratch import SCANNED

# States of 16 columns that stay in registers while rows go by: as many as there are registers for.
STATES_AT_ONCE = 8 if is_wide else 4


class Scan(Protocol):
    """Some states of 16 columns, and what passes through them."""

    @property
    def b(self) -> Builder: ...

    @property
    def places(self) -> list[Value]:
        """The states' addresses."""
        ...

    def changed(self, states: list[Value], index: Value) -> list[Value]:
        """The states after what a row before has left."""
        ...

    def passed(self, states: list[Value], index: Value) -> list[Value]:
        """The states after a row, to whose output is added."""
        ...


def float_at(b: Builder, address: Value, index: int = 0) -> Value:
    """One float, in every lane."""
    return splat(b, load(b, ahead(b, address, 4 * index), f32))


def after_row(b: Builder, held: Value, decay: Value, by: Value, brought: Value) -> Value:
    """The state after a row."""
    return fma(b, by, brought, b.fmul(held, decay))


def _write(scan: Scan, states: list[Value]) -> None:
    for held, place in zip(states, scan.places, strict=True):
        store(scan.b, held, place)


def _turns(
    b: Builder,
    states: list[Value],
    after: Callable[[list[Value], Value], list[Value]],
    start: Value,
    count: Value,
) -> None:
    """Let the states, in cells, take `count` changes or rows from `start` on."""
    with loop(b, count) as each:
        found = after([b.load(held) for held in states], b.add(start, each.index))
        for held, value in zip(states, found, strict=True):
            b.store(value, held)


def pass_through(scan: Scan, rows: Value, num_taken: Value, pending: Value) -> None:
    """Pass the states through rows of a span, and add what they give to the output.

    `pending`: so many changes are left of rows before, or on.FRESH. `num_taken`: how many of these changes, and then of
    the rows', the states in memory take; the rest is computed without being written.
    """
    b = scan.b
    counts = [b.icmp_signed("==", each, number(1)) for each in (pending, rows, num_taken)]
    with b.if_else(b.and_(counts[0], b.and_(counts[1], counts[2]))) as (usual, otherwise):
        with usual:  # without loops, whose turns would cost more than the row
            states = scan.changed([load(b, place) for place in scan.places], number(0))
            _write(scan, states)
            scan.passed(states, number(0))
        with otherwise:
            is_fresh = b.icmp_signed("==", pending, number(on.FRESH))
            before = b.select(is_fresh, number(0), pending)
            first = b.select(b.icmp_signed("<", num_taken, before), num_taken, before)
            rows_taken = b.sub(num_taken, first)
            held = [b.select(is_fresh, floats(0.0), load(b, place)) for place in scan.places]
            cells = [cell(b, each) for each in held]
            _turns(b, cells, scan.changed, number(0), first)
            _turns(b, cells, scan.passed, number(0), rows_taken)
            _write(scan, [b.load(each) for each in cells])
            _turns(b, cells, scan.changed, first, b.sub(before, first))
            _turns(b, cells, scan.passed, rows_taken, b.sub(rows, rows_taken))


@compiled
def together(start: Any, rows: Any, left: Any) -> Any:
    """How many rows from `start` on to compute together. Those that stay pending are, unless it is one: what comes of
    them is in registers only.
    """
    end = rows if left == 1 or start >= rows - left else rows - left
    return end - start if end - start < SCANNED else SCANNED
