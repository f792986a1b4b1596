"""Words before a grammar, held to the same as one grammar of llguidance, and what guides do with them."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from segue.engine.constraints.compiler import Compiler, Matcher
from segue.engine.constraints.guide import Guide
from segue.engine.constraints.lazy.fitting import Fitting, LimitMet
from segue.engine.constraints.lazy.word_matcher import WordMatcher
from segue.errors import InvalidField
from segue.runners.llama.vocab import LlamaVocab
from segue.types import Constraint, Trigger
from tests.engine.constraints.guided import allowed
from tests.engine.constraints.lazy.random_triggers import random_lazy
from tests.engine.constraints.tagged import (
    AB,
    ABC,
    CALL,
    END,
    SAY,
    THINK,
    TOKENS,
    spelled,
)

CALLED = Constraint(
    kind="gbnf",
    value='root ::= ("<tool>" | "<call>") [a-c]+ "!"',
    triggers=(Trigger("word", "<tool>"), Trigger("token", token=CALL)),
)


def leads_to_the_grammar(matcher: WordMatcher, token: int) -> bool:
    trial = matcher.deep_copy()
    trial.consume_token(token)
    return trial._triggered is not None


def ends(matcher: Matcher) -> bool:
    """Whether nothing may follow, which llguidance may see only where the end token is all that may."""
    return bool(matcher.is_stopped()) or allowed(matcher, range(len(TOKENS))) == {END}


@pytest.mark.parametrize("seed", range(3))
def test_it_allows_what_one_grammar_of_both_does(
    made: Compiler, vocab: LlamaVocab, seed: int
) -> None:
    rng = random.Random(seed)
    one = Compiler(vocab, vocab.size, is_followed=True)
    every = range(vocab.size)
    num_triggered = num_steps = 0
    drawn = [random_lazy(rng, vocab).constraint for _ in range(160)]
    for constraint in drawn:
        if any(trigger.kind not in ("word", "token") for trigger in constraint.triggers):
            continue
        try:
            theirs = one.compile(constraint).matcher.deep_copy()
        except InvalidField:
            continue
        ours = made.compile(constraint).matcher.deep_copy()
        if not isinstance(ours, WordMatcher):
            continue
        assert not isinstance(theirs, WordMatcher)
        for _ in range(10):
            fits = allowed(ours, every)
            assert fits == allowed(theirs, every), constraint
            was_free = ours._triggered is None
            told = sorted(fits & {*range(256, vocab.size), *spelled("abcx< ")} - {END})
            firing = [t for t in told if was_free and leads_to_the_grammar(ours, t)]
            token = rng.choice((firing if rng.random() < 0.3 else told) or told or [*fits])
            assert ours.consume_token(token)
            assert theirs.consume_token(token)
            num_triggered += was_free and ours._triggered is not None
            num_steps += 1
            assert ours.is_accepting() == theirs.is_accepting()
            is_over = ends(ours)
            assert is_over == ends(theirs), constraint
            if is_over:
                break
    assert num_steps > 60
    assert num_triggered > 3


def test_after_the_end_nothing_comes(made: Compiler) -> None:
    matcher = made.compile(CALLED).matcher.deep_copy()
    assert matcher.consume_tokens([AB, END])
    assert matcher.is_stopped()
    assert matcher.is_accepting()
    assert not any(matcher.compute_bitmask())
    assert not matcher.consume_token(AB)
    assert matcher.is_error()


def test_what_cannot_come_is_an_error(made: Compiler) -> None:
    for tokens, said in (
        ([*spelled("<tool>"), SAY], "doesn't satisfy"),
        ([spelled("é")[1]], "cannot come"),
        ([spelled("é")[0], END], "within a character"),
        ([spelled("é")[0], CALL], "cannot come"),
    ):
        matcher = made.compile(CALLED).matcher.deep_copy()
        assert matcher.validate_tokens(tokens) == len(tokens) - 1
        assert not matcher.is_error()
        assert not matcher.consume_tokens(tokens)
        assert matcher.is_error()
        assert matcher.is_stopped()
        assert said in matcher.get_error()
        assert not matcher.compute_ff_tokens()


def test_a_copy_goes_its_own_way(made: Compiler) -> None:
    matcher = made.compile(CALLED).matcher.deep_copy()
    assert matcher.consume_tokens(spelled("x<too"))
    copy = matcher.deep_copy()
    assert copy.consume_tokens(spelled("l>a!"))
    assert copy.is_stopped()
    assert matcher.consume_tokens(spelled("x l>d"))
    assert matcher.is_accepting()


def is_allowed(guide: Guide, token: int, width: int) -> bool:
    row = np.zeros(width, np.float32)
    return guide.apply(row) and bool(row[token] == 0)


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_guide_reads_the_same_beside(vocab: LlamaVocab, is_slow: bool) -> None:
    grammar = Compiler(vocab, vocab.size).compile(CALLED)
    grammar.lexer.is_slow = is_slow
    for before in (spelled("x <tool>"), [THINK, CALL]):
        guide = Guide(grammar)
        for token in before:
            assert is_allowed(guide, token, vocab.size)
            assert not guide.accept(token)
        assert not is_allowed(guide, spelled("d")[0], vocab.size)
        assert not guide.is_whole
        for token in spelled("ab"):
            assert is_allowed(guide, token, vocab.size)
            assert not guide.accept(token)
        assert guide.accept(spelled("!")[0]) or guide.is_over
        assert guide.may_end()[: len(before)] == [True] * len(before)


def test_a_draft_goes_ahead_into_the_grammar(
    vocab: LlamaVocab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("segue.engine.constraints.guide._SCOUT_S", 60.0)
    monkeypatch.setattr("segue.engine.constraints.guide._LEXER_S", 60.0)
    guide = Guide(Compiler(vocab, vocab.size).compile(CALLED))
    ahead = guide.scout()
    assert ahead is not None
    for token in spelled("x<tool>a"):
        assert ahead.apply(np.zeros(vocab.size, np.float32))
        assert ahead.accept(token)
    row = np.zeros(vocab.size, np.float32)
    assert ahead.apply(row)
    assert row[spelled("!")[0]] == 0
    assert np.isinf(row[spelled("d")[0]])
    for token in spelled("x<tool>a"):  # the guide takes its masks over
        assert is_allowed(guide, token, vocab.size)
        assert not guide.accept(token)
    assert not is_allowed(guide, spelled("d")[0], vocab.size)


@pytest.mark.parametrize("text", ["x <tool", "x <tool>a"])
def test_a_lexer_that_others_spoilt_decides_nothing(
    vocab: LlamaVocab, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """A sequence in free text and one in the grammar get a lexer of their own."""
    compiler = Compiler(vocab, vocab.size)
    constraint = Constraint(
        kind="gbnf",
        value='root ::= "<tool>" ([a-c]* "a" [a-c]{9} "x" | [a-c]* "!")',
        triggers=(Trigger("word", "<tool>"), Trigger("word", "ol>c")),
    )
    with monkeypatch.context() as patched:
        patched.setattr("segue.engine.constraints.compiler.MAX_STATES", 20)
        with pytest.raises(InvalidField, match=r"^grammar_triggers: the grammar matches nothing"):
            compiler.compile(constraint)
        constraint = replace(constraint, triggers=constraint.triggers[:1])
        grammar = compiler.compile(constraint)
    guide, other = Guide(grammar), grammar.matcher.deep_copy()
    other.consume_tokens(spelled("<tool>" + "abc" * 30))
    other.compute_bitmask()
    assert other.is_error()
    for token in spelled(text):
        assert is_allowed(guide, token, vocab.size)
        assert not guide.accept(token)
    assert is_allowed(guide, spelled("b" if text[-1] == "a" else ">")[0], vocab.size)
    assert not is_allowed(guide, spelled("d")[0], vocab.size) or text[-1] != "a"
    assert grammar.is_spoilt


def test_what_does_not_fit_is_told_from_a_lexer_that_is_spoilt(
    vocab: LlamaVocab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a token that goes on behind the word: only the lexer says whether it fits."""
    constraint = Constraint(
        kind="gbnf",
        value='root ::= "<xa" ([a-c]* "a" [a-c]{9} "x" | [a-c]* "!")',
        triggers=(Trigger("word", "<xa"),),
    )
    with monkeypatch.context() as patched:
        patched.setattr("segue.engine.constraints.compiler.MAX_STATES", 20)
        grammar = Compiler(vocab, vocab.size).compile(constraint)
    other = grammar.matcher.deep_copy()
    other.consume_tokens(spelled("<xa" + "abc" * 30))
    other.compute_bitmask()
    assert other.is_error()
    guide = Guide(grammar)
    for token in spelled("<x"):
        assert not guide.accept(token)
    assert is_allowed(guide, ABC, vocab.size)
    assert grammar.is_spoilt


