import json
from typing import Any

import pytest
from msgspec import UNSET

from segue.dialects.fields.constraint_fields import (
    CONSTRAINTS,
    GBNF,
    LAZY,
    TYPED_GRAMMAR,
    begin_at_trigger,
)
from segue.dialects.fields.kinds import Mismatch
from segue.dialects.fields.table import Draft, Table
from segue.errors import InvalidField
from segue.types import Constraint, Trigger, TriggerKind

SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {}}}
TEXT = '{"type":"object","properties":{"b":{"type":"integer"},"a":{}}}'
TAG = {"type": "structural_tag", "format": {"type": "any_text"}}
TAG_TEXT = '{"type":"structural_tag","format":{"type":"any_text"}}'


def read(name: str, value: Any) -> Any:
    (row,) = CONSTRAINTS.pick(name).rows
    return row.kind.read(value)


@pytest.mark.parametrize(
    ("name", "value", "kind", "text"),
    [
        ("grammar", "root ::= [a]", "grammar", "root ::= [a]"),
        ("grammar", {"type": "regex", "value": "a+"}, "regex", "a+"),
        ("grammar", {"type": "lark", "value": "start: /a/"}, "lark", "start: /a/"),
        ("grammar", {"type": "json_schema", "value": SCHEMA}, "json_schema", TEXT),
        ("grammar", {"type": "llguidance", "value": {"grammars": []}}, "llguidance", None),
        ("grammar", {"type": "json_schema", "value": True}, "json_schema", "true"),
        ("json_schema", SCHEMA, "json_schema", TEXT),
        ("json_schema", True, "json_schema", "true"),
        ("json_schema", False, "json_schema", "false"),
        ("response_format", {"type": "json_object"}, "json_object", ""),
        ("response_format", {"type": "json_object", "schema": SCHEMA}, "json_schema", TEXT),
        (
            "response_format",
            {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
            "json_schema",
            TEXT,
        ),
        ("response_format", TAG, "structural_tag", TAG_TEXT),
        ("structured_outputs", {"structural_tag": TAG}, "structural_tag", TAG_TEXT),
        ("structured_outputs", {"structural_tag": TAG_TEXT}, "structural_tag", TAG_TEXT),
        ("structured_outputs", {"json": SCHEMA, "regex": None}, "json_schema", TEXT),
        ("structured_outputs", {"regex": "a"}, "regex", "a"),
        ("structured_outputs", {"choice": ["a", "b"]}, "choice", ("a", "b")),
        ("structured_outputs", {"grammar": "root ::= [a]"}, "grammar", None),
        ("structured_outputs", {"json_object": True}, "json_object", ""),
        ("guided_json", TEXT, "json_schema", TEXT),
        ("guided_regex", "a", "regex", "a"),
        ("guided_choice", ["a"], "choice", ("a",)),
        ("guided_grammar", "start: /a/", "grammar", "start: /a/"),
        ("format", "json", "json_object", ""),
        ("format", SCHEMA, "json_schema", TEXT),
    ],
)
def test_spellings(name: str, value: Any, kind: str, text: Any) -> None:
    """The order of properties is the caller's: it is the order they are generated in."""
    constraint = read(name, value)
    assert isinstance(constraint, Constraint)
    assert (constraint.kind, constraint.param) == (kind, name)
    assert text is None or constraint.value == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("grammar", ""),
        ("grammar", {"type": "none"}),
        ("response_format", {"type": "text"}),
        ("format", ""),
    ],
)
def test_nothing_asked_for(name: str, value: Any) -> None:
    assert read(name, value) is UNSET


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("grammar", 5),
        ("grammar", {"type": "regex"}),
        ("grammar", {"type": ["regex"], "value": "a"}),
        ("grammar", {"type": "regex", "value": 5}),
        ("json_schema", [1]),
        ("response_format", "json"),
        ("response_format", {"type": "json_schema"}),
        ("response_format", {"type": "json_schema", "json_schema": 5}),
        ("structured_outputs", {}),
        ("structured_outputs", {"regex": "a", "choice": ["a"]}),
        ("structured_outputs", {"regex": "a", "banana": 1}),
        ("structured_outputs", {"json": {}, "whitespace_pattern": 5}),
        ("structured_outputs", {"json": {}, "disable_any_whitespace": "false"}),
        ("structured_outputs", {"json": {}, "disable_additional_properties": 0}),
        ("structured_outputs", {"json": True}),
        ("response_format", {"type": "json_schema", "json_schema": {"schema": True}}),
        ("guided_json", True),
        ("guided_choice", ["a", 5]),
        ("format", "xml"),
        ("format", True),
    ],
)
def test_refused(name: str, value: Any) -> None:
    with pytest.raises(Mismatch):
        read(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("json_schema", ""),
        ("guided_json", ""),
        ("guided_regex", ""),
        ("guided_choice", []),
        ("guided_grammar", ""),
        ("grammar", {"type": "regex", "value": ""}),
        ("grammar", {"type": "lark", "value": ""}),
        ("grammar", {"type": "json_schema", "value": ""}),
        ("grammar", {"type": "llguidance", "value": ""}),
        ("response_format", {"type": "json_object", "schema": ""}),
        ("response_format", {"type": "json_schema", "json_schema": {"schema": ""}}),
        ("structured_outputs", {"json": ""}),
        ("structured_outputs", {"regex": ""}),
        ("structured_outputs", {"choice": []}),
        ("structured_outputs", {"grammar": ""}),
        ("structured_outputs", {"json_object": False}),
        ("structured_outputs", {"structural_tag": ""}),
    ],
)
def test_an_empty_constraint_does_not_fail_open(name: str, value: Any) -> None:
    with pytest.raises(Mismatch):
        read(name, value)


