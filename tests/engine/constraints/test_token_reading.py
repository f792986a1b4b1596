"""Tokens that are read without holding up other threads."""

import llguidance
import numpy as np
import pytest

from segue.engine.constraints import guide, token_reading
from segue.engine.constraints.guide import Guide
from segue.engine.constraints.token_reading import read_as_far, read_beside
from segue.runners.fake import VOCAB_SIZE
from tests.engine.constraints.guided import compiled, regex
from tests.support import clocks


@pytest.mark.parametrize("text", [b"abab", b"abc", b"ax", b"abcd"])
def test_what_is_read_is_the_same(text: bytes) -> None:
    grammar = compiled(regex("(ab)*c?"))
    usual, beside = grammar.matcher.deep_copy(), grammar.matcher.deep_copy()
    assert isinstance(beside, llguidance.LLMatcher)
    for token in text:
        usual.consume_token(token)
        read_beside(beside, token, grammar.vocabulary.tokenizer)
        assert beside.is_error() == usual.is_error()
        assert beside.is_stopped() == usual.is_stopped()
        assert beside.is_accepting() == usual.is_accepting()
        assert beside.deep_copy().compute_bitmask() == usual.deep_copy().compute_bitmask()


@pytest.mark.parametrize("text", [b"", b"abab", b"ababababc", b"abababx", b"x"])
@pytest.mark.parametrize("is_slow", [False, True])
def test_texts_are_read_as_far_as_they_go(text: bytes, is_slow: bool) -> None:
    grammar = compiled(regex("(ab)*c"))
    grammar.lexer.is_slow = is_slow
    reader, usual = grammar._whole.deep_copy(), grammar._whole.deep_copy()
    num_read = usual.validate_tokens([*text])
    assert read_as_far(reader, [*text], grammar.lexer, grammar.vocabulary.tokenizer) == num_read
    assert grammar.lexer.is_slow == is_slow


def test_after_a_part_that_is_dear_the_rest_is_read_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an ambiguous grammar one byte may take a second, and Python's lock was kept for all of a text."""
    beside: list[int] = []

    def read(matcher: llguidance.LLMatcher, token: int, tokenizer: llguidance.LLTokenizer) -> None:
        beside.append(token)
        read_beside(matcher, token, tokenizer)

    monkeypatch.setattr(token_reading, "read_beside", read)
    grammar = compiled(regex("(ab)*c"))
    grammar.lexer.is_slow = False
    clocks.show(monkeypatch, [0.0, 0.001, 0.0, 2.0])
    reader, text = grammar._whole.deep_copy(), b"ababababx"
    assert read_as_far(reader, [*text], grammar.lexer, grammar.vocabulary.tokenizer) == 8
    assert bytes(beside) == text[3:]
    assert grammar.lexer.is_slow


def test_nobody_waits_for_a_lexer_that_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another's mask may take seconds: the thread of all requests waited, and kept every other from running."""
    monkeypatch.setattr(guide, "_LEXER_S", 0.0)
    guided = Guide(compiled(regex("a(bcd)*")))
    with guided._grammar.lexer.in_use:
        assert not guided.accept(ord("a"))
        assert not guided.knows_end
        assert not guided.is_ready
    assert guided.is_whole
    assert guided.may_end() == [False, True]
    for token in b"bcd":
        assert guided.apply(np.zeros(VOCAB_SIZE, np.float32))
        assert not guided.accept(token)
    assert guided.is_whole


def test_a_draft_ends_where_the_lexer_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guide, "_LEXER_S", 0.0)
    grammar = compiled(regex("[ab]+"))
    scout = Guide(grammar).scout()
    assert scout is not None
    with grammar.lexer.in_use:
        assert not scout.accept(ord("a"))
