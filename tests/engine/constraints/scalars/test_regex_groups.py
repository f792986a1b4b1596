"""Groups of regular expressions: what they capture has no use, and must not change what matches."""

import random
import re

import pytest

from segue.engine.constraints.compiler import Compiler
from segue.engine.constraints.scalars.regex_groups import uncaptured, without_lookahead
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from tests.engine.constraints.guided import is_whole, regex


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    return Compiler(FakeVocab(), VOCAB_SIZE)


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("true|tr(ue)", "true|tr(?:ue)"),
        ("((a)(?:b)|(?i:c))", "(?:(?:a)(?:b)|(?i:c))"),
        ("(?P<name>a)(?<stop>b)(?i)c", "(?:a)(?:b)(?i)c"),
        (r"\((a\)\\(b))", r"\((?:a\)\\(?:b))"),
        ("[(](a)[^(]", "[(](?:a)[^(]"),
        ("[](](a)[^](](b)", "[](](?:a)[^](](?:b)"),
        ("[[:alpha:](](a)[a&&[^(]](b)", "[[:alpha:](](?:a)[a&&[^(]](?:b)"),
        (r"[\](](a)](b)", r"[\](](?:a)](?:b)"),
        ("[-](a)[^-](b)", "[-](?:a)[^-](?:b)"),
        ("(?x)[a] # [\n(b)", "(?x)[a] # [\n(b)"),
        ("(a", "(?:a"),
        ("(?P<a", "(?P<a"),
        ("a(?<=b)(?<!c)(?=d)", "a(?<=b)(?<!c)(?=d)"),
    ],
)
def test_no_group_captures(source: str, written: str) -> None:
    assert uncaptured(source) == written


def test_only_a_group_that_would_be_look_ahead_is_changed() -> None:
    source = r"(a)(?P<stop>b)(?<stop>c)(?P<stopped>d)[(?P<stop>]"
    assert without_lookahead(source) == r"(a)(?:b)(?:c)(?P<stopped>d)[(?P<stop>]"


def test_a_group_of_that_name_holds_text_like_others(compiler: Compiler) -> None:
    """What stood in it was cut short: "abb" was not accepted, and an answer ended after one b."""
    grammar = compiler.compile(regex("a(?P<stop>b+)"))
    assert [is_whole(grammar, text) for text in ("a", "ab", "abb")] == [False, True, True]


def spelt(rng: random.Random, text: str) -> str:
    """An expression of this text alone."""
    if len(text) > 1 and rng.random() < 0.7:
        cut = rng.randrange(1, len(text))
        whole = spelt(rng, text[:cut]) + spelt(rng, text[cut:])
    else:
        whole = f"[{text}]" if len(text) == 1 and rng.random() < 0.3 else re.escape(text)
    opening = rng.choice(["(", "(?:", f"(?P<n{rng.randrange(10**9)}>"])
    return f"{opening}{whole})" if rng.random() < 0.5 else whole


@pytest.mark.parametrize("seed", range(60))
def test_one_text_in_many_ways(compiler: Compiler, seed: int) -> None:
    """The compiler fails on a third of them as they stand."""
    rng = random.Random(seed)
    text, other = ("".join(rng.choices("ab(é", k=rng.randint(2, 7))) for _ in range(2))
    ways = [spelt(rng, text), spelt(rng, text), spelt(rng, other), spelt(rng, other + text)]
    source = rng.choice(["%s", "(%s)[0-9]", "x(%s)y", "(%s)+"]) % "|".join(ways)
    grammar = compiler.compile(regex(source))
    pattern = re.compile(source)
    for begin in ("", "x"):
        for middle in (text, other, text[:-1]):
            for end in ("", "1", "y", text, other):
                whole = begin + middle + end
                assert is_whole(grammar, whole) == bool(pattern.fullmatch(whole)), source
