"""Whatever a grammar is cut into, the texts that can be drawn are exactly the grammar's."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.bench.exactness.grammars import Recogniser
from segue.engine.constraints import gbnf
from segue.engine.constraints.compiler import Compiler, Grammar
from segue.engine.constraints.guide import Guide
from segue.engine.constraints.lexemes import cut
from segue.engine.constraints.regular import straightened
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
    rules = gbnf.parse(text)
    expected = {t for t in texts if Recogniser(rules, t).matches}
    try:
        grammar = compiled(text)
    except InvalidField:
        assert not expected
        return
    assert {t for t in texts if drawable(grammar, t)} == expected, text


@pytest.mark.parametrize(
    ("text", "lexemes"),
    [
        ('root ::= [a-z]+ "ab"', 1),  # regular: one lexeme, exact as it is
        ('root ::= "(" root ")" | [0-9]+', 3),
        ('root ::= "(" ws root ws ")" | "x"\nws ::= ([ \\n] ws)?', 3),  # a rule repeating itself
        ('root ::= word root | "."\nword ::= [a-z]+ "!"', 1),
    ],
)
def test_regular_parts_stay_whole(text: str, lexemes: int) -> None:
    """Masks cost more the shorter the lexemes are."""
    shaped = cut(straightened(gbnf.parse(text)))
    assert repr(shaped).count("Lexeme(") == lexemes


def test_spaces_that_may_swallow_the_line_break_are_taken_apart() -> None:
    grammar = compiled('root ::= item+ | "(" root ")"\nitem ::= [a-z] ws "\\n"\nws ::= [ \\n]*')
    assert drawable(grammar, "a \n\n\nb\n")
    assert drawable(grammar, "(a\n)")
    assert not drawable(grammar, "a b\n")
