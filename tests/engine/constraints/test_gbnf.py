import pytest

from segue.engine.constraints import gbnf
from segue.engine.constraints.grammar import (
    ANY,
    EMPTY,
    Chars,
    Either,
    GrammarError,
    Literal,
    Ref,
    Repeat,
    Rules,
    Seq,
)
from segue.engine.constraints.lark_text import to_lark
from segue.engine.constraints.tokens import TokenSets

DOCUMENTED = (
    "root ::= expr\nexpr ::= term (('+' | '-') term)*\n"
    "term ::= factor (('*' | '/') factor)*\nfactor ::= [0-9]+ | '(' expr ')'"
)


def parse(text: str) -> Rules:
    return gbnf.parse(text, TokenSets(None))


def test_the_documented_grammar() -> None:
    rules = parse(DOCUMENTED)
    assert rules["factor"] == Either(
        (
            Repeat(Chars(((48, 57),)), 1, None),
            Seq((Literal("("), Ref("expr"), Literal(")"))),
        )
    )


@pytest.mark.parametrize(
    ("body", "node"),
    [
        ('"a\\n\\"\\\\\\x41\\u00e9\\U0001F600"', Literal('a\n"\\Aé😀')),
        ("'it\"s \\''", Literal("it\"s '")),
        ('""', EMPTY),
        ("", EMPTY),
        (".", ANY),
        ("[a-c]", Chars(((97, 99),))),
        ("[-a]", Chars(((45, 45), (97, 97)))),
        ("[a-]", Chars(((45, 45), (97, 97)))),
        ("[\\]\\[]", Chars(((91, 91), (93, 93)))),
        ("[^\\x00-\\uD7FE]", Chars(((0xD7FF, 0xD7FF), (0xE000, 0x10FFFF)))),
        ('"a"{3}', Repeat(Literal("a"), 3, 3)),
        ('"ab"? {2}+', Repeat(Repeat(Repeat(Literal("ab"), 0, 1), 2, 2), 1, None)),
        ('"a"{3,}', Repeat(Literal("a"), 3, None)),
        ('"a"{ 0 , 2 }', Repeat(Literal("a"), 0, 2)),
        ('"a" | # one\n  "b"\n  | "c"', Either((Literal("a"), Literal("b"), Literal("c")))),
        ('(\n  "a"\n  "b" # two\n)', Seq((Literal("a"), Literal("b")))),
        ('| "a"', Either((EMPTY, Literal("a")))),
        ("my-rule_2", Ref("my-rule_2")),
    ],
)
def test_syntax(body: str, node: object) -> None:
    assert parse(f'root ::= {body}\n\nmy-rule_2 ::= "x"\n')["root"] == node


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('root::="', "line 1, column 8: this quote is never closed"),
        ("root ::= [", "never closed"),
        ('root ::= "\\x', "hexadecimal"),
        ('root ::= "\\q"', "unknown escape"),
        ('root ::= "\\uD800"', "no such character"),
        ("root ::= a{", "expected a number"),
        ('root ::= "a"{2,1}', "fewer"),
        ('root ::= "a"{1000000}', "repetitions"),
        ('root ::= "a"' + "*" * 101, "more than 100 signs of repetition"),
        ('root ::= "a\0"', "NUL"),
        ('root ::= ("a"', "parenthesis"),
        ('root ::= "a")', "unexpected ')'"),
        ("root ::= [z-a]", "ends before it begins"),
        ("root ::= nope", "not defined"),
        ("other ::= other", "no rule named root"),
        ("", "no rule named root"),
        ('root ::= "a"\nroot ::= "b"', "line 2, column 1: rule root is defined twice"),
        ("root = a", "expected ::="),
        ('::= "a"', "expected the name"),
        ("root ::= <think>", "line 1, column 10: it speaks of tokens, and no model's are known"),
        ("root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000, "nested"),
        ("root ::= " + "(" * 60_000, "nested"),
        ("root ::= r0\n" + "".join(f"r{i} ::= r{i + 1}\n" for i in range(5000)), "rules"),
    ],
)
def test_mistakes_are_named_with_their_place(text: str, words: str) -> None:
    with pytest.raises(GrammarError, match=words.replace("(", "\\(").replace(")", "\\)")):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "root ::= root",
        "root ::= a\na ::= root",
        'root ::= "" root',
        'root ::= root "a"?',
        'root ::= "a" root "b"',
        'root ::= "x" a\na ::= "y" b\nb ::= a a',
    ],
)
def test_a_grammar_without_an_end_is_refused(text: str) -> None:
    with pytest.raises(GrammarError, match="no text matches"):
        to_lark(parse(text))


@pytest.mark.parametrize("text", ["root ::= root?", 'root ::= root root | "a"'])
def test_recursion_that_can_end_is_fine(text: str) -> None:
    assert "start:" in to_lark(parse(text))
