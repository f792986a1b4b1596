"""Lazy grammars through the real compiler, held to a matcher that knows nothing of ours, and to llama.cpp's sampler."""

import random

import pytest
from msgspec.structs import replace

from segue.engine.constraints.compiler import Compiler, Grammar, reason
from segue.errors import InvalidField
from segue.runners.llama.vocab import LlamaVocab
from segue.types import Constraint, ConstraintKind, Trigger
from tests.engine.constraints.guided import allowed
from tests.engine.constraints.lazy.oracle import Read, fitting
from tests.engine.constraints.lazy.random_triggers import RandomLazy, random_lazy
from tests.engine.constraints.tagged import (
    AB,
    ABC,
    CALL,
    END,
    SAY,
    START,
    THINK,
    spelled,
)
from tests.support.llama_grammars import LlamaLazyGrammar


def of(made: Compiler, text: str, *triggers: Trigger, kind: ConstraintKind = "gbnf") -> Grammar:
    named = [
        replace(each, param=f"grammar_triggers[{number}]") for number, each in enumerate(triggers)
    ]
    kept = ("<call>", "<think>")
    return made.compile(
        Constraint(kind=kind, value=text, triggers=tuple(named), preserved=kept, param=kind)
    )


def is_whole(grammar: Grammar, *parts: int | str) -> bool:
    matcher = grammar.matcher.deep_copy()
    given = spelled(*parts)
    return bool(
        matcher.validate_tokens(given) == len(given)
        and (not given or matcher.consume_tokens(given))
        and matcher.is_accepting()
    )


def test_a_text_is_a_trigger_from_its_first_character_on(made: Compiler) -> None:
    grammar = of(made, 'root ::= "<tool>" [a-c]+ "!"', Trigger("word", "<tool>"))
    for good in ("", "any text", "<too", "x <<tool>ab!", "<tool>c!"):
        assert is_whole(grammar, good), good
    for bad in ("<tool>", "x<tool>ab", "<tool>d!", "<tool>ab! more", "<tool>ab!<tool>ab!"):
        assert not is_whole(grammar, bad), bad
    assert is_whole(grammar, "a", SAY, "<to", THINK, "ol>")  # a token's text stands between


def random_words(num: int) -> list[str]:
    """Many begin within others."""
    rng = random.Random(1)
    return ["".join(rng.choices("abcdefghijklmnop", k=8)) for _ in range(num)]


