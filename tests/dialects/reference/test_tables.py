from typing import Any

import pytest

from segue.dialects import DIALECTS
from segue.dialects.base import Dialect
from segue.dialects.llamacpp import LLAMACPP
from segue.dialects.openai import OPENAI
from segue.dialects.reference.tables import INTRODUCTION, entries, spell, takers


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 0, "maximum": 5}, "integer 0 to 5"),
        ({"type": "integer", "minimum": -1, "maximum": 2**31 - 1}, "integer -1 to 2^31"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "number >0 to 1"),
        ({"type": "array", "items": {"type": "string"}}, "list of string"),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "list of (string or null)"),
        ({"anyOf": [{"type": "string"}, {"enum": ["a", "b"]}]}, 'string or "a" | "b"'),
        ({"const": 1}, "1"),
        ({}, "any"),
    ],
)
def test_schemas_in_words(schema: dict[str, Any], words: str) -> None:
    assert spell(schema) == words


def test_defaults_are_the_dialects_own() -> None:
    root = {entry.name: entry for entry in entries(OPENAI.operations[0].table)}
    llamacpp = {entry.name: entry for entry in entries(LLAMACPP.operations[0].table)}
    assert (root["temperature"].default, llamacpp["temperature"].default) == ("1.0", "0.8")
    assert root["prompt"].default == "required"
    # The core knows it the other way round, so its default is not the field's.
    assert root["skip_special_tokens"].default == ""


def test_every_name_is_found() -> None:
    taken = takers([OPENAI, LLAMACPP])
    assert taken["max_tokens"] == [True, True]
    assert taken["response_fields"] == [False, True]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_differences_are_sentences(dialect: Dialect) -> None:
    """Every system has some that are told; the root dialect copies nobody."""
    assert dialect.differences or dialect.name == "openai"
    for what, why in dialect.differences:
        assert what.endswith(".")
        assert why.endswith(".")


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_every_row_is_documented(dialect: Dialect) -> None:
    tables = [operation.table for operation in dialect.operations]
    tables += [companion.table for companion in dialect.companions]
    for table in tables:
        assert all(entry.doc.endswith(".") and entry.type for entry in entries(table))


def test_the_promise_about_seeds_has_its_conditions() -> None:
    seed = INTRODUCTION.partition("`x-segue-seed`")[2].partition("\n- ")[0]
    for condition in ("version", "file", "runner", "`deterministic`"):
        assert condition in seed
