"""Styles in which arrays and objects are written as the parameters themselves are."""

import json
import random
from itertools import product
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from segue.engine.constraints.compiler import Compiler, Grammar
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint
from tests.engine.constraints.guided import is_whole

COMPILER = Compiler(FakeVocab(), VOCAB_SIZE)
COHERE: dict[type, str] = {str: "raw", dict: "dict", list: "list"}
SCALARS = [
    {"type": "string"},
    {"enum": ["a", 5]},
    {"type": "integer"},
    {"type": ["null", "boolean"]},
]


def of(schema: Any, style: str, **options: Any) -> Grammar:
    own = {"type": "json_schema", "json_schema": schema, "style": style, **options}
    value = json.dumps({"type": "structural_tag", "format": own})
    return COMPILER.compile(Constraint(kind="structural_tag", value=value, param="it"))


def cohere(value: Any) -> str:
    match value:
        case dict():
            return "".join(
                f"<cofl:value name={json.dumps(n)}{_cohere(v)}" for n, v in value.items()
            )
        case list():
            return "".join(f"<cofl:value{_cohere(v)}" for v in value)
    return value if isinstance(value, str) else json.dumps(value)


def _cohere(value: Any) -> str:
    return f' type="{COHERE.get(type(value), "json")}">{cohere(value)}</cofl:value>'


def minimax(value: Any) -> str:
    items = [("item", v) for v in value] if isinstance(value, list) else []
    items += value.items() if isinstance(value, dict) else []
    if items:
        return "".join(f"]<]minimax[>[<{n}>{minimax(v)}]<]minimax[>[</{n}>" for n, v in items)
    return "" if value in ([], {}) else value if isinstance(value, str) else json.dumps(value)


