import time

import pytest

from segue.engine.constraints.compiler import Compiler
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint
from tests.engine.constraints.guided import is_whole
from tests.support.hostile_constraints import HARMLESS, REFUSED
from tests.support.waiting import SOON_S

COMPILER = Compiler(FakeVocab(), VOCAB_SIZE)


def name(constraint: Constraint) -> str:
    return f"{constraint.kind}:{str(constraint.value)[:30]!a}"


@pytest.mark.parametrize("constraint", REFUSED, ids=name)
def test_what_cannot_be_enforced_is_refused(constraint: Constraint) -> None:
    """With the caller's name of the field, in the compiler's words, soon, and without internals."""
    started = time.process_time()
    with pytest.raises(InvalidField) as refused:
        COMPILER.compile(constraint)
    assert refused.value.param == "it"
    assert len(refused.value.message) < 2000
    assert "backtrace" not in refused.value.message
    assert time.process_time() - started < SOON_S


def test_half_a_character_is_refused() -> None:
    with pytest.raises(InvalidField, match="surrogate"):
        COMPILER.compile(Constraint(kind="choice", value=("a", "\ud800")))


@pytest.mark.parametrize("constraint", HARMLESS, ids=name)
def test_what_is_only_frightening_compiles(constraint: Constraint) -> None:
    started = time.process_time()
    COMPILER.compile(constraint)
    assert time.process_time() - started < SOON_S


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ('{"type": "object", "properties": {"a": {"maxLen": 3}}}', "#/properties/a: the keyword"),
        ('{"anyOf": [{}, {"items": {"unique": 1}}]}', "#/anyOf/1/items: the keyword"),
        ('{"$defs": {"x": {"iff": {}}}, "$ref": "#/$defs/x"}', "#/$defs/x: the keyword 'iff'"),
        (
            '{"items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"uniqueItems": true}}}',
            "#/$defs/x: uniqueItems",
        ),
        ('{"properties": {"a": {"minProperties": 2}}}', "#/properties/a: minProperties"),
        ('{"properties": {"a": {"multipleOf": 0.7}}}', "#/properties/a: multiples of 0.7"),
        ('{"items": {"contains": {}, "minContains": 1e9}}', "#/items: contains"),
    ],
)
def test_a_keyword_that_would_be_ignored_is_named(value: str, place: str) -> None:
    with pytest.raises(InvalidField, match="at ") as refused:
        COMPILER.compile(Constraint(kind="json_schema", value=value))
    assert place in refused.value.message


@pytest.mark.parametrize(
    ("value", "ignored"),
    [
        ('{"type": "string", "maxLen": 3, "if": {}, "format": "bogus"}', "/maxLen /format"),
        ('{"items": {"type": "array", "uniqueItems": true}}', "/items/uniqueItems"),
        ('{"type": "object", "minProperties": 2}', "minProperties"),
        ('{"properties": {"a b": {"$ref": "#/x-y"}}, "x-y": {"é;": 1}}', "/x-y/%C3%A9%3B"),
        ('{"$schema": "https://else.where/", "type": "null"}', "/$schema"),
        ('{"not": {"format": "bogus"}}', "/not/format"),
        ('{"type": "object", "not": {"propertyNames": {}}}', "/not/propertyNames"),
    ],
)
def test_lenient_schemas_let_it_pass_and_name_it(value: str, ignored: str) -> None:
    with pytest.raises(InvalidField):
        COMPILER.compile(Constraint(kind="json_schema", value=value))
    names = tuple(f"it#{name}" for name in ignored.split())
    made = COMPILER.compile(Constraint(kind="json_schema", value=value, lenient=True, param="it"))
    assert made.ignored == names
    own = value[:-1] + ', "x-guidance": {"lenient": true}}'
    assert COMPILER.compile(Constraint(kind="json_schema", value=own, param="it")).ignored == names


@pytest.mark.parametrize(
    ("value", "ignored"),
    [
        ('{"oneOf": [{"type": "null"}, {"const": 1}]}', ()),  # exact either way
        ('{"oneOf": [{"type": "number"}, {"const": 1}]}', ("it#/oneOf",)),
        ('{"type": "array", "uniqueItems": true, "maxItems": 1}', ()),
        ('{"type": "null", "format": "date", "x-own": 1, "title": ""}', ()),
    ],
)
def test_lenient_schemas_name_only_what_is_not_held_to(value: str, ignored: tuple[str]) -> None:
    lenient = Constraint(kind="json_schema", value=value, lenient=True, param="it")
    assert COMPILER.compile(lenient).ignored == ignored


def test_many_ignored_keywords_are_named_without_their_places() -> None:
    names = ", ".join(f'"p{i}": {{"maxLen": 1, "minLen": 1}}' for i in range(40))
    value = f'{{"type": "object", "properties": {{{names}}}}}'
    lenient = Constraint(kind="json_schema", value=value, lenient=True, param="it")
    assert COMPILER.compile(lenient).ignored == ("it#maxLen", "it#minLen")


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        ('start: "%json {"', "%json {"),
        ('start: "a" // %json {\n', "a"),
        ('start: "//" %json {"const": "/"} /b/', '//"/"b'),
    ],
)
def test_a_schema_in_a_lark_grammar_is_none_within_a_string(grammar: str, text: str) -> None:
    assert is_whole(COMPILER.compile(Constraint(kind="lark", value=grammar)), text)


def test_a_format_may_be_a_mere_annotation() -> None:
    own = '"x-guidance": {"format": "annotation"}'
    value = f'{{"type": "string", "format": "date", {own}, "not": {{"format": "bogus"}}}}'
    with pytest.raises(InvalidField, match="no value fits"):  # a format says nothing: not nothing
        COMPILER.compile(Constraint(kind="json_schema", value=value))
    value = f'{{"type": "string", "format": "date", {own}}}'
    made = COMPILER.compile(Constraint(kind="json_schema", value=value, param="it"))
    assert is_whole(made, '"tomorrow"')
    assert made.ignored == ("it#/format",)


@pytest.mark.parametrize(
    "keyword",
    ['"title": "t"', '"$schema": "https://json-schema.org/draft/2020-12/schema"', '"x-order": 3'],
)
def test_annotations_are_fine(keyword: str) -> None:
    value = f'{{"type": "string", "maxLength": 2, "examples": ["a"], "default": "", {keyword}}}'
    COMPILER.compile(Constraint(kind="json_schema", value=value))


@pytest.mark.parametrize(
    ("whitespace", "own", "texts"),
    [
        (None, "", {"[1, 2]": True, "[1,\n  2]": True}),
        (None, "", {"[1,  2]": False}),
        ("", "", {"[1, 2]": False, "[1,2]": True}),
        ("\\t?", "", {"[1,\t2]": True, "[1, 2]": False}),
        ("", '"whitespace_flexible": true', {"[1,  \n2]": True}),
        ("", '"item_separator": ", "', {"[1, 2]": True, "[1,2]": False}),
        ("", '"item_separator": " ?; "', {"[1 ; 2]": True, "[1,2]": False}),
    ],
)
def test_whitespace_is_the_callers_to_choose(
    whitespace: str | None, own: str, texts: dict[str, bool]
) -> None:
    schema = f'{{"type": "array", "x-guidance": {{{own}}}}}'
    made = COMPILER.compile(Constraint(kind="json_schema", value=schema, whitespace=whitespace))
    assert {text: is_whole(made, text) for text in texts} == texts
