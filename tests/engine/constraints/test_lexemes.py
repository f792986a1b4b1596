"""Whatever a grammar is cut into, the texts that can be drawn are exactly the grammar's."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.bench.exactness.grammars import Recogniser
from segue.engine.constraints import gbnf, lexemes
from segue.engine.constraints.compiler import Compiler, Grammar
from segue.engine.constraints.guide import Guide
from segue.engine.constraints.lexemes import cut
from segue.engine.constraints.regular import straightened
from segue.engine.constraints.tokens import TokenSets
from segue.errors import InvalidField
from segue.runners.fake import EOS, VOCAB_SIZE, FakeVocab
from segue.types import Constraint

LENGTH = 4
COMPILER = Compiler(FakeVocab(), VOCAB_SIZE)


def compiled(text: str) -> Grammar:
    return COMPILER.compile(Constraint(kind="gbnf", value=text))


def drawable(grammar: Grammar, text: str) -> bool:
    guide = Guide(grammar)
    for place, byte in enumerate(text.encode()):
        row = np.zeros(VOCAB_SIZE, np.float32)
        if not guide.apply(row) or row[byte] != 0:
            return False
        if guide.accept(byte):
            return place == len(text) - 1
    row = np.zeros(VOCAB_SIZE, np.float32)
    return guide.apply(row) and row[EOS] == 0


NAMES = ("root", "p", "q")
ATOMS = st.sampled_from(['"a"', '"b"', '"ab"', '"ba"', "[ab]", *NAMES])
TERMS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
        st.tuples(inner, inner).map(" ".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} | {pair[1]})"),
    ),
    max_leaves=5,
)
BODIES = st.lists(TERMS, min_size=1, max_size=3).map(" | ".join)


@settings(max_examples=40)
@given(bodies=st.tuples(BODIES, BODIES, BODIES))
def test_exactly_the_texts_of_the_grammar_can_be_drawn(bodies: tuple[str, str, str]) -> None:
    text = "".join(f"{name} ::= {body}\n" for name, body in zip(NAMES, bodies, strict=True))
    texts = ["".join(t) for n in range(LENGTH + 1) for t in itertools.product("ab", repeat=n)]
    rules = gbnf.parse(text, TokenSets(None))
    expected = {t for t in texts if Recogniser(rules, t).matches}
    try:
        grammar = compiled(text)
    except InvalidField:
        assert not expected
        return
    assert {t for t in texts if drawable(grammar, t)} == expected, text


@pytest.mark.parametrize(
    ("text", "num_lexemes"),
    [
        ('root ::= [a-z]+ "ab"', 1),  # regular: one lexeme, exact as it is
        ('root ::= "(" root ")" | [0-9]+', 3),
        ('root ::= "(" ws root ws ")" | "x"\nws ::= ([ \\n] ws)?', 3),  # a rule repeating itself
        ('root ::= word root | "."\nword ::= [a-z]+ "!"', 1),
    ],
)
def test_regular_parts_stay_whole(text: str, num_lexemes: int) -> None:
    """Masks cost more the shorter the lexemes are."""
    shaped = cut(straightened(gbnf.parse(text, TokenSets(None))))
    assert repr(shaped).count("Lexeme(") == num_lexemes


def test_spaces_that_may_swallow_the_line_break_are_taken_apart() -> None:
    grammar = compiled('root ::= item+ | "(" root ")"\nitem ::= [a-z] ws "\\n"\nws ::= [ \\n]*')
    assert drawable(grammar, "a \n\n\nb\n")
    assert drawable(grammar, "(a\n)")
    assert not drawable(grammar, "a b\n")


def language(num_kinds: int) -> str:
    """Statements of so many kinds. An identifier may run on into the operator "in" after it."""
    kinds = " | ".join(f"s{i}" for i in range(num_kinds))
    rules = [f's{i} ::= "kw{i}" ws expr ";" ws' for i in range(num_kinds)]
    return "\n".join(
        [
            f'root ::= stmt*\nstmt ::= {kinds} | "{{" ws stmt* "}}" ws',
            *rules,
            'expr ::= term (op expr)?\nterm ::= ident | "(" expr ")" ws\nident ::= [a-z_] [a-z0-9_]* ws',
            'op ::= ("+" | "in" | "==") ws\nws ::= [ \\n]*',
        ]
    )


def test_a_grammar_too_large_to_be_analysed_loses_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexemes, "_MAX_WORK", 20_000)
    grammar = compiled(language(30))
    assert drawable(grammar, "kw1ain b;{kw29 (a in b)== c;}")
    assert not drawable(grammar, "kw30 a;")


def test_rules_in_a_long_chain_lose_no_text() -> None:
    chain = "".join(f"a{i} ::= a{i + 1}\n" for i in range(900))
    text = f'root ::= a0 "in" root | "." | "(" root ")"\n{chain}a900 ::= [a-z]+\n'
    assert drawable(compiled(text), "(abcin.)")


class Words(FakeVocab):
    """Beside the bytes all words of four of some letters: as many tokens as a model has."""

    texts = tuple("".join(word).encode() for word in itertools.product("abdefilnorstu_ ", repeat=4))
    size = VOCAB_SIZE + len(texts)

    def piece(self, token: int) -> bytes:
        return super().piece(token) if token < VOCAB_SIZE else self.texts[token - VOCAB_SIZE]

    def is_control(self, token: int) -> bool:
        return 256 <= token < VOCAB_SIZE


def test_words_after_words_can_be_drawn_from_many_tokens() -> None:
    vocab = Words()
    compiler = Compiler(vocab, vocab.size)
    guide = Guide(compiler.compile(Constraint(kind="gbnf", value=language(3))))
    for byte in b"kw1 foo in bar;{ kw2 (a in b) == c ;}":
        row = np.zeros(vocab.size, np.float32)
        assert guide.apply(row)
        assert row[byte] == 0
        guide.accept(byte)
