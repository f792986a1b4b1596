"""An object's unlisted properties, as llama.cpp, Ollama and vLLM read a schema."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from segue.dialects.fields.closed_schemas import listed_only
from segue.dialects.llamacpp.fields import NATIVE_FIELDS, OPENAI_FIELDS
from segue.dialects.mistralrs.fields import FIELDS as MISTRALRS
from segue.dialects.ollama.fields import GENERATE
from segue.dialects.openai.fields import FIELDS as ROOT
from segue.dialects.vllm.fields import FIELDS as VLLM

INTEGER = {"type": "integer"}
OBJECT = {"type": "object", "properties": {"a": INTEGER}, "required": ["a"]}
CLOSED = {**OBJECT, "additionalProperties": False}


def tagged(tag: str, **more: Any) -> dict[str, Any]:
    return {"properties": {"kind": {"const": tag}}, "required": ["kind"], **more}


def closed(schema: Any) -> Any:
    return json.loads(listed_only(json.dumps(schema), kind="json_schema"))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (OBJECT, CLOSED),
        (
            {"properties": {"b": OBJECT}},
            {"properties": {"b": CLOSED}, "additionalProperties": False},
        ),
        ({"type": "array", "items": OBJECT}, {"type": "array", "items": CLOSED}),
        ({"prefixItems": [OBJECT]}, {"prefixItems": [CLOSED]}),
        ({"additionalProperties": OBJECT}, {"additionalProperties": CLOSED}),
        ({"anyOf": [OBJECT, {"type": "null"}]}, {"anyOf": [CLOSED, {"type": "null"}]}),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": OBJECT}},
            {"$ref": "#/$defs/A", "$defs": {"A": CLOSED}},
        ),
        (
            {"properties": {"a": OBJECT, "b": {"$ref": "#/properties/a"}}},
            {
                "properties": {"a": CLOSED, "b": {"$ref": "#/properties/a"}},
                "additionalProperties": False,
            },
        ),
        ({"$id": "x", **OBJECT}, {"$id": "x", **CLOSED}),
        ({"allOf": [OBJECT], "description": "x"}, {"allOf": [CLOSED], "description": "x"}),
        (
            {
                "discriminator": {},
                "oneOf": [{"$ref": "#/$defs/A"}, tagged("b")],
                "$defs": {"A": tagged("a")},
            },
            {
                "discriminator": {},
                "oneOf": [{"$ref": "#/$defs/A"}, tagged("b", additionalProperties=False)],
                "$defs": {"A": tagged("a", additionalProperties=False)},
            },
        ),
        (
            {"properties": {"next": {"$ref": "#"}}},
            {"properties": {"next": {"$ref": "#"}}, "additionalProperties": False},
        ),
    ],
)
def test_plain_objects_have_what_they_list(schema: Any, expected: Any) -> None:
    assert closed(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {**OBJECT, "additionalProperties": True},
        {**OBJECT, "additionalProperties": INTEGER},
        {**OBJECT, "required": ["b"]},
        {**OBJECT, "minProperties": 2},
        {**OBJECT, "patternProperties": {"^b": INTEGER}},
        {**OBJECT, "anyOf": [{"required": ["b"]}, {"required": ["c"]}]},
        {"allOf": [OBJECT, {"properties": {"b": INTEGER}, "required": ["b"]}]},
        {"oneOf": [OBJECT, {"properties": {"b": INTEGER}}]},
        {"oneOf": [tagged("a"), tagged("a")]},
        {"oneOf": [tagged("a"), OBJECT]},
        {"oneOf": []},
        {"oneOf": [5]},
        {"allOf": 5},
        {"not": OBJECT},
        {"required": ["b"], "anyOf": [OBJECT]},
        {"const": {"a": {"b": 1}}, "properties": {"a": {"properties": {}}}},
        # What another part speaks of too, reached by a reference.
        {"allOf": [{"$ref": "#/$defs/A"}], "required": ["b"], "$defs": {"A": OBJECT}},
        {
            "$defs": {"A": OBJECT},
            "prefixItems": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A", "required": ["b"]}],
        },
        {"$ref": "other.json"},
        {"$ref": "#/$defs/missing"},
        {"$ref": 5},
        {"properties": 5},
        [],
        5,
        "text",
    ],
)
def test_others_are_left_as_they_are(schema: Any) -> None:
    text = json.dumps(schema)
    assert listed_only(text, kind="json_schema") == text


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 5000, '{"a": 1e99999999999999999999}', " " * 300_000]
)
def test_what_is_no_schema_is_left_to_the_compiler(text: str) -> None:
    assert listed_only(text, kind="json_schema") == text


def test_numbers_keep_their_digits() -> None:
    schema = '{"properties":{"a":{"maximum":0.10000000000000000000001,"minimum":-123456789012345678901234567890}}}'
    assert listed_only(schema, kind="json_schema") == schema[:-1] + ',"additionalProperties":false}'


def test_what_fits_then_fits_the_schema_as_it_was() -> None:
    schema = {"$defs": {"A": OBJECT}, "items": {"anyOf": [{"$ref": "#/$defs/A"}, INTEGER]}}
    narrow, wide = Draft202012Validator(closed(schema)), Draft202012Validator(schema)
    for value in ([], [1], [{"a": 1}], [{"a": 1, "b": 1}], [{"b": 1}], ["x"]):
        assert wide.is_valid(value) or not narrow.is_valid(value)
    assert wide.is_valid([{"a": 1, "b": 1}])
    assert not narrow.is_valid([{"a": 1, "b": 1}])


IN_CHAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": OBJECT}}
# As their own clients send them: a schema made from a class says nothing of other properties.
AS_THEY_DO = [
    (GENERATE, "format", OBJECT),
    (NATIVE_FIELDS, "json_schema", OBJECT),
    (OPENAI_FIELDS, "response_format", IN_CHAT),
    (OPENAI_FIELDS, "response_format", {"type": "json_object", "schema": OBJECT}),
    (VLLM, "response_format", IN_CHAT),
    (VLLM, "structured_outputs", {"json": OBJECT}),
    (VLLM, "guided_json", json.dumps(OBJECT)),
]
AS_WRITTEN = [
    (ROOT, "response_format", IN_CHAT),
    (ROOT, "json_schema", OBJECT),
    (MISTRALRS, "grammar", {"type": "json_schema", "value": OBJECT}),
]


@pytest.mark.parametrize(("table", "name", "value"), AS_THEY_DO)
def test_three_dialects_close_objects(table: Any, name: str, value: Any) -> None:
    constraint = table.pick(name).rows[0].kind.read(value)
    assert json.loads(constraint.value) == CLOSED
    assert constraint.param == name


@pytest.mark.parametrize(("table", "name", "value"), AS_WRITTEN)
def test_the_others_read_a_schema_as_it_is_written(table: Any, name: str, value: Any) -> None:
    assert json.loads(table.pick(name).rows[0].kind.read(value).value) == OBJECT


def formats(schema: Any) -> dict[str, Any]:
    """Schemas in formats, however deep, and beside one that is wrong."""
    inner = {"type": "json_schema", "json_schema": schema, "style": "json"}
    tag = {"type": "tag", "begin": "<f>", "content": inner, "end": "</f>"}
    tags = {"type": "triggered_tags", "triggers": ["<"], "tags": [tag]}
    more = [
        {"type": "qwen_xml_parameter", "json_schema": schema},
        {"type": "const_string", "value": "schema"},
        {"type": "json_schema", "json_schema": True},
        {"type": "json_schema", "json_schema": {"$ref": "#/nowhere", **OBJECT}},
    ]
    return {
        "type": "structural_tag",
        "format": {"type": "sequence", "elements": [tags, *more]},
    }


def structures(schema: Any) -> dict[str, Any]:
    own = {"begin": "<f>", "schema": schema, "end": "</f>"}
    return {"type": "structural_tag", "structures": [own], "triggers": ["<f>"]}


@pytest.mark.parametrize("made", [formats, structures])
def test_schemas_of_structural_tags_are_closed_where_others_are(made: Any) -> None:
    tag = made(OBJECT)
    for name, value in (
        ("structured_outputs", {"structural_tag": json.dumps(tag)}),
        ("response_format", tag),
    ):
        own, root = (table.pick(name).rows[0].kind.read(value) for table in (VLLM, ROOT))
        assert own.kind == root.kind == "structural_tag"
        assert json.loads(own.value) == made(CLOSED)
        assert json.loads(root.value) == tag


@pytest.mark.parametrize("text", ["", "{", "5", '["a"]', '{"structures": 5}', '{"format": null}'])
def test_what_is_no_structural_tag_is_left_to_the_compiler(text: str) -> None:
    assert listed_only(text, "structural_tag") == text


def test_what_is_no_schema_passes() -> None:
    row = GENERATE.pick("format").rows[0]
    assert row.kind.read("json").kind == "json_object"
    assert row.kind.schema()
