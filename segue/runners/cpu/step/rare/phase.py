"""Phases that are compiled apart (rare_phases.py): their instructions name the code, as those of draws do."""

from typing import Any

from llvmlite import ir

from segue.runners.cpu.emit import Builder, Value, i64
from segue.runners.cpu.kernel import INT, VOID, compiled, define
from segue.runners.cpu.step.atomics import word

CODE = 1  # the word of an instruction that has the address of its code


@define(VOID, *[INT] * 5)
def _call(b: Builder, code: Value, *args: Value) -> None:
    kind = ir.FunctionType(i64, [i64] * len(args)).as_pointer()
    b.call(b.inttoptr(code, kind), list(args))


@compiled
def rare_phase(board: Any, row: Any, counter: Any, tid: Any) -> None:
    _call(word(row + 8 * CODE), board, row, counter, tid)