WRITERS = {"cohere_xml": cohere, "minimax_m3_xml": minimax}
SCHEMA = {
    "type": "object",
    "properties": {
        "in": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
        "by": {
            "type": "object",
            "properties": {"x": {"type": "string"}, "y": {"type": "boolean"}},
            "required": ["x"],
            "additionalProperties": False,
        },
        "pair": {
            "prefixItems": [{"const": "a"}, {"type": "null"}],
            "items": False,
            "type": "array",
        },
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize("style", WRITERS)
def test_arrays_and_objects(style: str) -> None:
    grammar, write = of(SCHEMA, style), WRITERS[style]
    good: list[Any] = [{}, {"in": []}, {"in": [1, 2], "by": {"x": "<5>", "y": True}}]
    good += [{"pair": []}, {"pair": ["a"]}, {"by": {"x": ""}, "pair": ["a", None]}]
    bad: list[Any] = [{"in": [1, 2, 3]}, {"in": ["x"]}, {"by": {"y": True}}]
    bad += [{"by": {"x": "x", "z": "x"}}, {"pair": ["b"]}, {"by": {"x": "x"}, "in": [1]}]
    for value in good + bad:
        assert is_whole(grammar, write(value)) == (value in good), value


@pytest.mark.parametrize("style", WRITERS)
def test_items_by_their_place(style: str) -> None:
    items = [{"type": "integer"}, {"type": "boolean"}, {"type": "integer"}]
    array = {"type": "array", "prefixItems": items, "items": {"type": "null"}, "minItems": 2}
    grammar = of({"properties": {"a": array}, "additionalProperties": False}, style)
    for good in ([1, True], [1, True, 2], [1, False, 2, None, None]):
        assert is_whole(grammar, WRITERS[style]({"a": good})), good
    for bad in ([1], [1, 2], [True, 1], [1, True, None], [1, True, 2, 3]):
        assert not is_whole(grammar, WRITERS[style]({"a": bad})), bad


def random_schema(rng: random.Random, depth: int) -> Any:
    kind = rng.choice(["scalar", "array", "object"]) if depth else "scalar"
    if kind == "scalar":
        return rng.choice(SCALARS)
    if kind == "array":
        return {
            "type": "array",
            "items": random_schema(rng, depth - 1),
            "minItems": rng.randint(0, 1),
        }
    names = rng.sample("abc", rng.randint(1, 3))
    return {
        "type": "object",
        "properties": {name: random_schema(rng, depth - 1) for name in names},
        "required": [name for name in names if rng.random() < 0.5],
        "additionalProperties": False,
    }


def random_value(rng: random.Random, schema: Any) -> Any:
    """One that fits more often than not."""
    if rng.random() < 0.08:
        return rng.choice(["a", 5, None, [], {}])
    match schema.get("type"):
        case "array":
            return [random_value(rng, schema["items"]) for _ in range(rng.randint(0, 2))]
        case "object":
            needed = schema["required"]
            names = [n for n in schema["properties"] if n in needed or rng.random() < 0.4]
            return {name: random_value(rng, schema["properties"][name]) for name in names}
        case "string":
            return rng.choice(["", "x y", "5", "<a>"])
        case "integer":
            return rng.choice([0, -7, 12])
    return rng.choice(["a", 5] if "enum" in schema else [None, True])


def readings(value: Any) -> list[Any]:
    """Where types are not told, a text is a string, or what it is as JSON; what is empty is anything empty."""
    match value:
        case dict() if value:
            return [
                dict(zip(value, v, strict=True)) for v in product(*map(readings, value.values()))
            ]
        case list() if value:
            return [list(v) for v in product(*map(readings, value))]
    if value in ("", [], {}):
        return ["", [], {}]
    return [value, json.dumps(value)] if not isinstance(value, str) else [value, *_parsed(value)]


def _parsed(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except ValueError:
        return []


@pytest.mark.parametrize("style", WRITERS)
def test_random_values(style: str) -> None:
    rng = random.Random(style)
    num_good = num_bad = 0
    for _ in range(40):
        schema = random_schema(rng, 2)
        if schema.get("type") != "object":
            continue
        grammar, fits = of(schema, style), Draft202012Validator(schema).is_valid
        for _ in range(8):
            value = random_value(rng, schema)
            if not isinstance(value, dict):
                continue
            expected = any(map(fits, readings(value) if style == "minimax_m3_xml" else [value]))
            num_good, num_bad = num_good + expected, num_bad + (not expected)
            assert is_whole(grammar, WRITERS[style](value)) == expected, (schema, value)
    assert num_good > 40
    assert num_bad > 10


def test_what_is_open_is_nested_as_deep_as_it_likes() -> None:
    grammar = of({"properties": {"n": {"type": "integer"}}}, "cohere_xml")
    value = {"n": 5, "a": {"b": [{"c": [[], 7, "x"]}, None]}, "d": {}}
    assert is_whole(grammar, cohere(value))
    assert not is_whole(grammar, cohere(value | {"n": "5"}))
    assert not is_whole(grammar, cohere(value).replace("raw", "json"))


@pytest.mark.parametrize("style", WRITERS)
def test_schemas_that_refer_to_others_one_after_the_other(style: str) -> None:
    links = {
        f"{i}": {
            "type": "object",
            "properties": {"a": {"$ref": f"#/$defs/{i + 1}"}},
            "additionalProperties": False,
        }
        for i in range(300)
    }
    schema = links["0"] | {"$defs": links | {"300": {"type": "integer"}}}
    assert is_whole(of(schema, style), WRITERS[style]({"a": {"a": {}}}))


def test_names_are_escaped() -> None:
    schema = {"properties": {'<&">': {"type": "null"}}, "additionalProperties": False}
    assert is_whole(
        of(schema, "cohere_xml"), cohere({"n": None}).replace('"n"', '"&lt;&amp;&quot;&gt;"')
    )


def test_a_name_that_is_not_listed_cannot_be_closed() -> None:
    grammar = of({"properties": {"a": {"type": "string"}}}, "minimax_m3_xml")
    assert is_whole(grammar, minimax({"a": "x"}))
    assert not is_whole(grammar, minimax({"b": "x"}))
    assert not is_whole(grammar, minimax({"a": "]<]minimax[>["}))


@pytest.mark.parametrize(
    ("schema", "style", "said"),
    [
        (
            {"properties": {"a": {"type": "array", "uniqueItems": True}}},
            "cohere_xml",
            "format: contains and uniqueItems are not enforced in this style",
        ),
        (
            {"properties": {"a": {"type": ["array", "string"]}}},
            "minimax_m3_xml",
            "format: in this style an array or object cannot be told from a value",
        ),
    ],
)
def test_what_is_refused(schema: Any, style: str, said: str) -> None:
    with pytest.raises(InvalidField, match=said):
        of(schema, style)
