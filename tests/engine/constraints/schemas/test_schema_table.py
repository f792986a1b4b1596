"""The table of keywords in the documentation is what the code does."""

from pathlib import Path

import pytest

from segue.bench.exactness.trial import is_whole
from segue.engine.constraints.compiler import Compiler
from segue.engine.constraints.schemas.keywords.expander import ANNOTATIONS
from segue.engine.constraints.schemas.table import REFUSED, exact, markdown
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint

DOCUMENT = Path(__file__).parents[4] / "docs" / "constraints.md"
COMPILER = Compiler(FakeVocab(), VOCAB_SIZE)
OLD = '"$schema": "http://json-schema.org/draft-07/schema#", '

# A keyword: a schema in which it matters, a text that fits, and one that does not only because of the keyword.
EXAMPLES: dict[str, tuple[str, str, str]] = {
    "type": ('{"type": "null"}', "null", "1"),
    "nullable": ('{"not": {"type": "string", "nullable": true}}', "1", "null"),
    "const": ('{"const": 1}', "1", "2"),
    "enum": ('{"enum": [1, "a"]}', '"a"', "2"),
    "minimum": ('{"minimum": 3}', "3", "2"),
    "maximum": ('{"maximum": 3}', "3", "4"),
    "exclusiveMinimum": ('{"exclusiveMinimum": 3}', "4", "3"),
    "exclusiveMaximum": ('{"exclusiveMaximum": 3}', "2", "3"),
    "multipleOf": ('{"multipleOf": 3}', "6", "7"),
    "minLength": ('{"minLength": 2}', '"éé"', '"é"'),
    "maxLength": ('{"maxLength": 2}', '"éé"', '"ééé"'),
    "pattern": ('{"pattern": "^a"}', '"ab"', '"ba"'),
    "format": ('{"format": "date"}', '"2024-02-29"', '"2023-02-29"'),
    "minItems": ('{"minItems": 1}', "[1]", "[]"),
    "maxItems": ('{"maxItems": 1}', "[1]", "[1,2]"),
    "minProperties": ('{"minProperties": 1}', '{"a":1}', "{}"),
    "maxProperties": ('{"maxProperties": 1}', '{"a":1}', '{"a":1,"b":2}'),
    "required": ('{"required": ["a"]}', '{"a":1}', '{"b":1}'),
    "$ref": ('{"$ref": "#/$defs/a", "$defs": {"a": {"const": 1}}}', "1", "2"),
    "allOf": ('{"allOf": [{"minimum": 1}, {"maximum": 2}]}', "2", "3"),
    "anyOf": ('{"anyOf": [{"const": 1}, {"const": 2}]}', "2", "3"),
    "oneOf": ('{"oneOf": [{"minimum": 1}, {"maximum": 2}]}', "3", "2"),
    "not": ('{"not": {"minimum": 1}}', "0", "1"),
    "if": ('{"if": {"minimum": 1}, "then": {"maximum": 2}}', "0", "3"),
    "then": ('{"if": {"minimum": 1}, "then": {"maximum": 2}}', "2", "3"),
    "else": ('{"if": {"minimum": 1}, "else": {"const": 0}}', "0", "-1"),
    "prefixItems": ('{"prefixItems": [{"const": 1}]}', "[1,2]", "[2]"),
    "items": ('{"items": {"const": 1}}', "[1,1]", "[1,2]"),
    "additionalItems": (f'{{{OLD}"items": [{{}}], "additionalItems": false}}', "[1]", "[1,2]"),
    "contains": ('{"contains": {"const": 1}}', "[2,1]", "[2]"),
    "minContains": ('{"contains": {"const": 1}, "minContains": 2}', "[1,1]", "[1]"),
    "maxContains": ('{"contains": {"const": 1}, "maxContains": 1}', "[1,2]", "[1,1]"),
    "uniqueItems": ('{"uniqueItems": true, "maxItems": 1}', "[1]", "[1,1]"),
    "properties": ('{"properties": {"a": {"const": 1}}}', '{"a":1}', '{"a":2}'),
    "patternProperties": ('{"patternProperties": {"^a": {"const": 1}}}', '{"ab":1}', '{"ab":2}'),
    "additionalProperties": (
        '{"properties": {"a": {}}, "additionalProperties": false}', '{"a":1}', '{"b":1}',
    ),
    "propertyNames": ('{"propertyNames": {"maxLength": 1}}', '{"a":1}', '{"ab":1}'),
    "dependentRequired": ('{"dependentRequired": {"a": ["b"]}}', '{"a":1,"b":1}', '{"a":1}'),
    "dependentSchemas": ('{"dependentSchemas": {"a": {"required": ["b"]}}}', "{}", '{"a":1}'),
    "dependencies": (f'{{{OLD}"dependencies": {{"a": ["b"]}}}}', '{"b":1}', '{"a":1}'),
    "unevaluatedItems": (
        '{"allOf": [{"prefixItems": [{}]}], "unevaluatedItems": false}', "[1]", "[1,2]",
    ),
    "unevaluatedProperties": (
        '{"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": false}', '{"a":1}', '{"b":1}',
    ),
}  # fmt: skip


def accepts(schema: str, text: str) -> bool:
    return is_whole(COMPILER.compile(Constraint(kind="json_schema", value=schema)), text)


def test_the_document_has_the_table() -> None:
    text = DOCUMENT.read_text("utf-8")
    begin = text.index("<!-- keywords")
    begin = text.index("\n", begin) + 1
    assert text[begin : text.index("<!-- end of keywords")] == markdown()


@pytest.mark.parametrize("keyword", exact())
def test_what_is_called_exact_is_enforced(keyword: str) -> None:
    schema, fitting, other = EXAMPLES[keyword]
    assert keyword in schema
    assert accepts(schema, fitting)
    assert not accepts(schema, other)


@pytest.mark.parametrize("keyword", [*REFUSED, "maxLen"])
def test_what_is_called_refused_is_refused_wherever_it_stands(keyword: str) -> None:
    for place in ("{0}", '{{"items": {0}}}', '{{"$ref": "#/x-y", "x-y": {0}}}', '{{"not": {0}}}'):
        with pytest.raises(InvalidField, match="cannot be enforced"):
            accepts(place.format(f'{{"{keyword}": {{}}}}'), "1")


@pytest.mark.parametrize("keyword", sorted(ANNOTATIONS | {"x-anything"}))
def test_what_is_called_without_effect_has_none(keyword: str) -> None:
    value = '"https://json-schema.org/draft/2020-12/schema"' if keyword == "$schema" else "{}"
    assert accepts(f'{{"{keyword}": {value}}}', "[null]")
