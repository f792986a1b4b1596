"""Structural tags, character by character against a matcher that knows nothing of grammars."""

import json
import time
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from segue.engine.constraints.compiler import Compiler, Grammar
from segue.engine.constraints.structural.formats import MAX_DEPTH, MAX_FORMATS
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint
from tests.engine.constraints.guided import is_whole
from tests.engine.constraints.structural.oracle import NUMBER, PAIR, Format, accepts
from tests.engine.constraints.structural.random_formats import Formats
from tests.support.waiting import SOON_S

COMPILER = Compiler(FakeVocab(), VOCAB_SIZE)
ANY = {"type": "any_text"}
NUM = {"type": "json_schema", "json_schema": NUMBER}
OBJECT = {"type": "json_schema", "json_schema": PAIR}


def compiled(value: Format) -> Grammar:
    return COMPILER.compile(Constraint(kind="structural_tag", value=json.dumps(value), param="it"))


def of(own: Format) -> Grammar:
    return compiled({"type": "structural_tag", "format": own})


def text(value: str) -> Format:
    return {"type": "const_string", "value": value}


def tag(begin: str, content: Format, end: Any) -> Format:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def triggered(triggers: list[str], *tags: Format, **options: Any) -> Format:
    return {"type": "triggered_tags", "triggers": triggers, "tags": list(tags), **options}


def several(kind: str, *elements: Format) -> Format:
    return {"type": kind, "elements": list(elements)}


F = tag("<f=a>", OBJECT, "</f>")
G = tag("<f=b>", NUM, "</f>")
SEPARATED = {"type": "tags_with_separator", "tags": [F, G], "separator": ", "}

CASES: list[tuple[Format, list[str], list[str]]] = [
    (text('a"\n'), ['a"\n'], ["", "a", 'a"\nb']),
    (OBJECT, ['{"a":1}', '{"a": "x"}'], ["{}", ' {"a":1}', '{"a":1} ', '{"a":2}']),
    ({"type": "regex", "pattern": "a+|b"}, ["aa", "b"], ["", "ab", "ba"]),
    (ANY, ["", "a\né<"], []),
    (ANY | {"excludes": ["ab", "c"]}, ["", "a", "ba", "aab"[:2]], ["ab", "aab", "c", "xcx"]),
    (ANY | {"max_chars": 2}, ["", "é\n"], ["abc"]),
    (several("sequence", text("a"), ANY, text("end")), ["aend", "aendend"], ["aen", "end"]),
    (several("or", text("none"), OBJECT), ["none", '{"a":1}'], ["", "n", 'none{"a":1}']),
    ({"type": "optional", "content": text("ab")}, ["", "ab"], ["a", "abab"]),
    ({"type": "star", "content": text("ab")}, ["", "abab"], ["a", "aba"]),
    ({"type": "plus", "content": text("ab")}, ["ab", "abab"], ["", "aba"]),
    ({"type": "repeat", "min": 1, "max": 2, "content": OBJECT}, ['{"a":1}{"a":1}'], [""]),
    ({"type": "repeat", "min": 2, "max": -1, "content": text("a")}, ["aa", "aaaa"], ["a"]),
    (tag("<t>", ANY, "</t>"), ["<t></t>", "<t>a</t</t>"], ["<t>", "<t>a</t>b", "<t></t></t>"]),
    (tag("<", ANY, [">", "!"]), ["<a>", "<a!"], ["<a", "<a!>"]),
    (tag("<", text("a"), [">", ""]), ["<a>", "<a"], ["<", "<a>>"]),
    (tag("(", triggered(["<f"], F), ")"), ['(x<f=a>{"a":1}</f>y)', "()"], ["(", "(a)b", "(<f)"]),
    (triggered(["<f="], F, G), ["", "a <f", 'x<f=a>{"a":1}</f>y<f=b>7</f>'], ["<f=", "<f=b>x"]),
    (triggered(["<f="], F, G, at_least_one=True), ["<f=b>7</f> y <f=b>8</f>"], ["", "x<f=b>7</f>"]),
    (triggered(["<f="], G, stop_after_first=True), ["x", "x<f=b>7</f>"], ["x<f=b>7</f>y"]),
    (
        triggered(["<f="], G, stop_after_first=True, at_least_one=True),
        ["<f=b>7</f>"],
        ["", "x<f=b>7</f>", "<f=b>7</f>y"],
    ),
    (triggered(["<f="], G, excludes=["no"]), ["n", "n<f=b>1</f>o"], ["no", "xnox<f=b>1</f>"]),
    (SEPARATED, ["", "<f=b>1</f>, <f=b>2</f>"], ["x", "<f=b>1</f>, ", "<f=b>1</f><f=b>2</f>"]),
    (SEPARATED | {"at_least_one": True}, ["<f=b>1</f>"], [""]),
    (SEPARATED | {"stop_after_first": True}, ["", "<f=b>1</f>"], ["<f=b>1</f>, <f=b>1</f>"]),
    ({"type": "dispatch", "rules": [["#", OBJECT]]}, ["a", 'x#{"a":1} y'], ["#", "#a"]),
    ({"type": "dispatch", "rules": [["#", NUM]], "loop": False}, ["a", "x#7"], ["#", "#7y"]),
    (several("sequence", triggered(["#"], tag("#", NUM, ";")), text("end")), ["#1;end"], ["end."]),
]


