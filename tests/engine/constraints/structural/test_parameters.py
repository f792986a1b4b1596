"""Parameters between tags, against a reader that knows nothing of grammars, and text by text."""

import json
from typing import Any

import pytest

from segue.engine.constraints.compiler import Compiler, Grammar
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint
from tests.engine.constraints.guided import is_whole
from tests.engine.constraints.structural.random_parameters import (
    STYLES,
    Parameters,
    Schema,
    accepts,
    written,
)

COMPILER = Compiler(FakeVocab(), VOCAB_SIZE)
SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "in": {"type": "array"},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def of(own: dict[str, Any]) -> Grammar:
    value = json.dumps({"type": "structural_tag", "format": own})
    return COMPILER.compile(Constraint(kind="structural_tag", value=value, param="it"))


def styled(schema: Schema | bool, style: str = "qwen_xml", **options: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": schema, "style": style, **options}


@pytest.mark.parametrize("style", STYLES)
def test_each_style(style: str) -> None:
    grammar = of(styled(SCHEMA, style))
    city, days = written(style, "city", "Bad Ems\n"), written(style, "days", 5)
    several = written(style, "in", ["a", {}], "\n")
    for good in (city, city + days, f"\n{city}\n{days} {several}\n", city + several):
        assert is_whole(grammar, good)
        assert not any(is_whole(grammar, good[:end]) for end in range(len(city)))
    for bad in ("", days, days + city, city + city, city + written(style, "days", "x"), city + "x"):
        assert not is_whole(grammar, bad)


@pytest.mark.parametrize("seed", range(4))
def test_random_parameters(seed: int) -> None:
    own = Parameters(seed)
    num_accepted = 0
    for _ in range(40):
        style, schema = own.rng.choice(list(STYLES)), own.schema()
        any_order = own.rng.random() < 0.3
        grammar = of(styled(schema, style, any_order=any_order))
        for _ in range(8):
            text = own.text(style, schema, any_order)
            expected = accepts(style, schema, text, any_order)
            num_accepted += expected
            assert is_whole(grammar, text) == expected, (style, schema, text)
    assert 80 < num_accepted < 240


def test_what_told_a_type_must_be_true() -> None:
    any_of = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    schema = {"properties": {"a": any_of}, "additionalProperties": False}
    told = of(styled(schema, "deepseek_xml"))
    assert is_whole(told, written("deepseek_xml", "a", 5))
    assert is_whole(told, written("deepseek_xml", "a", "x"))
    assert not is_whole(told, written("deepseek_xml", "a", 5).replace("5", "x"))
    assert is_whole(of(styled(schema)), written("qwen_xml", "a", "x"))


def test_space_is_part_of_a_string_that_is_told_to_be_one() -> None:
    schema = {"properties": {"a": {"enum": ["x"]}}, "additionalProperties": False}
    for style, is_fine in (("qwen_xml", True), ("deepseek_xml", False), ("kimi_k3_xml", False)):
        assert is_whole(of(styled(schema, style)), written(style, "a", "\nx\n")) == is_fine


def test_names_are_escaped_where_the_style_says_so() -> None:
    schema = {"properties": {'a&"b': {"type": "null"}}, "additionalProperties": False}
    name = "a&amp;&quot;b"
    assert is_whole(of(styled(schema, "kimi_k3_xml")), written("kimi_k3_xml", name, None))


def test_the_older_name_of_a_style() -> None:
    grammar = of({"type": "qwen_xml_parameter", "json_schema": SCHEMA})
    assert is_whole(grammar, written("qwen_xml", "city", "x"))
    assert not is_whole(grammar, "{}")


def test_in_a_tag_that_ends_like_a_space() -> None:
    schema = SCHEMA | {"required": []}
    content = styled(schema)
    one = {"type": "tag", "begin": "<f>\n", "content": content, "end": "\n</f>"}
    grammar = of({"type": "triggered_tags", "triggers": ["<f>"], "tags": [one]})
    city, days = written("qwen_xml", "city", "\nX\n"), written("qwen_xml", "days", 5, "\n")
    for text in ("", city, days, f"{city}\n{days}"):
        assert is_whole(grammar, f"hm <f>\n{text}\n</f> hm")
        assert not is_whole(grammar, f"hm <f>\n{text}</f>")


def test_white_space_has_a_limit() -> None:
    city, days = written("qwen_xml", "city", "x"), written("qwen_xml", "days", 5)
    grammar = of(styled(SCHEMA, max_whitespace_cnt=0))
    assert is_whole(grammar, city + days)
    assert not is_whole(grammar, f"{city} {days}")


def test_a_listed_string_cannot_hold_what_closes_it() -> None:
    listed = {"enum": ["", "a", "b</parameter>c"]}
    for own in (listed, {"anyOf": [listed, {"type": "array"}]}):
        grammar = of(styled({"properties": {"x": own}, "additionalProperties": False}))
        for text, is_fine in (("", True), ("a", True), ("b</parameter>c", False), ("b", False)):
            assert is_whole(grammar, written("qwen_xml", "x", text)) == is_fine, (own, text)


def test_what_is_excluded_stands_in_no_string() -> None:
    schema = {
        "properties": {
            "a": {"type": "string"},
            "b": {"enum": ["<x", "y", "z"]},
            "c": {"type": "array", "items": {"type": "string", "maxLength": 3}},
        },
        "additionalProperties": False,
    }
    for style in STYLES:
        grammar = of(styled(schema, style, excludes=["<x", "/"]))
        for good in (("a", "<y"), ("a", ""), ("b", "y"), ("c", ["x", "<"])):
            assert is_whole(grammar, written(style, *good)), (style, good)
        for bad in (("a", "a<x"), ("a", "/"), ("b", "<x"), ("c", ["<x"])):
            assert not is_whole(grammar, written(style, *bad)), (style, bad)


def test_tools_of_all_sorts_stand_beside_each_other() -> None:
    """A name that is free in one of them is listed in the other, with the same text around both."""
    one = {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
    other = {"properties": {"q": {"type": "string"}, "in": {"type": "integer"}}}
    for style in STYLES:
        tags = [
            {"type": "tag", "begin": f"<f={name}>", "content": styled(own, style), "end": "</f>"}
            for name, own in (("a", one), ("b", other | {"additionalProperties": False}))
        ]
        grammar = of({"type": "triggered_tags", "triggers": ["<f="], "tags": tags})
        city, days = written(style, "city", "x"), written(style, "days", 5)
        assert is_whole(grammar, f"<f=a>{city}{days}{written(style, 'in', 'x')}</f>")
        assert is_whole(grammar, f"<f=b>{written(style, 'in', 5)}</f> <f=a>{days}</f>")
        assert not is_whole(grammar, f"<f=b>{written(style, 'in', 5)}{days}</f>")


def test_references_and_alternatives_are_followed() -> None:
    one = {"properties": {"kind": {"const": "a"}, "n": {"$ref": "#/$defs/n"}}, "required": ["kind"]}
    other = {"properties": {"kind": {"const": "b"}, "t": {"type": "string"}}, "required": ["kind"]}
    closed = [schema | {"additionalProperties": False} for schema in (one, other)]
    grammar = of(styled({"type": "object", "anyOf": closed, "$defs": {"n": {"type": "integer"}}}))

    def text(*values: tuple[str, Any]) -> str:
        return "".join(written("qwen_xml", name, value) for name, value in values)

    assert is_whole(grammar, text(("kind", "a"), ("n", 5)))
    assert is_whole(grammar, text(("kind", "b"), ("t", "5")))
    assert not is_whole(grammar, text(("kind", "a"), ("t", "5")))
    assert not is_whole(grammar, text(("kind", "a"), ("n", "x")))


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (styled({}, "glm"), "format: the style 'glm' is not supported; json, qwen_xml, "),
        (styled({"type": "integer"}), "format: no object fits the schema"),
        (styled({"properties": {"a": {"type": "x"}}}), "format: at #/properties/a: "),
        (styled({"properties": {"a>b": {}}}), "format: the name 'a>b' holds '>'"),
        (styled({"minProperties": 2}), "format: properties are not counted in this style"),
        (styled({"patternProperties": {"^a": {}}}), "format: patternProperties, propertyNames"),
        (
            styled({"properties": {"a": {"type": ["string", "array"], "minLength": 2}}}),
            "format: in this style a string with conditions cannot be told from an array",
        ),
        (styled({"properties": {"a" * 101: {}}}), "at most 100 characters in this style"),
        ({"type": "qwen_xml_parameter", "schema": {}}, "unknown field `schema`"),
    ],
)
def test_what_is_refused(own: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidField) as refused:
        of(own)
    assert said in refused.value.message


def test_keywords_without_effect_are_named() -> None:
    schema = {"properties": {"a": {"type": "array", "maxLen": 5}}, "x-guidance": {"lenient": True}}
    assert of(styled(schema)).ignored == ("it#/properties/a/maxLen",)
