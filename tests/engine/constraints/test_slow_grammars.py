"""Grammars whose tokens take long to read: other threads than that of all requests do it, to the same answers."""

import threading
from typing import Any

import numpy as np
import pytest

from segue.engine.constraints import compiler, guide
from segue.engine.constraints.guide import Guide
from segue.runners.fake import VOCAB_SIZE, FakeRunner
from segue.types import Constraint, Infill, Prompt, Repetition, Sampling
from tests.engine.constraints.guided import compiled, regex
from tests.engine.constraints.test_guide import PERSON
from tests.engine.harness import Bench, ask
from tests.support import clocks

THRICE = Repetition(max_size=2, min_size=2, min_count=3)
SUFFIX = Infill(suffix=Prompt(("cab",)), mode="ranked")
ASKED: dict[str, dict[str, Any]] = {
    "schema": {"constraint": Constraint(kind="json_schema", value=PERSON), "max_tokens": 60},
    "several": {"constraint": regex("([a-d]{3},){2,20}"), "n": 2, "best_of": 3, "logprobs": 2},
    "forced": {"constraint": regex("[xyz]the quick brown fox jumps"), "max_tokens": 100},
    "exactly full": {"constraint": regex("abc"), "max_tokens": 3},
    "cut": {"constraint": regex("abcdefgh"), "max_tokens": 5},
    "stop": {"constraint": regex("[ab]+c"), "stop": ("ab",), "max_tokens": 30},
    "dead end": {"constraint": regex("abc"), "sampling": Sampling(logit_bias={98: -np.inf})},
    "whole": {
        "constraint": Constraint(kind="choice", value=("abz", "ab")),
        "sampling": Sampling(seed=1, allowed_token_ids=(97, 98)),
    },
    "ranked": {"constraint": regex("[a-c ]{0,9}"), "infill": SUFFIX, "max_tokens": 9},
    "repeating and over": {
        "constraint": regex("(ab){3}"),
        "repetition": THRICE,
    },
    "repeating": {
        "constraint": regex("(ab)*"),
        "repetition": THRICE,
    },
}


@pytest.fixture
def all_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every grammar counts as slow, and nothing but threads for masks may read."""
    read = guide._read

    def beside(grammar: Any, matcher: Any, tokens: Any) -> list[bool]:
        name = threading.current_thread().name
        assert name.startswith("mask"), f"{name} reads"
        return read(grammar, matcher, tokens)

    monkeypatch.setattr(compiler, "_SLOW_S", -1.0)
    monkeypatch.setattr(guide, "_read", beside)


def answers(name: str, **limits: Any) -> list[object]:
    fields = {"sampling": Sampling(seed=3, temperature=1.2), "max_tokens": 30, **ASKED[name]}
    asked = [ask(prompt, **fields) for prompt in ("one", "two two two", "x")]
    bench = Bench(FakeRunner(), draft_rows=1) if not limits else Bench(**limits)
    return [story.essence for story in bench.run(*asked)]


@pytest.mark.parametrize("name", ASKED)
def test_answers_are_those_of_fast_ones(name: str, request: pytest.FixtureRequest) -> None:
    expected = answers(name)
    crowd: dict[str, Any] = {
        "num_slots": 3,
        "num_cells": 120,
        "context_length": 100,
        "draft_rows": 8,
    }
    assert answers(name, **crowd) == expected
    request.getfixturevalue("all_slow")
    assert answers(name) == expected
    assert answers(name, **crowd) == expected


@pytest.mark.usefixtures("all_slow")
def test_where_a_text_may_end_is_known_once_it_is_read() -> None:
    guided = Guide(compiled(regex("a(bcd)*")))
    for token in b"abcdb":
        assert not guided.accept(token)
    assert guided.may_end() == [False, True, False, False, True, False]
    assert not guided.is_whole
    for token in b"cd":
        guided.accept(token)
    assert guided.is_whole
    assert not guided.is_over
    assert guided.apply(np.zeros(VOCAB_SIZE, np.float32))


def test_a_mask_that_takes_long_makes_a_grammar_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = compiled(regex("[ab]+"))
    assert not grammar.is_slow
    clocks.show(monkeypatch, [0.0, 0.01, 0.0, 2.0])
    grammar.mask(grammar.matcher.deep_copy())
    assert not grammar.is_slow
    grammar.mask(grammar.matcher.deep_copy())
    assert grammar.is_slow
