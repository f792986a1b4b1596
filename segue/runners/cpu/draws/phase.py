"""Draws as a phase: each thread of the team takes the next row until none is left."""

from typing import Any

from llvmlite import ir

from segue.runners.cpu.draws import records as of
from segue.runners.cpu.emit import Builder, Value, i64
from segue.runners.cpu.kernel import INT, VOID, compiled, define
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.atomics import await_told, fetch_add, put_word, word
from segue.runners.cpu.step.pieces import finish


@define(VOID, *[INT] * 6)
def _draw(b: Builder, function: Value, *args: Value) -> None:
    kind = ir.FunctionType(ir.VoidType(), [i64] * len(args)).as_pointer()
    b.call(b.inttoptr(function, kind), list(args))


@compiled
def draw_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    """[op, draw_row, records, number of records, logits, tokens per row, scratch, bytes per part of the scratch,
    most naps of all threads while they wait to be told]"""
    function, records, count = word(row + 8), word(row + 16), word(row + 24)
    logits, width, part = word(row + 32), word(row + 40), word(row + 56)
    scratch = word(row + 48) + tid * of.NUM_PARTS * part
    done, i = 0, fetch_add(counter, 1)
    while i < count:
        done += 1
        record = records + 8 * of.RECORD_WORDS * i
        awaited, told = word(record + 8 * of.AWAITED), 0
        if awaited != 0:
            told = await_told(awaited, counter + 8 * on.NAPS, word(row + 64))
        put_word(record + 8 * of.TOLD, told)
        _draw(function, record, logits, width, scratch, part)
        i = fetch_add(counter, 1)
    finish(board, counter, done, count)
