"""White space in JSON: one piece of it between two parts, and none around the text, whatever compiles the grammar."""

import json
import re
from random import Random
from typing import Any

import msgspec
import pytest

from segue.bench.exactness import schemas
from segue.engine.constraints.compiler import Compiler
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint
from tests.engine.constraints.guided import is_whole

COMPILER = Compiler(FakeVocab(), VOCAB_SIZE)
GAPS = ("", "", "", "", " ", " ", "\n", "\n  ", "\n\t", "  ", " \n", "\n\n", "\t", "\n" + " " * 41)
PATTERNS = {None: r" |\n[ \t]{0,40}", "[ ]{1,2}": " {1,2}", r"\s{0,2}": r"\s{0,2}", "": ""}
NUM_SCHEMAS, NUM_VALUES = 12, 8


def tokens(value: Any) -> list[str]:
    """The parts of its text."""
    found: list[list[str]] = []
    match value:
        case list():
            found = [tokens(item) for item in value]
        case dict():
            found = [[_scalar(name), ":", *tokens(item)] for name, item in value.items()]
        case _:
            return [_scalar(value)]
    inner = [token for item in found for token in (",", *item)][1:]
    return ["[", *inner, "]"] if isinstance(value, list) else ["{", *inner, "}"]


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("whitespace", PATTERNS)
def test_one_piece_may_stand_between_two_parts(whitespace: str | None) -> None:
    """Of random schemas; a text without space tells whether they allow the value."""
    piece = re.compile(PATTERNS[whitespace])
    num_good = num_bad = 0
    for seed in range(NUM_SCHEMAS):
        random = Random(seed)
        schema = msgspec.json.encode(schemas.schema(random)).decode()
        asked = Constraint(kind="json_schema", value=schema, whitespace=whitespace)
        try:
            grammar = COMPILER.compile(asked)
        except InvalidField:
            continue
        for _ in range(NUM_VALUES):
            parts = tokens(schemas.value(random))
            gaps = [random.choice(GAPS) for _ in parts[1:]]
            text = parts[0] + "".join(gap + part for gap, part in zip(gaps, parts[1:], strict=True))
            fits = is_whole(grammar, "".join(parts))
            wanted = fits and all(not gap or piece.fullmatch(gap) is not None for gap in gaps)
            assert is_whole(grammar, text) == wanted, (schema, text)
            assert not is_whole(grammar, f" {text}"), (schema, text)
            assert not is_whole(grammar, f"{text} "), (schema, text)
            num_good += wanted and any(gaps)
            num_bad += fits and not wanted
    assert (num_good > 0) == (whitespace != "")
    assert num_bad > 0


LISTS = {"type": "json_schema", "json_schema": {"type": "array"}}
BESIDE = {
    "structural_tag": json.dumps({"format": {"type": "plus", "content": LISTS}}),
    "lark": 'start: list+\nlist: %json {"type": "array"}',
}


@pytest.mark.parametrize("kind", BESIDE)
def test_none_stands_around_a_text_beside_others(kind: Any) -> None:
    grammar = COMPILER.compile(Constraint(kind=kind, value=BESIDE[kind]))
    assert is_whole(grammar, "[1, 2][ ]")
    for text in ("[1, 2] ", " [1]", "[1] [2]", "[1,  2]"):
        assert not is_whole(grammar, text), text


def test_numbers_that_the_compiler_writes_have_the_same_space() -> None:
    steps = '{"items": {"multipleOf": 7, "minimum": 0, "maximum": 1000000}, "type": "array"}'
    grammar = COMPILER.compile(Constraint(kind="json_schema", value=steps))
    assert "%json" in grammar.text
    assert is_whole(grammar, "[ 7 , 14\n]")
    assert not is_whole(grammar, "[ 7  , 14]")


def test_space_beside_json_in_lark_is_written_into_the_rules() -> None:
    """What a grammar ignores does not stand before JSON; a rule's own space does, on either side."""
    ignored = 'start: "a" list\nlist: %json {"type": "array"}\n%ignore / /'
    written = 'start: "a" SP? list SP? "b"\nSP: / +/\nlist: %json {"type": "array"}'
    grammars = [
        COMPILER.compile(Constraint(kind="lark", value=text)) for text in (ignored, written)
    ]
    assert is_whole(grammars[0], "a[]")
    assert not is_whole(grammars[0], "a []")
    assert is_whole(grammars[1], "a[] b")
    assert is_whole(grammars[1], "a [1]b")
