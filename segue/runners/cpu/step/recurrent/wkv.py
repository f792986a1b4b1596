"""RWKV's time mix: each key of a head's state S (matrices.py) fades by a factor of the row's own.

    S' = w S + k (x) v + b (x) d,   d = -u S,   out = r S' = (w r) S + (k r) v + (b r) d

u is the key that the row corrects, of length 1, and b = a u. u S and (w r) S are read in one pass, in which S takes the
change (w, k, b, v, d) of the row before. Each sum runs over the keys in order.
"""

from segue.runners.cpu.emit import Value, ahead, fma, store
from segue.runners.cpu.step.recurrent.columns import Change, Columns, column_kernels
from segue.runners.cpu.step.recurrent.matrices import Matrices, matrices_phase
from segue.runners.cpu.step.recurrent.scratch import (
    CORRECTIONS,
    FADES,
    KEYS,
    OF_CORRECTIONS,
    OF_VALUES,
    RATES,
    READ,
    TAKEN,
    VALUES,
    WKV_PARTS,
)
from segue.runners.cpu.step.recurrent.wkv_rows import expect_row, finish_row, prepare_row


def _change(columns: Columns, change: Value) -> Change:
    """The parts of a record from FADES on."""
    keys = [columns.behind(change, which - FADES) for which in (KEYS, RATES)]
    values = [columns.own(change, which - FADES) for which in (VALUES, CORRECTIONS)]
    return Change(change, True, keys, values)


def _read(columns: Columns, change: Change | None, record: Value, out: Value) -> None:
    """d, which goes to `record`, and the output of a row."""
    b, reads = columns.b, [columns.behind(record, which) for which in (TAKEN, READ)]
    taken, read = columns.sums(change, reads)
    place, numbers = columns.own(record, CORRECTIONS), columns.behind(record, WKV_PARTS)
    of_values, of_corrections = columns.numbers(numbers, (OF_VALUES, OF_CORRECTIONS))
    for v, value in enumerate(columns.loaded(columns.own(record, VALUES))):
        store(b, taken[v], ahead(b, place, 64 * v))
        given = fma(b, taken[v], of_corrections, fma(b, value, of_values, read[v]))
        store(b, given, ahead(b, out, 64 * v))


_take, _answer = column_kernels(_change, _read)
wkv_phase = matrices_phase(
    Matrices(
        prepare=prepare_row,
        expect=expect_row,
        finish=finish_row,
        take=_take,
        answer=_answer,
    )
)