@pytest.mark.parametrize(("own", "good", "bad"), CASES)
def test_each_kind(own: Format, good: list[str], bad: list[str]) -> None:
    grammar = of(own)
    for sample in good + bad:
        for length in range(len(sample) + 1):
            assert is_whole(grammar, sample[:length]) == accepts(own, sample[:length]), sample
    assert [is_whole(grammar, sample) for sample in good + bad] == [True] * len(good) + [
        False
    ] * len(bad)


def test_a_grammar() -> None:
    grammar = of(tag("<", {"type": "grammar", "grammar": 'root ::= "(" root ")" | [a-z]'}, ">"))
    assert is_whole(grammar, "<((a))>")
    assert not is_whole(grammar, "<((a)>")


def test_two_grammars_do_not_share_their_rules() -> None:
    one, other = 'root ::= x\nx ::= "a" x | "b"', 'root ::= x x\nx ::= "c"'
    inner = [{"type": "grammar", "grammar": own} for own in (one, other)]
    assert is_whole(of(several("sequence", *inner)), "aabcc")


def spaced(most: int) -> Format:
    return {"type": "json_schema", "json_schema": {"type": "array"}, "max_whitespace_cnt": most}


@pytest.mark.parametrize(
    ("most", "good", "bad"),
    [(0, "[1,2]", "[1, 2]"), (1, "[1, 2]", "[1,  2]"), (2, "[1,\n 2]", "[1,\n  2]")],
)
def test_white_space_has_a_limit(most: int, good: str, bad: str) -> None:
    grammar = of(spaced(most))
    assert is_whole(grammar, good)
    assert not is_whole(grammar, bad)


def test_properties_come_in_any_order_and_as_often_as_in_order() -> None:
    inner = {"properties": {"x": {"const": 1}, "y": {"const": 2}}, "additionalProperties": False}
    schema = {"properties": {"a": {"const": 1}, "b": inner}, "required": ["a", "b"]}
    closed = schema | {"additionalProperties": False}
    opened = schema | {"additionalProperties": {"type": "null"}}
    ordered = {"type": "json_schema", "any_order": True}
    a, b, free = '"a":1', '"b":{"y":2,"x":1}', '"z":null'

    def text(*parts: str) -> str:
        return "{" + ",".join(parts) + "}"

    for own, good in ((closed, permutations([a, b])), (opened, permutations([a, b, free, free]))):
        grammar = of(ordered | {"json_schema": own})
        for parts in good:
            assert is_whole(grammar, text(*parts)), parts
        for bad in ([a], [b], [], [a, a, b], [a, b, b], [b, free, a, a]):
            assert not is_whole(grammar, text(*bad)), bad
    many = {"properties": {name: {} for name in "abcdefgh"}, "additionalProperties": False}
    assert is_whole(of(ordered | {"json_schema": many}), '{"a":1,"h":2}')
    small = schema | {"properties": {"a": {"const": 1}, "b": {"const": 2}}}
    tags = [tag(f"<{i}>", ordered | {"json_schema": small}, ";") for i in range(17)]
    grammar = of(triggered(["<"], *tags))  # too many for any order
    assert is_whole(grammar, '<16>{"a":1,"b":2};')
    assert not is_whole(grammar, '<16>{"b":2,"a":1};')


def test_what_is_excluded_stands_in_no_string_and_no_name() -> None:
    enum = {"type": "array", "items": {"enum": ["<a", "b", "c"]}, "uniqueItems": True}
    listed = {"type": ["integer", "string"]}
    schema = {"properties": {"e": enum, "s": listed, "<a>": {}}, "additionalProperties": listed}
    grammar = of({"type": "json_schema", "json_schema": schema, "excludes": ["<a", "no"]})
    for good in ('{"e":["c","b"]}', '{"e":[],"s":"<","x":"n"}', '{"s":"n"}', '{"s":5}'):
        assert is_whole(grammar, good)
    for bad in ('{"e":["<a"]}', '{"s":"x<a"}', '{"no":"x"}', '{"x":"nono"}', '{"<a>":5}'):
        assert not is_whole(grammar, bad)


def test_of_ends_that_overlap_the_first_counts() -> None:
    grammar = of(triggered(["```"], tag("```x\n", ANY, "```")))
    assert is_whole(grammar, "a ```x\nb``` c")
    assert is_whole(grammar, "```x\nb````")  # a tag, and a text of one character
    assert not is_whole(grammar, "```x\nb``")


# --- random formats -----------------------------------------------------------------------------


