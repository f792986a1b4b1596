import json

import llguidance
import pytest

from segue.distributed.request.constraint_state import ConstraintState
from segue.distributed.request.grammars import lark
from segue.engine.constraints.compiler import Compiler
from segue.engine.constraints.grammar_text import grammar_text
from segue.engine.constraints.vocabulary import Vocabulary
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint, Trigger

VOCABULARY = Vocabulary(FakeVocab(), VOCAB_SIZE)
SCHEMA = json.dumps({"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"]})


@pytest.mark.parametrize(
    "constraint",
    [
        Constraint(kind="json_schema", value=SCHEMA),
        Constraint(kind="json_object"),
        Constraint(kind="regex", value="[ab]+"),
        Constraint(kind="choice", value=("a", "b")),
        Constraint(kind="gbnf", value='root ::= "a" | "b"'),
        Constraint(
            kind="gbnf", value='root ::= "a"', triggers=(Trigger("word", "a"),), preserved=("a",)
        ),
        Constraint(kind="gbnf", value='root ::= "a" "b"', triggers=(Trigger("pattern", "a"),)),
        Constraint(kind="lark", value='start: "a"'),
        Constraint(kind="lark", value='%llguidance {}\nstart: "a"'),
        Constraint(kind="llguidance", value='{"grammars":[{"lark_grammar":"start: \\"a\\""}]}'),
        Constraint(kind="llguidance", value=f'{{"grammars":[{{"json_schema":{SCHEMA}}}]}}'),
    ],
    ids=lambda constraint: constraint.kind,
)
def test_every_kind_is_one_grammar_in_lark(constraint: Constraint) -> None:
    """As vLLM's guidance backend reads it."""
    written = lark(grammar_text(constraint, VOCABULARY, is_followed=True).text, "grammar")
    read = llguidance.grammar_from("grammar", written)
    assert not llguidance.LLMatcher.validate_grammar(read)
    assert written.count("%llguidance") == 1


def test_several_grammars_are_refused() -> None:
    text = (
        '{"grammars":[{"lark_grammar":"start: @b"},{"name":"b","lark_grammar":"start: \\"b\\""}]}'
    )
    with pytest.raises(InvalidField) as caught:
        lark(text, "grammar")
    assert caught.value.param == "grammar"


def test_the_state_of_a_constraint_sees_the_end() -> None:
    vocab = FakeVocab()
    constraint = Constraint(kind="choice", value=("ab",))
    state = ConstraintState(Compiler(vocab, vocab.size).compile(constraint))
    first, second = vocab.tokenize("ab", False, False)
    assert not state.accept(first)
    assert not state.is_whole
    assert state.accept(second)
    assert state.is_whole


@pytest.mark.parametrize("is_slow", [True, False])
def test_a_witness_gives_up_where_tokens_take_long(
    is_slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was read on the event loop, for seconds: no answer of the server was written meanwhile."""
    vocab = FakeVocab()
    grammar = Compiler(vocab, vocab.size).compile(Constraint(kind="choice", value=("ab",)))
    grammar.lexer.is_slow = is_slow
    state = ConstraintState(grammar)
    assert state.has_given_up == is_slow
    monkeypatch.setattr("segue.distributed.request.constraint_state._SLOW_S", -1.0)
    first, second = vocab.tokenize("ab", False, False)
    assert not state.accept(first)
    assert state.has_given_up
    assert not state.accept(second)
    assert not state.is_whole
    assert not state.allows(second)