def test_an_empty_grammar_of_llamacpp_is_none() -> None:
    assert GBNF.kind.read("") is UNSET
    assert read("grammar", "") is UNSET


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('root ::= "%llguidance"', "gbnf"),
        ('%llguidance {}\nstart: "::="', "lark"),
        ('\n%llguidance {}\nstart: "a"', "gbnf"),  # there too the text must begin with it
    ],
)
def test_a_grammar_of_llamacpp_is_lark_where_it_is_marked(text: str, kind: str) -> None:
    read = GBNF.kind.read(text)
    assert (read.kind, read.value) == (kind, text)


@pytest.mark.parametrize(
    ("name", "value", "within"),
    [
        ("response_format", {"type": "json_object", "schema": SCHEMA}, ".schema"),
        ("response_format", {"type": "json_schema", "schema": SCHEMA}, ".schema"),
        (
            "response_format",
            {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
            ".json_schema.schema",
        ),
        ("response_format", TAG, ""),
        ("structured_outputs", {"structural_tag": TAG_TEXT}, ".structural_tag"),
        ("structured_outputs", {"json": SCHEMA, "disable_any_whitespace": True}, ".json"),
        ("grammar", {"type": "regex", "value": "a"}, ".value"),
        ("guided_regex", "a", ""),
    ],
)
def test_where_in_its_field_a_constraint_stands(name: str, value: Any, within: str) -> None:
    assert read(name, value).within == within


def test_options_of_structured_outputs() -> None:
    closed = read("structured_outputs", {"json": SCHEMA, "disable_additional_properties": True})
    assert json.loads(closed.value)["additionalProperties"] is False
    text = read("structured_outputs", {"json": TEXT, "disable_additional_properties": True})
    assert json.loads(text.value) == json.loads(closed.value)
    bare = read("structured_outputs", {"json": SCHEMA, "disable_any_whitespace": True})
    assert bare.whitespace == ""
    spaced = read("structured_outputs", {"json": SCHEMA, "whitespace_pattern": "[ ]?"})
    assert spaced.whitespace == "[ ]?"


def test_objects_are_closed_and_values_are_left_as_they_are() -> None:
    schema = {
        "properties": {
            "properties": {"patternProperties": {"a": {}}},
            "b": {"const": {"properties": 1}, "items": [{"properties": {}}]},
        },
        "enum": [{"properties": {}}],
    }
    closed = read("structured_outputs", {"json": schema, "disable_additional_properties": True})
    assert json.loads(closed.value) == {
        "additionalProperties": False,
        "properties": {
            "properties": {"additionalProperties": False, "patternProperties": {"a": {}}},
            "b": {
                "const": {"properties": 1},
                "items": [{"additionalProperties": False, "properties": {}}],
            },
        },
        "enum": [{"properties": {}}],
    }


def test_triggers_by_their_numbers() -> None:
    row = next(row for row in LAZY if row.name == "grammar_triggers")
    sent: list[dict[str, Any]] = [
        {"type": 0, "value": "<t>", "token": 5},
        {"type": 0, "token": 6},
        {"type": 1, "value": "a"},
        {"type": 2, "value": "b+", "more": 1},
        {"type": 3, "value": ""},
    ]
    kinds: list[TriggerKind] = ["token", "token", "word", "pattern", "pattern_full"]
    assert row.kind.read(sent) == tuple(
        Trigger(kind, each.get("value", ""), each.get("token", 0), f"grammar_triggers[{i}]")
        for i, (kind, each) in enumerate(zip(kinds, sent, strict=True))
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ({}, ""),
        ([1], "[0]"),
        ([{}], "[0].type"),
        ([{"type": 4, "value": "a"}], "[0].type"),
        ([{"type": 1, "value": "a"}, {"type": 1}], "[1].value"),
        ([{"type": 0, "value": "a"}], "[0].token"),
        ([{"type": 0, "value": 1, "token": 1}], "[0].value"),
    ],
)
def test_a_trigger_that_is_none(value: Any, at: str) -> None:
    row = next(row for row in LAZY if row.name == "grammar_triggers")
    with pytest.raises(Mismatch) as wrong:
        row.kind.read(value)
    assert wrong.value.at == at