def walk(grammar: Grammar, formats: Formats) -> str | None:
    """A text drawn from what the mask allows; None if it had not ended after some characters."""
    matcher = grammar.matcher.deep_copy()
    read: list[int] = []
    for _ in range(40):
        if matcher.is_accepting() and formats.maybe():
            return bytes(read).decode()
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        allowed = np.unpackbits(bits, bitorder="little")[:128].nonzero()[0]
        likely = [int(token) for token in allowed if chr(token) in 'ab<>c1{}":']
        if not likely:
            return bytes(read).decode() if matcher.is_accepting() else None
        read.append(formats.rng.choice(likely))
        matcher.consume_token(read[-1])
    return None


@pytest.mark.parametrize("seed", range(6))
def test_random_formats(seed: int) -> None:
    formats = Formats(seed)
    num_compiled = num_drawn = num_accepted = 0
    for _ in range(40):
        own = formats.format(formats.rng.randint(1, 3))
        try:
            grammar = of(own)
        except InvalidField:
            continue
        num_compiled += 1
        for _ in range(8):
            sample = formats.text(own)
            expected = accepts(own, sample)
            num_accepted += expected
            assert is_whole(grammar, sample) == expected, (own, sample)
            drawn = walk(grammar, formats)
            if drawn is not None:
                num_drawn += 1
                assert accepts(own, drawn), (own, drawn)
    assert num_compiled > 28
    assert min(num_drawn, num_accepted) > 60


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"type": "json_schema", "json_schema": {}, "excludes": [""]}, "must not be empty"),
        ({"type": "regex", "pattern": "^(?=a)[ab]"}, "format: look-ahead is not supported here"),
        (ANY | {"max_tokens": 3}, "format: max_tokens is not supported; max_chars is"),
        (ANY | {"exclude": ["a"]}, "unknown field `exclude`"),
        (ANY | {"excludes": [""]}, "must not be empty"),
        (ANY | {"excludes": ["a" * 3000]}, "more than 2000 characters"),
        ({"type": "qwen_parameter"}, "format: the type must be one of const_"),
        (several("or", text("a"), {"type": ["x"]}), "format.elements[1]: the type must be one of"),
        (several("or", text("a"), {"type": "const_string"}), "format.elements[1]: Object missing"),
        (several("or"), "format.elements: Expected `array` of length >= 1"),
        (several("or", ANY | {"excludes": ["a", 5]}), "format.elements[0].excludes[1]: Expected"),
        (
            several("sequence", {"type": "json_schema", "json_schema": {"type": "x"}}),
            "elements[0]: at #",
        ),
        (tag("a", {"type": "regex", "pattern": "(a"}, "b"), "format.content: the pattern '(a'"),
        (tag("a", {"type": "grammar", "grammar": "root ::= x"}, "b"), "format.content: rule root"),
        ({"type": "repeat", "min": 2, "max": 1, "content": ANY}, "format: max is less than min"),
        ({"type": "optional", "content": 7}, "format.content: a format must be an object"),
        (triggered(["<x"], F), "format.tags[0].begin: no trigger begins '<f=a>'"),
        (triggered(["<f"], text("x")), "format.tags[0]: the type must be tag"),
        (several("sequence", ANY, OBJECT), "format.elements[1]: where this JSON begins"),
        (
            several("or", OBJECT, OBJECT | {"json_schema": NUMBER | {"type": "object"}}),
            "with anyOf",
        ),
        (several("sequence", NUM, ANY), "format.elements[0]: where this number ends"),
        (
            several(
                "sequence", ANY, {"type": "star", "content": several("sequence", text("x"), OBJECT)}
            ),
            "format.elements[0]: where this text ends cannot be told",
        ),
    ],
)
def test_what_is_refused_is_named_with_its_place(own: Format, said: str) -> None:
    with pytest.raises(InvalidField) as refused:
        of(own)
    assert said in refused.value.message


@pytest.mark.parametrize("value", [[], {}, {"format": ANY, "triggers": []}])
def test_neither_form(value: Any) -> None:
    with pytest.raises(InvalidField, match="it: it"):
        compiled(value)


def nested(depth: int) -> Format:
    own: Format = ANY
    for _ in range(depth):
        own = triggered(["a"], tag("ab", own, "c"))
    return own


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (nested(MAX_DEPTH), "nested more than"),
        (several("or", *[text("a")] * MAX_FORMATS), "formats"),
    ],
)
def test_hostile_formats_are_refused_soon(own: Format, said: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidField, match=said):
        of(own)
    assert time.process_time() - started < SOON_S


def test_many_tools_are_compiled_soon() -> None:
    started = time.process_time()
    tags = [tag(f"<f={number}>", OBJECT, "</f>") for number in range(150)]
    own = several("sequence", tag("<think>", ANY, "</think>"), triggered(["<f="], *tags))
    assert is_whole(of(own), '<think>x</think> <f=149>{"a":1}</f>')
    assert time.process_time() - started < SOON_S