AMBIGUOUS = "root ::= n0\n" + "\n".join(
    f'n{i} ::= {" | ".join(f"n{j} n{(i + j) % 8} | n{i} n{j}" for j in range(8))} | [ab] | "(" n0 ")"'
    for i in range(8)
)


def test_what_is_too_ambiguous_to_be_read_is_refused(made: Compiler) -> None:
    """Python's lock was kept while all of a word was read: minutes, in which nothing else ran."""
    trigger = Trigger("word", "(" + "ab" * 30, param="grammar_triggers[0]")
    with pytest.raises(InvalidField, match=r"^grammar: it (is too ambiguous|takes too long)"):
        made.compile(Constraint(kind="gbnf", value=AMBIGUOUS, triggers=(trigger,)))


def test_what_a_slow_lexer_reads_has_an_end(
    made: Compiler, vocab: LlamaVocab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("segue.engine.constraints.token_reading._DEAR_S", -1.0)
    assert Compiler(vocab, vocab.size).compile(CALLED).is_slow
    monkeypatch.setattr("segue.engine.constraints.lazy.fitting._MAX_S", -1.0)
    with pytest.raises(InvalidField, match="takes too long to read what triggers give to it"):
        Compiler(vocab, vocab.size).compile(CALLED)


def test_a_limit_that_is_met_as_the_first_tokens_are_tried_is_told(
    vocab: LlamaVocab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every answer came to a dead end before its first token."""

    def fits(self: Fitting, text: bytes) -> bool:
        raise LimitMet("it is too large")

    monkeypatch.setattr(Fitting, "fits", fits)
    constraint = replace(CALLED, triggers=(Trigger("word", "xa"),), value='root ::= "xa" "b"*')
    with pytest.raises(InvalidField, match=r"^grammar: it is too large"):
        Compiler(vocab, vocab.size).compile(constraint)