def lazily(**sent: Any) -> Draft:
    draft = Table((*CONSTRAINTS.pick("grammar").rows, *LAZY)).read(sent)
    begin_at_trigger(draft)
    return draft


def ignored(**sent: Any) -> list[str]:
    return lazily(**sent).ignored


def test_a_lazy_grammar_has_its_triggers() -> None:
    sent: dict[str, Any] = {
        "grammar": "root ::= [a]",
        "grammar_triggers": [{"type": 1, "value": "a"}],
    }
    trigger = Trigger("word", "a", 0, "grammar_triggers[0]")
    found = lazily(**sent, grammar_lazy=True, preserved_tokens=["a"]).values["constraint"]
    assert (found.triggers, found.preserved) == ((trigger,), ("a",))
    assert lazily(**sent).values["constraint"].triggers == ()
    assert "constraint" not in lazily(grammar_lazy=True).values
    assert ignored(**sent) == ["grammar_triggers"]
    assert ignored(grammar_lazy=True) == ["grammar_lazy"]
    assert ignored(grammar_lazy=False, grammar_triggers=[]) == []
    assert ignored(**sent, grammar_lazy=True) == []
    without: list[list[Any] | None] = [[], None]
    for triggers in without:
        with pytest.raises(InvalidField, match="must list a trigger, since grammar_lazy is true"):
            lazily(**sent | {"grammar_triggers": triggers}, grammar_lazy=True)


def test_systems_that_have_one_form_only() -> None:
    assert GBNF.kind.read("root ::= [a]").kind == "gbnf"
    with pytest.raises(Mismatch):
        GBNF.kind.read({"type": "regex", "value": "a"})
    with pytest.raises(Mismatch):
        TYPED_GRAMMAR.kind.read("root ::= [a]")
