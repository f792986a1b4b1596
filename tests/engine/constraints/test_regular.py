"""What is found out of rules before they are written: which of them match one text alone."""

import random
import string
from itertools import pairwise

import pytest

from segue.engine.constraints.compiler import Compiler
from segue.engine.constraints.grammar import Chars, Either, Literal, Node, Ref, Repeat, Seq
from segue.engine.constraints.regular import constant, constant_rules, joined
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint
from tests.engine.constraints.guided import is_whole

A, AB = Literal("a"), Literal("ab")
LETTERS = Chars(((ord("a"), ord("z")),))


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    return Compiler(FakeVocab(), VOCAB_SIZE)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (AB, "ab"),
        (Chars(((ord("é"), ord("é")),)), "é"),
        (LETTERS, None),
        (Seq((A, AB)), "aab"),
        (Seq((A, LETTERS)), None),
        (Either((AB, Seq((A, Literal("b"))))), "ab"),
        (Either((A, AB)), None),
        (Repeat(A, 2, 2), None),
        (Ref("known"), "k"),
        (Ref("other"), None),
        (Seq(()), ""),
        (Seq((Literal("a" * 40), Literal("b" * 40))), None),
    ],
)
def test_what_matches_one_text_alone(node: Node, text: str | None) -> None:
    assert constant(node, {"known": "k"}) == text


def test_rules_that_use_such_rules_and_none_that_doubles_without_end() -> None:
    names = ["root", *(f"r{n}" for n in range(2000))]
    rules: dict[str, Node] = {
        name: Seq((Ref(after), Ref(after))) for name, after in pairwise(names)
    }
    rules |= {"r1999": A, "loop": Seq((Ref("loop"), A))}
    assert {len(text) for text in constant_rules(rules).values()} == {1, 2, 4, 8, 16, 32, 64}


def test_neighbours_are_one_literal_if_that_is_short() -> None:
    assert list(joined(Seq((A, AB, LETTERS, A, A)), {})) == [Literal("aab"), LETTERS, Literal("aa")]
    long = Literal("x" * 64)
    assert list(joined(Seq((long, A)), {})) == [long, A]


def spelt(rng: random.Random, text: str, depth: int = 3) -> str:
    """A grammar of this text alone, or with some others."""
    if depth == 0 or len(text) < 2 or rng.random() < 0.2:
        return f'"{text}"' if len(text) != 1 or rng.random() < 0.5 else f"[{text}]"
    if rng.random() < 0.4:
        return f"({spelt(rng, text, depth - 1)} | {spelt(rng, text, depth - 1)})"
    cut = rng.randrange(1, len(text))
    return f"({spelt(rng, text[:cut], depth - 1)} {spelt(rng, text[cut:], depth - 1)})"


@pytest.mark.parametrize("seed", range(40))
def test_one_text_in_many_ways(compiler: Compiler, seed: int) -> None:
    rng = random.Random(seed)
    text = "".join(rng.choices("abé", k=rng.randint(2, 8)))
    rule = spelt(rng, text)
    ways = [spelt(rng, text), "r", f'"{text}"', f"{spelt(rng, text)} [0-9]", f'"{text}" [0-9]']
    rng.shuffle(ways)
    before = rng.choice(["", "[xy] "])
    written = f"root ::= {before}({' | '.join(ways)})\nr ::= {rule}\n"
    grammar = compiler.compile(Constraint(kind="gbnf", value=written))
    begin = "x" if before else ""
    for number in ("", *string.digits):
        assert is_whole(grammar, begin + text + number), written
    assert not is_whole(grammar, begin + text[:-1])