@pytest.mark.parametrize("num", [10, 1000])
def test_words_may_begin_within_each_other(made: Compiler, num: int) -> None:
    """llguidance could look for some ten of them at most, within its fuel."""
    words = random_words(num)
    grammar = of(made, 'root ::= [a-p]+ "!"', *(Trigger("word", word) for word in words))
    for word in words[:: num // 10]:
        for good in (f"x {word}", word[:-1], f"{word[:5]}{word[:-1]}x"):
            assert is_whole(grammar, good) == (good[-len(word) :] != word), good
        assert is_whole(grammar, f"x {word[:3]}{word}abc!")
        assert not is_whole(grammar, f"{word}x!")


def test_more_words_than_are_looked_for_are_refused(made: Compiler) -> None:
    for words, said in (
        (random_words(1001), "there are more than 1000"),
        (["x" * 99 + word for word in random_words(400)], "have more than 32768 characters"),
    ):
        with pytest.raises(InvalidField, match=said):
            of(made, 'root ::= .* "!"', *(Trigger("word", word) for word in words))
    with pytest.raises(InvalidField, match="more than 100; 1000 may be where all are texts"):
        of(made, f"root ::= .* <[{AB}]>", *(Trigger("word", word) for word in random_words(101)))


def test_words_beside_a_pattern_are_told_to_begin_alike(made: Compiler) -> None:
    """llguidance's words asked the caller to raise a limit."""
    triggers = [*(Trigger("word", word) for word in random_words(60)), Trigger("pattern", "x(y)")]
    with pytest.raises(InvalidField, match=r"too much work .*let them begin alike"):
        of(made, 'root ::= [a-z]+ "!"', *triggers)
    assert "raise" not in reason("lexer precomputation failed; either raise a limit or do not ask")


def test_a_word_may_end_within_a_value(made: Compiler) -> None:
    schema = '{"type": "object", "properties": {"name": {"const": "get"}}, "required": ["name"]}'
    grammar = of(made, schema, Trigger("word", '{"name": "g'), kind="json_schema")
    assert is_whole(grammar, 'so {"nam: {"name": "get"}')
    assert not is_whole(grammar, '{"name": "got"}')
    grammar = of(made, 'root ::= root "a" | "b"', Trigger("word", "baa"))
    assert is_whole(grammar, "b baaaa")


def test_a_text_that_is_one_token_is_that_token(made: Compiler) -> None:
    for root in ('"<call>" [a-c]+', "<call> [a-c]+"):
        grammar = of(made, f"root ::= {root}", Trigger("word", "<call>"))
        assert is_whole(grammar, "x<call>y")  # written otherwise it is none
        assert is_whole(grammar, "x", CALL, "ab")
        assert not is_whole(grammar, "x", CALL, "xy")


def test_a_control_token_is_a_trigger_and_its_text_is_part_of_one(made: Compiler) -> None:
    by_token = of(made, 'root ::= "<think>" [a-c]+', Trigger("token", token=THINK))
    by_text = of(made, 'root ::= [a-c]+ "!"', Trigger("pattern", "<think>x([ab])"))
    assert is_whole(by_token, "x", THINK, "abc")
    assert not is_whole(by_token, "x", THINK, "xyz")
    assert is_whole(by_text, START, THINK, "xabc!")
    assert is_whole(by_text, START, "xabc")
    assert not is_whole(by_text, THINK, "xabc")


def test_a_pattern_that_looks_at_the_end_looks_where_a_token_ends(made: Compiler) -> None:
    grammar = of(made, 'root ::= "ab" "!"', Trigger("pattern", "^ab$"))
    assert is_whole(grammar, AB, "!")
    assert not is_whole(grammar, AB, "c")
    assert is_whole(grammar, ABC, "free")
    assert not is_whole(grammar, "ab")  # its second token ends there


def test_a_schema_holds_from_the_part_that_is_given_to_it(made: Compiler) -> None:
    schema = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'
    pattern = Trigger("pattern", r'<json>(\{\s*"a")')
    grammar = of(made, schema, pattern, kind="json_schema")
    assert is_whole(grammar, 'no {"a"} <json>{"b')
    assert is_whole(grammar, 'so: <json>{\n  "a": 12}')
    assert not is_whole(grammar, '<json>{"a": true}')
    assert not is_whole(grammar, '<json>{"a": 1} more')
    grammar = of(made, "", Trigger("pattern", r"(\{)"), kind="json_object")
    assert is_whole(grammar, 'x [1] {"b": [2]}')
    assert not is_whole(grammar, 'x {"b" 1}')


@pytest.mark.parametrize(
    ("text", "trigger", "said"),
    [
        ('root ::= "a"', Trigger("word", ""), "grammar_triggers[0]: it is empty"),
        ('root ::= "a"', Trigger("word", "x" * 300), "it has more than 256 characters"),
        ('root ::= "a"', Trigger("word", "a"), f"'a' is one token of the model, {spelled('a')[0]}, and must be"),
        ('root ::= "a"', Trigger("token", token=9999), "the model has no token 9999"),
        ('root ::= "a"', Trigger("token", token=END), f"the token {END} ends the answer"),
        ('root ::= "a"', Trigger("token", token=AB), "the grammar matches nothing that begins with"),
        ('root ::= "a"', Trigger("word", "xyz"), "the grammar matches nothing that begins with"),
        ('root ::= "a"', Trigger("pattern", "x(a"), "column 2: this group is never closed"),
        ('root ::= "a"', Trigger("pattern", "a*"), "it matches the empty text"),
        ('root ::= "a"', Trigger("pattern", "a{3000}"), "the pattern has more than 2000 parts"),
        ('root ::= "a"', Trigger("pattern", "(?=a$)b"), "look-ahead may hold neither $ nor"),
        ('root ::= "a"', Trigger("word", "\ud800"), "it holds half a character"),
        ('root ::= root "a" | "b"', Trigger("pattern", "ba!"), "gbnf: the rule root leads to itself from the left"),
        (f"root ::= !<[{AB}]> [a-c]", Trigger("word", "c!"), "gbnf: a trigger reads on where the grammar means any"),
        ("root ::= root", Trigger("word", "a!"), "gbnf: no text matches the grammar"),
        ('root ::= "a"', Trigger("pattern", "a[ab]{900}c"), "the triggers"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(made: Compiler, text: str, trigger: Trigger, said: str) -> None:
    with pytest.raises(InvalidField) as refused:
        of(made, text, trigger)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("kind", "text"),
    [("regex", "a"), ("lark", 'start: "a"'), ("grammar", 'start: "a"'), ("choice", "a"), ("structural_tag", "{}")],
)  # fmt: skip
def test_other_constraints_hold_at_once(made: Compiler, kind: ConstraintKind, text: str) -> None:
    with pytest.raises(InvalidField, match="only a grammar in GBNF and a JSON schema can begin"):
        of(made, text, Trigger("pattern", "a"), kind=kind)


def test_a_trigger_must_end_before_a_value_of_the_schema_or_behind_it(made: Compiler) -> None:
    for pattern, said in (
        (r"(\d)", "ends within a name or a value"),
        (r"(\{.*)x", "more than 128"),
    ):
        with pytest.raises(InvalidField, match=said):
            of(
                made,
                '{"type": ["integer", "object"]}',
                Trigger("pattern", pattern),
                kind="json_schema",
            )


class Walk:
    """Token by token through a lazy grammar: ours, the matcher's, llama.cpp's."""

    def __init__(self, own: RandomLazy, made: Compiler, vocab: LlamaVocab) -> None:
        """Raises InvalidField."""
        self._own = own
        self._vocab = vocab
        self._grammar = made.compile(own.constraint)
        pieces = {token: vocab.piece(token).decode(errors="replace") for token in range(vocab.size)}
        # llama.cpp does not let halves of characters come, nor NUL.
        told = {t: text for t, text in pieces.items() if "\ufffd" not in text and text > "\1"}
        self.texts = {token: text for token, text in told.items() if token != END}
        self._controls = frozenset(filter(vocab.is_control, self.texts))
        self.num_steps = self.num_triggered = 0

    def go(self, rng: random.Random, length: int = 9) -> None:
        own = self._own
        with LlamaLazyGrammar(self._vocab, str(own.grammar), own.patterns, own.tokens) as theirs:
            matcher, oracle = self._grammar.matcher.deep_copy(), own.matcher(self._controls)
            read = Read()
            for _ in range(length):
                fits = fitting(oracle, read, self.texts)
                assert allowed(matcher, self.texts) == fits.keys(), str(own)
                assert matcher.is_accepting() == (read.stacks is None or () in read.stacks)
                self._compare(theirs, read, fits)
                token = self._chosen(rng, read, fits)
                if token is None:
                    return
                self.num_steps += 1
                self.num_triggered += read.stacks is None and fits[token].stacks is not None
                read = fits[token]
                theirs.accept([token])
                assert matcher.consume_tokens([token])

    def _compare(self, theirs: LlamaLazyGrammar, read: Read, fits: dict[int, Read]) -> None:
        """llama.cpp lets everything come before the trigger, and fails if it does not fit then."""
        allowed = theirs.allowed()
        if read.stacks is None:
            assert len(allowed) == self._vocab.size
            return
        mistaken = {
            token
            for token, text in self.texts.items()
            if self._own.grammar.is_mistaken(read.stacks, token, text)
        }
        text = self.texts.keys() - self._controls
        assert allowed & text == (fits.keys() | mistaken) & text, str(self._own)

    def _chosen(self, rng: random.Random, read: Read, fits: dict[int, Read]) -> int | None:
        """One that does the same in llama.cpp, which looks for triggers after each token; now and then it is one."""
        oracle = self._own.matcher(self._controls)
        alike = fitting(oracle, read, {t: self.texts[t] for t in fits}, by_token=True)
        same = [token for token, after in alike.items() if after == fits[token]]
        if read.stacks is not None:  # there a control token may be meant by its text as well
            spelled = self._own.grammar.spelled
            same = [
                token
                for token in same
                if token not in self._controls or not spelled(read.stacks, self.texts[token])
            ]
        fired = [token for token in same if fits[token].stacks is not None]
        if read.stacks is None and fired and rng.random() < 0.3:
            same = fired
        told = [token for token in same if set(self.texts[token]) <= set("abcx \n<") or token > 255]
        return rng.choice(told or same) if same else None


@pytest.mark.parametrize("seed", range(5))
def test_random_lazy_grammars(made: Compiler, vocab: LlamaVocab, seed: int) -> None:
    rng = random.Random(seed)
    num_compiled = num_steps = num_triggered = 0
    for _ in range(20):
        own = random_lazy(rng, vocab)
        try:
            walk = Walk(own, made, vocab)
        except InvalidField:
            continue
        num_compiled += 1
        for _ in range(2):
            walk.go(rng)
        num_steps += walk.num_steps
        num_triggered += walk.num_triggered
    assert num_compiled >= 10
    assert num_steps > 150
    assert num_triggered > 4
