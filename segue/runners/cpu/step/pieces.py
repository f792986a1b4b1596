"""Work sharing: the threads of a step take the pieces of a phase one by one, and wait for each other's.

Nobody waits for a thread that has no piece: it may be without a processor, or in Python. So a thread that has done its
pieces and must wait for others' offers its processor to other processes; the one that all wait for keeps it. A thread
that is interrupted between its first piece of a phase and `finish` holds all others.
"""

from collections.abc import Callable
from typing import Any

from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import await_at_least, fetch_add, give_way, shared_word, word

_PIECES = 4  # pieces of work per thread: with several, a delayed thread does not delay the others
_FEW_ROWS = 16
_YIELDING_ROWS = 8  # with fewer, phases are too short to offer a processor at the end of each
_LEAST_ROWS = 4  # with fewer rows, pieces are larger: taking one costs more than computing it


@compiled
def piece(count: Any, rows: Any, threads: Any) -> Any:
    """How many of `count` equal parts a thread takes at once."""
    if rows >= _FEW_ROWS:
        return 1
    pieces = _PIECES if rows < _LEAST_ROWS else 2 * _PIECES
    return max(1, count // (pieces * threads))


@compiled
def block_of_rows(tiles: Any, rows: Any, threads: Any) -> Any:
    """How many rows a thread takes at once: all, unless there are too few tiles to keep all threads busy."""
    blocks = (_PIECES * threads + tiles - 1) // tiles
    whole = 8 if rows >= _FEW_ROWS else _LEAST_ROWS  # a multiple of the rows per tile
    return ((rows + blocks - 1) // blocks + whole - 1) // whole * whole


@compiled
def finish(board: Any, counter: Any, done: Any, work: Any) -> None:
    """Wait until all `work` of a phase is done; `done` of it was this thread's. Called when nothing is left to take.

    `work` must be the same for a thread that comes when other phases, and layers, are under way.
    """
    if word(board + 8 * on.THREADS) > 1:
        if done:
            fetch_add(counter + 8 * on.FINISHED, done)
        waits = shared_word(counter + 8 * on.FINISHED) < work
        if waits and word(board + 8 * on.ROWS) >= _YIELDING_ROWS:
            give_way()
        await_at_least(counter + 8 * on.FINISHED, work)


def over_rows(work: Callable[..., Any]) -> Callable[..., Any]:
    """A phase in which threads take the step's rows one by one. `work(board, row, m)`: of row `m`; `row` is the
    instruction.
    """

    @compiled
    def rows_phase(board: Any, row: Any, counter: Any) -> None:
        count = word(board + 8 * on.ROWS)
        done, m = 0, fetch_add(counter, 1)
        while m < count:
            done += 1
            work(board, row, m)
            m = fetch_add(counter, 1)
        finish(board, counter, done, count)

    return rows_phase
