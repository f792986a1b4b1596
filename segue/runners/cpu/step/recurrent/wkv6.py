"""RWKV 6's time mix, gated linear attention: keys of a head's state S (matrices.py) fade by factors of the row's own.

    S' = w S + k (x) v,   out = r S + (r u k) v

u weighs what a row takes of its own value. Models that were made from attention have none: there k is (1 - w) k, and r
reads S', so out = (w r) S + (r k) v. S is read in one pass, in which it takes the change (w, k, v) of the row before.
Each sum runs over the keys in order.
"""

from typing import Any

from segue.runners.cpu.emit import Builder, Value, ahead, floats, fma, store
from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.activations import activate
from segue.runners.cpu.step.atomics import put_real, real, word
from segue.runners.cpu.step.recurrent.columns import Change, Columns, column_kernels
from segue.runners.cpu.step.recurrent.matrices import (
    HEADS,
    OWN,
    SIZE,
    Matrices,
    matrices_phase,
    prefetch,
)
from segue.runners.cpu.step.recurrent.scratch import (
    FADES6,
    KEYS6,
    OF_VALUES,
    READ6,
    VALUES6,
    WKV6_PARTS,
)
from segue.runners.cpu.step.vectors.elementwise import (
    ROW_IN,
    ROW_IN_OUT,
    ROW_OUT,
    add_into,
    copy,
    elementwise,
    multiply,
    multiply_by_sigmoid,
    multiply_into,
    scale,
)
from segue.runners.cpu.step.vectors.functions import exp
from segue.runners.cpu.step.vectors.rows import dot, norm, quantise

_MOST = 5.0  # e^-(e^5) is as good as 0

# Words of an instruction, after those of matrices.py.
(
    ROW_BYTES,  # from one row to the next of all that products gave
    READS,  # addresses of r, k, v, what decays are made of, and gates in row 0
    ROW_KEYS,
    ROW_VALUES,
    DECAYS,
    GATES,
    SHARED,  # so many heads share a key and a value
    READ_BIAS,  # addresses of vectors of all heads, or 0
    KEY_BIAS,
    VALUE_BIAS,
    DECAY_BIAS,
    FIRST,  # address of u, or 0
    NORM,  # weights and bias of a norm of each head, or 0
    NORM_BIAS,
    EPSILON,
    SCALE,  # of r; 0: none
) = range(OWN, OWN + 16)


# --- rows ---


@elementwise(ROW_IN, ROW_IN, ROW_OUT)
def _fade(b: Builder, x: Value, bias: Value) -> Value:
    """e^-e^(x + bias)"""
    power = b.fadd(x, bias)
    power = b.select(b.fcmp_ordered("<", power, floats(_MOST)), power, floats(_MOST))
    return exp(b, b.fneg(exp(b, power)))


@elementwise(ROW_IN_OUT, ROW_IN)
def _lessen(b: Builder, x: Value, share: Value) -> Value:
    """x - share x"""
    return fma(b, b.fneg(x), share, x)


@compiled
def _take_part(x: Any, bias: Any, place: Any, out: Any, count: Any) -> None:
    """`place`: of these numbers among those of all heads."""
    copy(x + place, out, count)
    if bias:
        add_into(out, bias + place, count)


@compiled
def _prepare(row: Any, m: Any, head: Any, record: Any) -> None:
    """Write what row `m` has for a head to `record`: see scratch.py."""
    size, at_row = word(row + 8 * SIZE), m * word(row + 8 * ROW_BYTES)
    part, place = 4 * size, head * size * 4
    shared = head // word(row + 8 * SHARED) * size * 4
    reads, fades = record + READ6 * part, record + FADES6 * part
    keys, numbers = record + KEYS6 * part, record + WKV6_PARTS * part
    _take_part(word(row + 8 * READS) + at_row, word(row + 8 * READ_BIAS), place, reads, size)
    _take_part(word(row + 8 * ROW_KEYS) + at_row, word(row + 8 * KEY_BIAS), shared, keys, size)
    values = word(row + 8 * ROW_VALUES) + at_row
    _take_part(values, word(row + 8 * VALUE_BIAS), shared, record + VALUES6 * part, size)
    decays, bias = word(row + 8 * DECAYS) + at_row + place, word(row + 8 * DECAY_BIAS) + place
    if word(row + 8 * FIRST):
        multiply(keys, word(row + 8 * FIRST) + place, fades, size)
        put_real(numbers + 4 * OF_VALUES, dot(fades, reads, size))
        _fade(decays, bias, fades, size)
    else:
        _fade(decays, bias, fades, size)
        _lessen(keys, fades, size)
        scale(real(row + 8 * SCALE), reads, reads, size)
        put_real(numbers + 4 * OF_VALUES, dot(keys, reads, size))
        multiply_into(reads, fades, size)


@compiled
def _finish(board: Any, row: Any, m: Any, head: Any, record: Any) -> None:
    """Norm, gate and round a head's output of row `m`."""
    size, place = word(row + 8 * SIZE), m * word(row + 8 * HEADS) + head
    x = word(board + 8 * on.HEADS_FLOATS) + place * size * 4
    gates = word(row + 8 * GATES) + m * word(row + 8 * ROW_BYTES) + head * size * 4
    if word(row + 8 * NORM):
        own = head * size * 4
        weights, bias = word(row + 8 * NORM) + own, word(row + 8 * NORM_BIAS) + own
        norm(on.LAYER_NORM, x, weights, bias, real(row + 8 * EPSILON), x, size)
        activate(on.SILU, 1, gates, x, x, size)
    else:
        multiply_by_sigmoid(x, gates, size)
    quantise(
        x,
        word(board + 8 * on.HEADS_BYTES) + place * size,
        word(board + 8 * on.HEADS_SCALES) + place * size // 2,
        size // 32,
    )


@compiled
def _expect(board: Any, row: Any, m: Any, head: Any) -> None:
    """Ask for what row `m` has for a head, and for where its output goes."""
    size, at_row = word(row + 8 * SIZE), m * word(row + 8 * ROW_BYTES)
    for which in range(READS, GATES + 1):
        is_shared = which > READS and which < DECAYS
        own = head // word(row + 8 * SHARED) if is_shared else head
        prefetch(word(row + 8 * which) + at_row + own * size * 4, size)
    out = (m * word(row + 8 * HEADS) + head) * size
    prefetch(word(board + 8 * on.HEADS_FLOATS) + 4 * out, size)


# --- columns ---


def _change(columns: Columns, change: Value) -> Change:
    """The parts of a record from FADES6 on."""
    keys, values = columns.behind(change, KEYS6 - FADES6), columns.own(change, VALUES6 - FADES6)
    return Change(change, True, [keys], [values])


def _read(columns: Columns, change: Change | None, record: Value, out: Value) -> None:
    """The output of a row."""
    b = columns.b
    [read] = columns.sums(change, [columns.behind(record, READ6)])
    [of_values] = columns.numbers(columns.behind(record, WKV6_PARTS), (OF_VALUES,))
    for v, value in enumerate(columns.loaded(columns.own(record, VALUES6))):
        store(b, fma(b, value, of_values, read[v]), ahead(b, out, 64 * v))


_take, _answer = column_kernels(_change, _read)
wkv6_phase = matrices_phase(
    Matrices(
        prepare=_prepare,
        expect=_expect,
        finish=_finish,
        take=_take,
        answer=_answer,
    )
)
