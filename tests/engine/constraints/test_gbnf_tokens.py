"""Tokens in GBNF, held to a matcher of our own and to llama.cpp's sampler."""

import random

import pytest

from segue.engine.constraints.compiler import Compiler, Grammar
from segue.errors import InvalidField
from segue.runners.llama.vocab import LlamaVocab
from segue.types import Constraint
from tests.engine.constraints.guided import allowed
from tests.engine.constraints.random_grammars import grammar as random_grammar
from tests.engine.constraints.tagged import (
    AB,
    ABBA,
    BA,
    CALL,
    CALLED,
    END,
    THINK,
    THOUGHT,
    spelled,
)
from tests.support.llama_grammars import LlamaGrammar


def of(made: Compiler, text: str) -> Grammar:
    return made.compile(Constraint(kind="gbnf", value=text))


def is_whole(grammar: Grammar, *parts: int | str) -> bool:
    matcher = grammar.matcher.deep_copy()
    given = spelled(*parts)
    return bool(
        matcher.validate_tokens(given) == len(given)
        and (not given or matcher.consume_tokens(given))
        and matcher.is_accepting()
    )


def test_the_documented_grammar(made: Compiler) -> None:
    for grammar in (
        of(made, "root ::= <think> thinking </think> .*\nthinking ::= !</think>*"),
        of(made, f"root ::= <[{THINK}]> thinking <[{THOUGHT}]> .*\nthinking ::= !<[{THOUGHT}]>*"),
    ):
        assert is_whole(grammar, THINK, "ab c", AB, CALL, THINK, THOUGHT, "so <b>", BA)
        assert is_whole(grammar, THINK, THOUGHT)
        assert not is_whole(grammar, THINK, "ab")
        assert not is_whole(grammar, "<think>", THOUGHT)
        assert not is_whole(grammar, THINK, THOUGHT, THOUGHT)  # no text


def test_one_token_counts_whatever_its_text_is(made: Compiler) -> None:
    grammar = of(made, f'root ::= <[{AB}]>{{2}} "!" | <call> [a-z]+ </call>')
    assert is_whole(grammar, AB, AB, "!")
    assert not is_whole(grammar, "ab", AB, "!")
    assert is_whole(grammar, CALL, "abc", CALLED)
    assert not is_whole(grammar, "<call>", "abc", CALLED)


def test_sets_that_share_tokens_are_told_apart(made: Compiler) -> None:
    grammar = of(made, f"root ::= (!<[{AB}]>)+ <[{AB}]> | (!<[{BA}]>){{3}} <[{BA}]>")
    assert is_whole(grammar, BA, "ab", AB)
    assert is_whole(grammar, AB, "ab", BA)
    assert not is_whole(grammar, AB, AB)
    assert not is_whole(grammar, "ab")


def test_no_token_among_others_ends_the_answer(made: Compiler) -> None:
    assert not is_whole(of(made, f"root ::= (!<[{AB}]>)+"), END)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<thinks>", "line 1, column 10: <thinks> is no token of the model: it is read as 8"),
        ("<ab>", "<ab> is no token of the model: it is read as 3"),
        ("<[9999]>", "line 1, column 10: the model has no token 9999"),
        ("<[99999999999]>", "expected the number of a token, <[1000]>, not <[99999999999]>"),
        ("<[]>", "expected the number of a token, <[1000]>, not <[]>"),
        ("<[5>", "expected the number of a token"),
        ("<|end|>", f"the token {END} ends the answer; nothing can be asked to follow it"),
        (f'"a" !<[{END}]> !think', "expected a token after !, <think> or <[1000]>"),
        ("<think", "line 1, column 10: this < is never closed"),
        ("!</think> | [a-z]+", "!</think>: where this token may come, it may also be meant"),
        (
            f'"abb" | <[{AB}]> "c"',
            "where this token may come, its text may come too; keep 'ab' out",
        ),
        (f"[ab]+ <[{AB}]>", "where this token may come, its text may come too; keep 'ab' out"),
        (f'("b" | "a"+ "b")* <[{ABBA}]>', "keep 'abba' out of that"),
    ],
)
def test_what_is_refused_is_named_with_its_place(made: Compiler, body: str, said: str) -> None:
    with pytest.raises(InvalidField) as refused:
        of(made, f"root ::= {body}")
    assert said in refused.value.message


@pytest.mark.parametrize("body", [f'"abb" | <[{ABBA}]> "c"', f"[bc]+ <[{AB}]>", ".* </think>"])
def test_text_that_only_begins_as_a_token_does_no_harm(made: Compiler, body: str) -> None:
    of(made, f"root ::= {body}")


@pytest.mark.parametrize("seed", range(6))
def test_random_grammars(made: Compiler, vocab: LlamaVocab, seed: int) -> None:
    """Along random walks: what is allowed next is what the matcher reads, and what llama.cpp allows.

    llama.cpp also lets tokens come that it cannot read then (`is_mistaken`), and no token that is half a character.
    """
    rng = random.Random(seed)
    texts = {token: vocab.piece(token).decode(errors="replace") for token in range(vocab.size)}
    told = frozenset(t for t, text in texts.items() if "\ufffd" not in text and text[0] > "\0")
    told -= {END}
    num_compiled = num_read = 0
    for _ in range(25):
        grammar = random_grammar(rng)
        try:
            matcher = of(made, str(grammar)).matcher.deep_copy()
        except InvalidField:
            continue
        num_compiled += 1
        with LlamaGrammar(vocab, str(grammar)) as theirs:
            stacks = grammar.start
            for _ in range(8):
                read = {t: after for t in told if (after := grammar.read(stacks, t, texts[t]))}
                assert allowed(matcher, told) == read.keys(), str(grammar)
                mistaken = {t for t in told if grammar.is_mistaken(stacks, t, texts[t])}
                assert theirs.allowed() & told == read.keys() | mistaken, str(grammar)
                assert (() in stacks) == matcher.is_accepting() == (END in theirs.allowed())
                if not read:
                    break
                token = rng.choice(sorted(read))
                stacks = read[token]
                num_read += 1
                theirs.accept([token])
                assert matcher.consume_tokens([token])
    assert num_compiled > 8
    assert num_read > 30
