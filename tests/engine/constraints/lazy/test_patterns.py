import re

import pytest

from segue.engine.constraints.grammar import ANY, Chars, GrammarError, Literal, Ref, Repeat, Seq
from segue.engine.constraints.lazy import patterns
from segue.engine.constraints.lazy.patterns import Ahead, Group, Shortest


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("a", Literal("a")),
        ("(a)", Group((Literal("a"),), number=1)),
        ("(?:a)", Literal("a")),
        ("a+?", Shortest(Literal("a"), 1, None)),
        ("a+", Repeat(Literal("a"), 1, None)),
        ("(?=a)", Ahead((Literal("a"),))),
        ("(?!a)", Ahead((Literal("a"),), is_wanted=False)),
        (r"\s", Chars(((9, 13), (32, 32)))),
        (r"[\s\S]", ANY),
        (".", Chars(((0, 9), (11, 12), (14, 0xD7FF), (0xE000, 0x10FFFF)))),
        (r"a[\s\S]*$", Seq((Literal("a"),))),
        ("a$", Seq((Literal("a"), Ref("$")))),
    ],
)
def test_what_is_read(text: str, node: object) -> None:
    assert patterns.read(text) == node


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(a", "column 1: this group is never closed"),
        ("a)", "column 2: unexpected )"),
        (r"(a)\1", r"\1 is not supported"),
        (r"\bx", r"\b is not supported"),
        ("(?<=a)x", "this kind of group is not supported"),
        ("*a", "* has nothing to repeat"),
        ("a" * 5000, "more than 4096 characters"),
    ],
)
def test_mistakes_are_named(text: str, said: str) -> None:
    with pytest.raises(GrammarError, match=re.escape(said)):
        patterns.read(text)


@pytest.mark.parametrize(
    ("text", "whole"),
    [("", "^$"), ("a", "^a$"), ("^a", "^a$"), ("a$", "^a$"), ("a|b", "^a|b$"), (r"a\$", r"^a\$")],
)
def test_a_pattern_of_the_whole_output(text: str, whole: str) -> None:
    """As llama.cpp writes it, which looks at the first and last character only."""
    assert patterns.anchored(text) == whole


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("(a)(b)", {1, 2}),
        ("(a)?(b)", {2}),
        ("(a*)(b)", {2}),
        ("(?:(a)|(b))", set()),
        ("(?:(a)|(b)(c))(d)+", {4}),
        ("((a)|b)", {1}),
        ("(?=(a))b", set()),
    ],
)
def test_groups_that_have_text_in_every_match(text: str, sure: set[int]) -> None:
    assert patterns.sure_groups(patterns.read(text)) == sure
