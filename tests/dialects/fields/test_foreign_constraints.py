"""A constraint that any dialect knows is refused where it cannot be enforced."""

from collections.abc import Iterable
from typing import Any

import pytest

from segue.dialects import DIALECTS
from segue.dialects.base import Operation, Stamp
from segue.dialects.fields.constraint_fields import CONSTRAINTS
from segue.dialects.fields.foreign_constraints import ELSEWHERE
from segue.errors import InvalidField

STAMP = Stamp(request_id="r", public_id="r", created=0, seed=1, fingerprint="f")
BODY = {"model": "m", "prompt": "p", "token_ids": [1], "input_prefix": "a", "input_suffix": "b"}
SCHEMA = {"type": "object"}
ASKED: dict[str, Any] = {
    "grammar": 'root ::= "a"',
    "json_schema": SCHEMA,
    "response_format": {"type": "json_object"},
    "structured_outputs": {"regex": "a"},
    "guided_json": SCHEMA,
    "guided_regex": "a",
    "guided_choice": ["a"],
    "guided_grammar": 'root ::= "a"',
    "format": "json",
    "tool_choice": "required",
    "regex": "a",
    "ebnf": 'root ::= "a"',
    "structural_tag": {"structures": [], "triggers": []},
    "guided_json_object": True,
    "guided_decoding": {"regex": "a"},
}
NOT_ASKED: dict[str, Any] = {
    "grammar": "",
    "response_format": {"type": "text"},
    "format": "",
    "tool_choice": "auto",
    "guided_json_object": False,
}

OPERATIONS = {
    dialect.name + operation.path: operation
    for dialect in DIALECTS
    for operation in dialect.operations
    if "stream" in operation.table.known  # the others write no text
}


def knows(operation: Operation, name: str) -> bool:
    return any(name in row.spellings for row in operation.table.rows)


def foreign(names: Iterable[str]) -> list[tuple[str, str]]:
    """Each operation with each of these fields that it does not know."""
    return [
        (which, name)
        for which, operation in OPERATIONS.items()
        for name in names
        if not knows(operation, name)
    ]


def test_the_table_is_whole() -> None:
    assert {row.name for row in CONSTRAINTS.rows} == ASKED.keys() - {"tool_choice", *ELSEWHERE}


@pytest.mark.parametrize(("which", "name"), foreign(ASKED))
def test_a_constraint_of_another_dialect_is_refused(which: str, name: str) -> None:
    with pytest.raises(InvalidField) as refused:
        OPERATIONS[which].parse({**BODY, name: ASKED[name]}, STAMP)
    assert refused.value.param == name


@pytest.mark.parametrize("which", OPERATIONS)
@pytest.mark.parametrize("name", ["guided_choice", "json_schema", "guided_regex"])
def test_an_empty_one_is_refused_by_every_dialect(which: str, name: str) -> None:
    empty = [] if name == "guided_choice" else ""
    with pytest.raises(InvalidField) as refused:
        OPERATIONS[which].parse({**BODY, name: empty}, STAMP)
    assert refused.value.param == name


@pytest.mark.parametrize(("which", "name"), foreign(["tool_choice", "response_format"]))
def test_a_malformed_one_may_have_meant_a_constraint(which: str, name: str) -> None:
    with pytest.raises(InvalidField) as refused:
        OPERATIONS[which].parse({**BODY, name: 5}, STAMP)
    assert refused.value.param == name


@pytest.mark.parametrize(
    ("which", "group"),
    [("vllm/inference/v1/generate", "sampling_params"), ("ollama/api/generate", "options")],
)
def test_one_inside_an_object_is_refused_too(which: str, group: str) -> None:
    with pytest.raises(InvalidField) as refused:
        OPERATIONS[which].parse({**BODY, group: {"grammar": 'root ::= "a"'}}, STAMP)
    assert refused.value.param == f"{group}.grammar"
    call = OPERATIONS[which].parse({**BODY, group: {"grammar": "", "a.regex": 1}}, STAMP)
    assert {f"{group}.grammar", f"{group}.a.regex"} <= {*call.ignored}


@pytest.mark.parametrize(("which", "name"), foreign(NOT_ASKED))
def test_what_asks_for_nothing_is_only_named(which: str, name: str) -> None:
    call = OPERATIONS[which].parse({**BODY, name: NOT_ASKED[name]}, STAMP)
    assert name in call.ignored
    assert call.request.constraint is None


def test_the_field_of_the_same_name_is_proposed() -> None:
    with pytest.raises(InvalidField, match=r"regex cannot be enforced here: use guided_regex$"):
        OPERATIONS["openai/v1/completions"].parse({**BODY, "regex": "a+"}, STAMP)
