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
from segue.types import Constraint, ConstraintKind, Trigger
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


def test_words_before_a_grammar_count_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a state: with pictures in them they took four times the memory that they counted."""
    compiler = Compiler(FakeVocab(), VOCAB_SIZE)
    first, other = (
        Constraint(kind="gbnf", value=f'root ::= "{word}"', triggers=(Trigger("word", word),))
        for word in ("\N{ROCKET}" * 10, "\N{DOLPHIN}" * 10)
    )
    monkeypatch.setattr(room, "MAX_CACHED_CHARS", 600)
    for each in (first, other):
        compiler.compile(each)
    assert compiler.known(other)
    assert not compiler.known(first)


def test_a_panic_is_told_without_its_words() -> None:
    """llguidance has them of alternatives that are one text in two ways."""
    assert room.reason("panic: called `Option::unwrap()`\n<backtrace>") == (
        "the compiler failed on it, as it may where alternatives are one text, put together in two ways"
    )


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


@pytest.fixture(scope="module")
def shared() -> Compiler:
    return Compiler(FakeVocab(), VOCAB_SIZE)


def refused(shared: Compiler, kind: ConstraintKind, value: str) -> str:
    with pytest.raises(InvalidField) as error:
        shared.compile(Constraint(kind=kind, value=value, param=kind))
    return error.value.message


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("ab[0-9", 'unclosed character class, at "[0-9"'),
        ("a{3,1}", 'invalid repetition count range, the start must be <= the end, at "{3,1}"'),
        ("é/\n[", 'unclosed character class, at "["'),
        ("(?P<x", "unclosed capture group name, at the end"),
        (
            "(?=a)b" + 30 * "c",
            "look-around, including look-ahead and look-behind, is not supported, at "
            '"(?=a)bcccccccccccccc"',
        ),
        ("(?P<a>b)(?P<a>c)", 'duplicate capture group name, at "a>b)(?P<a>c)"'),
        ("x\\by", "lookarounds not supported yet; WordUnicode in regex /x\\by/"),
    ],
)
def test_what_is_wrong_with_an_expression_is_said_and_where(
    shared: Compiler, expression: str, told: str
) -> None:
    """Before it came the expression twice, and a grammar that the caller never wrote."""
    assert refused(shared, "regex", expression) == f"regex: {told}"


def test_a_long_one_does_not_push_the_reason_away(shared: Compiler) -> None:
    """Messages end after 1,000 characters, and the expression came first."""
    assert refused(shared, "regex", "(a|b)" * 400 + "[") == (
        'regex: unclosed character class, at "["'
    )
    assert "lookarounds not supported" in refused(shared, "regex", "(a|b)" * 400 + "\\b")


def test_in_a_grammar_its_place_is_said_too(shared: Compiler) -> None:
    text = 'start: a\na: "x" /[b/'
    assert refused(shared, "lark", text) == 'lark: at 2(4): unclosed character class, at "[b"'


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory in use from /proc")
def test_many_schemas_leave_no_memory_behind() -> None:
    script = Path(__file__).parent / "many_schemas.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
