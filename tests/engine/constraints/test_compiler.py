"""Grammars that are compiled are kept, within bounds."""

import subprocess
import sys
from pathlib import Path

import pytest

from segue.engine.constraints import compiler as room
from segue.engine.constraints.compiler import Compiler
from segue.engine.constraints.vocabulary import Vocabulary
from segue.engine.seam import Vocab
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint
from tests.engine.constraints.guided import regex


def test_the_cache_is_bounded_and_keyed_by_all_that_matters() -> None:
    compiler = Compiler(FakeVocab(), VOCAB_SIZE)
    first = regex("first")
    grammar = compiler.compile(first)
    assert compiler.compile(regex("first")) is grammar
    assert compiler.compile(Constraint(kind="choice", value=("first",))) is not grammar
    for i in range(room.MAX_CACHED):
        compiler.compile(regex(f"other{i}"))
    assert compiler.known(first) is None


def test_texts_of_compiled_grammars_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One larger than all that are kept was compiled for every request, and pushed out the others each time."""
    compiler = Compiler(FakeVocab(), VOCAB_SIZE)
    one, other, large = regex("a" * 100), regex("b" * 100), regex("c" * 1000)
    monkeypatch.setattr(room, "MAX_CACHED_CHARS", 600)
    compiler.compile(one)
    compiler.compile(other)
    assert compiler.known(one)
    assert compiler.known(other)
    compiler.compile(large)
    assert compiler.known(large)
    assert not compiler.known(one)
    assert not compiler.known(other)
    compiler.compile(one)
    assert compiler.known(one)
    assert not compiler.known(large)


def test_a_brief_compiler_reads_the_vocabulary_with_the_first_constraint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`segue complete` waited a fifth of a second for what few answers need."""
    made: list[int] = []

    class Counted(Vocabulary):
        def __init__(self, vocab: Vocab, width: int) -> None:
            super().__init__(vocab, width)
            made.append(width)

    monkeypatch.setattr(room, "Vocabulary", Counted)
    Compiler(FakeVocab(), VOCAB_SIZE)
    assert made == [VOCAB_SIZE]
    brief = Compiler(FakeVocab(), VOCAB_SIZE, is_brief=True)
    assert made == [VOCAB_SIZE]
    brief.compile(regex("[ab]"))
    brief.compile(regex("[cd]"))
    assert made == [VOCAB_SIZE] * 2


@pytest.mark.parametrize(
    ("text", "language"),
    [("root = 'a'", "read as Lark"), ("root ::= (", "read as GBNF")],
)
def test_an_error_says_for_which_language_a_grammar_was_taken(text: str, language: str) -> None:
    compiler = Compiler(FakeVocab(), VOCAB_SIZE)
    with pytest.raises(InvalidField, match=language):
        compiler.compile(Constraint(kind="grammar", value=text, param="grammar"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory in use from /proc")
def test_many_schemas_leave_no_memory_behind() -> None:
    script = Path(__file__).parent / "many_schemas.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
