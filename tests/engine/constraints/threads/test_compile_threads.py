import threading
from queue import SimpleQueue

import pytest

from segue.engine.constraints.compiler import Compiler, Grammar
from segue.engine.constraints.threads.compile_threads import (
    NUM_COMPILERS,
    OVERDUE_S,
    Compilations,
    CompileJob,
    CompileThreads,
    Outcome,
)
from segue.engine.constraints.threads.pool import GIVE_UP_S
from segue.errors import EngineFault, InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint
from tests.engine.constraints.guided import regex

PATIENCE_S = 60.0


def wanted(text: str, is_wanted: bool = True) -> CompileJob:
    return CompileJob(regex(text), lambda _: None, lambda: is_wanted)


def test_first_come_first_served_and_each_constraint_once() -> None:
    queue, first, same, other = Compilations(), wanted("a"), wanted("a"), wanted("b")
    for each in (first, same, other):
        assert queue.put(each)
    assert [queue.take(), queue.take(), queue.take()] == [first, other, None]
    assert queue.end(first.constraint) == [same]
    assert queue.end(other.constraint) == []
    assert queue.take() is None


def test_what_was_cancelled_is_not_compiled() -> None:
    queue, gone, there = Compilations(), wanted("a", is_wanted=False), wanted("b")
    for each in (gone, there):
        queue.put(each)
    assert queue.take() is there
    assert queue.take() is None


def test_nobody_waits_for_what_was_given_up_until_it_is_there() -> None:
    queue, first, same = Compilations(), wanted("a"), wanted("a")
    queue.put(first)
    queue.put(same)
    assert queue.take() is first
    assert queue.give_up(first.constraint) == [same]
    assert not queue.put(wanted("a"))
    assert queue.end(first.constraint) == []
    assert queue.put(wanted("a"))


class Gated:
    """Compilations of constraints with "slow" in them wait for the gate."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.begun: SimpleQueue[Constraint] = SimpleQueue()
        self.threads = CompileThreads(Compiler(FakeVocab(), VOCAB_SIZE))
        compile_now = Compiler.compile

        def gated(compiler: Compiler, constraint: Constraint) -> Grammar:
            self.begun.put(constraint)
            if "slow" in constraint.value:
                assert self.gate.wait(PATIENCE_S)
            return compile_now(compiler, constraint)

        monkeypatch.setattr(Compiler, "compile", gated)

    def advance(self, seconds: float) -> None:
        pool = self.threads._pool
        clock = pool._clock
        pool._clock = lambda: clock() + seconds
        self.threads._look()

    def submit(self, text: str) -> "SimpleQueue[Outcome]":
        told: SimpleQueue[Outcome] = SimpleQueue()
        self.threads.submit(CompileJob(regex(text), told.put, lambda: True))
        return told


def test_compilations_that_are_stuck_keep_nobody_else_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two requests were enough that no new constraint was compiled."""
    gated = Gated(monkeypatch)
    slow = [gated.submit(f"slow{i}") for i in range(NUM_COMPILERS)]
    for _ in slow:
        gated.begun.get(timeout=PATIENCE_S)
    gated.advance(OVERDUE_S + 0.1)
    assert isinstance(gated.submit("a").get(timeout=PATIENCE_S), Grammar)
    gated.gate.set()
    for told in slow:
        assert isinstance(told.get(timeout=PATIENCE_S), Grammar)


def test_whoever_waits_too_long_is_told_which_field_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    gated = Gated(monkeypatch)
    first, same = gated.submit("slow"), gated.submit("slow")
    gated.begun.get(timeout=PATIENCE_S)
    gated.advance(GIVE_UP_S + 1)
    for told in (first, same, gated.submit("slow")):
        outcome = told.get(timeout=PATIENCE_S)
        assert isinstance(outcome, InvalidField)
        assert outcome.param == "regex"
        assert "regex: it takes longer than 30 s" in outcome.message
    gated.gate.set()


def test_a_panic_of_the_compiler_fails_its_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        """As those of llguidance: no Exception."""

    gated = Gated(monkeypatch)
    compile_now = Compiler.compile

    def panic(compiler: Compiler, constraint: Constraint) -> Grammar:
        if constraint.value == "b":
            raise Panic
        return compile_now(compiler, constraint)

    monkeypatch.setattr(Compiler, "compile", panic)
    assert isinstance(gated.submit("b").get(timeout=PATIENCE_S), EngineFault)
    assert isinstance(gated.submit("a").get(timeout=PATIENCE_S), Grammar)
