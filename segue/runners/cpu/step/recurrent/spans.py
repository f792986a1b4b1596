"""Phases of layers with a state: each part of each span is computed by one thread, all its rows in order."""

from collections.abc import Callable
from typing import Any

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import fetch_add, word
from segue.runners.cpu.step.pieces import finish

Kernel = Callable[..., Any]

_COLUMNS = 256  # that a thread takes at a time


def over_spans(parts: Kernel, compute: Kernel) -> Kernel:
    """A phase. `parts(board, row)`: how many a span has; `compute(board, row, span, part, tid)`."""

    @compiled
    def span_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
        each = parts(board, row)
        count = each * word(board + 8 * on.NUM_SPANS)
        done, i = 0, fetch_add(counter, 1)
        while i < count:
            done += 1
            span = word(board + 8 * on.SPANS) + i // each * on.SPAN_WORDS * 8
            compute(board, row, span, i % each, tid)
            i = fetch_add(counter, 1)
        finish(board, counter, done, count)

    return span_phase


def over_columns(width: Kernel, compute: Kernel) -> Kernel:
    """A phase. `width(board, row)`: the columns of a row; `compute(board, row, span, first, many)`: some of them."""

    @compiled
    def groups(board: Any, row: Any) -> Any:
        return (width(board, row) + _COLUMNS - 1) // _COLUMNS

    @compiled
    def compute_group(board: Any, row: Any, span: Any, group: Any, tid: Any) -> None:
        first = group * _COLUMNS
        compute(board, row, span, first, min(_COLUMNS, width(board, row) - first))

    return over_spans(groups, compute_group)
