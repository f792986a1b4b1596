"""Columns of a delta net's state (delta.py): S k and S q of a row, and what it changes."""

from segue.runners.cpu.emit import Builder, Value, ahead, fma, load, store
from segue.runners.cpu.kernel import INT, VOID, define
from segue.runners.cpu.step.recurrent.columns import VECTORS, Change, Columns
from segue.runners.cpu.step.recurrent.scratch import BETA, DECAY, OVERLAP
from segue.runners.cpu.step.recurrent.spans import Kernel


def _change(columns: Columns, change: Value, is_by_key: bool) -> Change:
    """k, d, g"""
    return Change(columns.behind(change, 2), is_by_key, [change], [columns.own(change, 1)])


def _answer(
    columns: Columns,
    change: Change | None,
    record: Value,
    value: Value,
    out: Value,
    is_by_key: bool,
) -> None:
    """d, which goes to `record`, and the output of a row, from S k and S q."""
    b = columns.b
    of_key, of_query = columns.sums(change, [columns.behind(record, 1), record])
    parts = (3, 5) if is_by_key else (2, 3)
    own, numbers = columns.own(record, parts[0]), columns.behind(record, parts[1])
    fade, beta, overlap = columns.numbers(numbers, (DECAY, BETA, OVERLAP))
    for v in range(VECTORS):
        wanted, seen, found = load(b, ahead(b, value, 64 * v)), of_key[v], of_query[v]
        if not is_by_key:
            seen, found = b.fmul(seen, fade), b.fmul(found, fade)
        d = b.fmul(b.fsub(wanted, seen), beta)
        store(b, d, ahead(b, own, 64 * v))
        store(b, fma(b, d, overlap, found), ahead(b, out, 64 * v))


def _kernels(is_by_key: bool) -> tuple[Kernel, Kernel, Kernel]:
    """Functions that let columns take a change, read them for a row, or do both. `addresses`: the rest of Columns."""

    @define(VOID, *[INT] * 5)
    def change(b: Builder, change: Value, *addresses: Value) -> None:
        columns = Columns(b, *addresses)
        columns.sums(_change(columns, change, is_by_key), [])

    @define(VOID, *[INT] * 7)
    def read(b: Builder, record: Value, value: Value, out: Value, *addresses: Value) -> None:
        _answer(Columns(b, *addresses), None, record, value, out, is_by_key)

    @define(VOID, *[INT] * 8)
    def change_and_read(
        b: Builder, change: Value, record: Value, value: Value, out: Value, *addresses: Value
    ) -> None:
        columns = Columns(b, *addresses)
        _answer(columns, _change(columns, change, is_by_key), record, value, out, is_by_key)

    return change, read, change_and_read


change, read, change_and_read = _kernels(is_by_key=False)
change_keys, read_keys, change_and_read_keys = _kernels(is_by_key=True)
