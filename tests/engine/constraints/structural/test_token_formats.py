"""Formats of tokens, token by token against a matcher that knows nothing of grammars."""

import json
from typing import Any

import pytest

from segue.engine.constraints.compiler import Compiler, Grammar
from segue.engine.constraints.guide import Guide
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint
from tests.engine.constraints.guided import is_prefix
from tests.engine.constraints.structural.oracle import NUMBER, Format, accepts_tokens
from tests.engine.constraints.structural.random_formats import MERGED, TokenFormats


class Words(FakeVocab):
    """Beside the bytes two words, and a second token for one letter."""

    texts = (*(word.encode() for word in MERGED), b"z")
    size = VOCAB_SIZE + len(texts)

    def piece(self, token: int) -> bytes:
        return super().piece(token) if token < VOCAB_SIZE else self.texts[token - VOCAB_SIZE]

    def is_control(self, token: int) -> bool:
        return 256 <= token < VOCAB_SIZE


WORDS = Words()
COMPILER = Compiler(WORDS, WORDS.size)
FIRST, SECOND, THIRD, WORD = 258, 259, 260, MERGED["ab"]
ANY = {"type": "any_text"}
NUM = {"type": "json_schema", "json_schema": NUMBER}


def of(own: Format) -> Grammar:
    value = json.dumps({"type": "structural_tag", "format": own})
    return COMPILER.compile(Constraint(kind="structural_tag", value=value, param="it"))


def token(named: int | str) -> Format:
    return {"type": "token", "token": named}


def tag(begin: Any, content: Format, end: Any) -> Format:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def sequence(*elements: Format) -> Format:
    return {"type": "sequence", "elements": list(elements)}


def is_whole(grammar: Grammar, *tokens: int | str) -> bool:
    """Texts stand for their bytes."""
    matcher = grammar.matcher.deep_copy()
    given = [t for each in tokens for t in (each.encode() if isinstance(each, str) else [each])]
    return bool(
        matcher.validate_tokens(given) == len(given)
        and (not given or matcher.consume_tokens(given))
        and matcher.is_accepting()
    )


def test_a_token_is_not_the_text_that_it_has() -> None:
    assert is_whole(of(token(WORD)), WORD)
    assert is_whole(of(token("ab")), WORD)
    assert not is_whole(of(token("ab")), "ab")
    assert is_whole(of(token("<|fim_prefix|>")), FIRST)
    assert not is_whole(of(token(FIRST)), "<|fim_prefix|>")


def test_of_tokens_with_one_text_each_is_fine() -> None:
    grammar = of(sequence(token("z"), token("z")))
    assert is_whole(grammar, "z", WORDS.size - 1)
    assert not is_whole(grammar, "z", "a")


def test_free_text_ends_with_a_token_that_is_named() -> None:
    grammar = of(tag(token(FIRST), ANY, token(WORD)))
    assert is_whole(grammar, FIRST, "ab c", WORD)
    assert is_whole(grammar, FIRST, WORD)
    assert not is_whole(grammar, FIRST, WORD, WORD)
    assert not is_whole(grammar, FIRST, THIRD, WORD)  # no text


def test_any_tokens_are_counted() -> None:
    grammar = of({"type": "any_tokens", "max_tokens": 2, "exclude_tokens": ["z", THIRD]})
    for good in ([], [WORD], [WORD, FIRST]):
        assert is_whole(grammar, *good)
    for bad in ([WORD] * 3, ["z"], [WORDS.size - 1], [THIRD]):
        assert not is_whole(grammar, *bad)


def test_a_token_that_ends_an_answer_is_not_any_token() -> None:
    grammar = of(tag(token(FIRST), {"type": "any_tokens"}, token(SECOND)))
    assert is_whole(grammar, FIRST, THIRD, WORD, SECOND)
    assert not is_whole(grammar, FIRST, 256, SECOND)


