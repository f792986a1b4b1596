"""Few items first, and many only where that is cheap: an item of an ambiguous grammar takes a hundred times as long."""

import numpy as np
import pytest

from segue.engine.constraints import compiler
from segue.engine.constraints.compiler import Compiler
from segue.engine.constraints.guide import Guide
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeRunner, FakeVocab
from segue.types import Constraint, Sampling
from tests.engine.constraints.guided import compiled
from tests.engine.harness import Bench, ask

# Each character is a lexeme, since any may be followed by any: a mask takes a row for each of them.
LETTERS = Constraint(kind="gbnf", value='root ::= "<" a ">"\na ::= a a | [a-z]', param="grammar")


def masks(text: bytes) -> list[object]:
    guide, found = Guide(compiled(LETTERS)), list[object]()
    for token in text:
        row = np.zeros(VOCAB_SIZE, np.float32)
        found.append(guide.apply(row) and row.tobytes())
        if not found[-1]:
            break
        guide.accept(token)
    return found


def test_where_few_are_not_enough_more_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = masks(b"<abcdef>")
    assert all(usual)
    monkeypatch.setattr(compiler, "_DEAR_S", 60.0)
    for few in (1, 30, 100):  # at once, or in the middle of the text
        monkeypatch.setattr(compiler, "STEP_ITEMS", few)
        assert masks(b"<abcdef>") == usual


def test_a_grammar_that_is_too_ambiguous_at_once_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler, "_DEAR_S", -1.0)
    monkeypatch.setattr(compiler, "STEP_ITEMS", 1)
    with pytest.raises(InvalidField, match="grammar: it is too ambiguous") as refused:
        Compiler(FakeVocab(), VOCAB_SIZE).compile(LETTERS)
    assert refused.value.param == "grammar"


def test_one_that_becomes_so_comes_to_a_dead_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_DEAR_S", -1.0)
    monkeypatch.setattr(compiler, "STEP_ITEMS", 30)
    runner = FakeRunner(script=b"<abcdefghijklmnopqrstuvwxyz>")
    story = Bench(runner).run(
        ask("x", constraint=LETTERS, max_tokens=40, sampling=Sampling(temperature=0.0))
    )[0]
    end = story.finished[0]
    assert (end.reason, end.cause) == ("error", "dead_end")
    assert "<abcdefghijklmnopqrstuvwxyz>".startswith(story.texts[0])
    assert story.texts[0].startswith("<")


def test_a_grammar_that_a_thread_was_stuck_with_is_refused() -> None:
    shared = Compiler(FakeVocab(), VOCAB_SIZE)
    shared.compile(LETTERS).lexer.is_lost = True
    assert shared.known(LETTERS) is None
    with pytest.raises(InvalidField, match="takes too long"):
        shared.compile(LETTERS)


def test_a_request_whose_masks_are_given_up_comes_to_a_dead_end() -> None:
    bench = Bench(draft_rows=1)
    held, free = ask("x", constraint=LETTERS, max_tokens=30), ask("y", max_tokens=30)
    bench.submit(held)
    bench.submit(free)
    story, other = bench.stories[held.request_id], bench.stories[free.request_id]
    while not story.texts.get(0):
        bench.step()
    bench.compiler.compile(LETTERS).lexer.is_lost = True
    while story.done is None or other.done is None:
        bench.step()
    end = story.finished[0]
    assert (end.reason, end.cause) == ("error", "dead_end")
    assert other.finished[0].num_tokens == 30
