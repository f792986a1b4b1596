"""What one thread writes before it tells others is there when these have been told, on processors that reorder too.

ARM's do. No emulator on an x86 machine shows a barrier that is missing, since x86 orders nearly everything by itself.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llvmlite import ir

import segue.runners.cpu
from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.products import machine_code, processor
from segue.runners.cpu.step.atomics import exchange, fetch_add, replace_word, shared_word, word
from segue.runners.cpu.translation.functions import Functions

# The words of board.py by which threads tell each other of what they have written.
TOLD = {"DONE", "LEFT", "FINISHED", "ASLEEP", "NAPS"}
PLAIN = {"word", "put_word"}


@compiled
def look(address: Any) -> Any:
    return shared_word(address)


@compiled
def look_plainly(address: Any) -> Any:
    return word(address)


@compiled
def add(address: Any) -> Any:
    return fetch_add(address, 1)


@compiled
def swap(address: Any) -> Any:
    return exchange(address, 1)


@compiled
def replace(address: Any) -> None:
    replace_word(address, 1, 2)


# With one instruction for each (LSE), and without: a load that acquires and a store that releases.
INSTRUCTIONS = {
    "dotprod": {
        look: ["ldar"],
        look_plainly: ["ldr"],
        add: ["ldaddal"],
        swap: ["swpal"],
        replace: ["casal"],
    },
    "neon": {
        look: ["ldar"],
        look_plainly: ["ldr"],
        add: ["ldaxr", "stlxr"],
        swap: ["ldaxr", "stlxr"],
        replace: ["ldaxr", "stlxr"],
    },
}


@pytest.mark.parametrize(
    ("flavour", "kernel"),
    [(flavour, kernel) for flavour, kernels in INSTRUCTIONS.items() for kernel in kernels],
    ids=lambda each: each if isinstance(each, str) else each.function.__name__,
)
def test_arm_keeps_the_order(flavour: str, kernel: Any) -> None:
    assert accesses(flavour, kernel) == INSTRUCTIONS[flavour][kernel]


def accesses(flavour: str, kernel: Any) -> list[str]:
    """The instructions of a kernel that touch memory behind an address, in order."""
    (own,) = (each for each in processor.FLAVOURS if each.name == flavour)
    target = processor.target_of(own)
    module = ir.Module("order")
    module.triple = target.triple
    Functions(module).entry(kernel, 1)
    lines = machine_code.assembly(module, target).splitlines()
    found = [re.match(r"\s+(\w+)\s.*\[x\d+\]", line) for line in lines]
    return [each[1] for each in found if each]


def test_words_that_threads_tell_each_other_by_are_never_read_or_written_plainly() -> None:
    sources = Path(segue.runners.cpu.__file__).parent
    wrong = {
        f"{path.name}:{call.lineno}"
        for path in sources.rglob("*.py")
        for call in plain_accesses(path.read_text(encoding="utf-8"))
        if names(call) & TOLD
    }
    assert not wrong


def test_a_plain_access_would_be_found() -> None:
    text = "while word(team + 8 * on.DONE) < 1:\n    put_word(x, y)\nfetch_add(a + 8 * on.LEFT, 1)"
    assert [names(call) & TOLD for call in plain_accesses(text)] == [{"DONE"}, set()]


def plain_accesses(text: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PLAIN:
            yield node


def names(call: ast.Call) -> set[str]:
    """The words of the board in the address."""
    return {node.attr for node in ast.walk(call.args[0]) if isinstance(node, ast.Attribute)}