def test_after_a_trigger_its_tag_must_follow() -> None:
    tags = [tag(token(FIRST), NUM, token(SECOND))]
    own = {"type": "token_triggered_tags", "trigger_tokens": [FIRST], "tags": tags}
    grammar = of(own)
    assert is_whole(grammar, "x", THIRD, FIRST, "12", SECOND, WORD, FIRST, "7", SECOND)
    assert not is_whole(grammar, FIRST, SECOND)
    assert not is_whole(grammar, FIRST, "x")
    once = of(own | {"at_least_one": True, "stop_after_first": True})
    assert is_whole(once, FIRST, "12", SECOND)
    assert not is_whole(once, "x", FIRST, "12", SECOND)
    assert not is_whole(once, FIRST, "12", SECOND, "x")


def test_a_guide_forces_a_token_that_must_come() -> None:
    grammar = of(sequence(token(FIRST), token(WORD), {"type": "const_string", "value": "xy"}))
    guide = Guide(grammar)
    read: list[int] = []
    while guide.forced:
        read.append(guide.forced[0])
        if guide.accept(read[-1]):
            break
    assert read == [FIRST, WORD, *b"xy"]
    assert is_prefix(grammar, [FIRST, WORD], WORDS.size)
    assert not is_prefix(grammar, [FIRST, *b"ab"], WORDS.size)


@pytest.mark.parametrize("seed", range(4))
def test_random_formats(seed: int) -> None:
    formats = TokenFormats(seed)
    num_compiled = num_accepted = 0
    for _ in range(60):
        own = formats.format(formats.rng.randint(1, 3))
        try:
            grammar = of(own)
        except InvalidField:
            continue
        num_compiled += 1
        for _ in range(8):
            tokens = formats.tokens(formats.text(own))
            expected = accepts_tokens(own, tokens)
            num_accepted += expected
            assert is_whole(grammar, *(t for t, _ in tokens)) == expected, (own, tokens)
    assert num_compiled > 25
    assert num_accepted > 60


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (token(256), "format: the token 256 ends the answer"),
        (token("<|endoftext|>"), "format: the token '<|endoftext|>' ends the answer"),
        (token(9999), "format: the model has no token 9999"),
        (token(-1), "format: the model has no token -1"),
        (token("nope"), "format: the model has no token 'nope'"),
        ({"type": "token", "token": 1.5}, "format.token: Expected `int | str`"),
        ({"type": "any_tokens", "exclude_tokens": ["a", "nope"]}, "format: the model has no token"),
        ({"type": "any_tokens", "max_tokens": 200_000}, "format: max_tokens may be at most 100000"),
        (
            {"type": "exclude_token", "exclude_tokens": list(range(WORDS.size))},
            "format: all tokens are excluded",
        ),
        (tag("<", {"type": "any_tokens"}, ">"), "format.content: where this token may come"),
        (sequence(ANY, {"type": "exclude_token"}), "format.elements[1]: where this token may come"),
        (
            {"type": "or", "elements": [{"type": "exclude_token"}, token(FIRST)]},
            "format.elements[0]: where this token may come",
        ),
        (tag({"type": "tag"}, ANY, ">"), "format.begin: the type must be token, not 'tag'"),
        (tag("<", ANY, {"type": "token"}), "format.end: Object missing required field `token`"),
        (
            {"type": "token_triggered_tags", "trigger_tokens": [1], "tags": [tag("a", ANY, "b")]},
            "format.tags[0].begin: it must be a token",
        ),
        (
            {
                "type": "token_triggered_tags",
                "trigger_tokens": [FIRST],
                "tags": [tag(token(SECOND), ANY, "b")],
            },
            "format.tags[0].begin: no trigger is the token 259",
        ),
        (
            {"type": "triggered_tags", "triggers": ["a"], "tags": [tag(token(1), ANY, "b")]},
            "format.tags[0].begin: it must be a text",
        ),
        ({"type": "token_dispatch", "rules": [["nope", ANY]]}, "format.rules[0][0]: the model has"),
    ],
)
def test_what_is_refused_is_named_with_its_place(own: Format, said: str) -> None:
    with pytest.raises(InvalidField) as refused:
        of(own)
    assert said in refused.value.message
