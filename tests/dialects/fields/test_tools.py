import json
from typing import Any

import pytest

from segue.bench.exactness.trial import is_whole
from segue.dialects.fields.constraint_fields import CONSTRAINTS
from segue.dialects.fields.table import Draft, Table
from segue.dialects.fields.tools import TOOL_ROWS, call_tool
from segue.engine.constraints.compiler import Compiler
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab

TABLE = Table((*CONSTRAINTS.rows, *TOOL_ROWS))
NOW = {"type": "function", "function": {"name": "now"}}
ADD = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "required": ["x"]}},
}


def read(**body: Any) -> Draft:
    draft = TABLE.read(body)
    call_tool(draft)
    return draft


@pytest.mark.parametrize("choice", ["none", None])
def test_without_a_call_nothing_changes(choice: str | None) -> None:
    draft = read(tools=[NOW], tool_choice=choice)
    assert draft.values == {}
    assert draft.ignored == ([] if choice == "none" else ["tools"])


ADD_ALONE = {"type": "allowed_tools", "mode": "required", "tools": [ADD]}


@pytest.mark.parametrize(
    "choice",
    [{"function": {"name": "add"}}, {"type": "function", "name": "add"}, ADD_ALONE],
    ids=["function", "named", "allowed"],
)
def test_a_named_call_is_the_answer(choice: dict[str, Any]) -> None:
    constraint = read(tools=[NOW, ADD], tool_choice=choice).values["constraint"]
    schema = json.loads(constraint.value)
    assert schema["properties"]["name"] == {"const": "add"}
    arguments = schema["properties"]["arguments"]
    assert arguments == {"$id": "tool:0", "type": "object", "required": ["x"]}
    assert constraint.param == "tools"


def test_tools_that_may_be_called_change_nothing() -> None:
    draft = read(tools=[NOW, ADD], tool_choice={**ADD_ALONE, "mode": "auto"})
    assert (draft.values, draft.ignored) == ({}, ["tools"])


@pytest.mark.parametrize("choice", ["required", {**ADD_ALONE, "tools": [NOW, ADD]}], ids=str)
def test_some_call_is_the_answer(choice: Any) -> None:
    schema = json.loads(read(tools=[NOW, ADD], tool_choice=choice).values["constraint"].value)
    assert [each["properties"]["name"]["const"] for each in schema["anyOf"]] == ["now", "add"]


def tool(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


OWN = {"$ref": "#/$defs/own", "$defs": {"own": {"const": 1}}}
OLD = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$ref": "#/definitions/own",
    "definitions": {"own": {"const": 2}},
}
NAMED = {"$id": "http://a/b", "$ref": "b#/$defs/own", "$defs": {"own": {"const": 3}}}


def test_parameters_refer_to_themselves() -> None:
    tools = [tool("own", OWN), tool("old", OLD), tool("named", NAMED)]
    constraint = read(tools=tools, tool_choice="required").values["constraint"]
    grammar = Compiler(FakeVocab(), VOCAB_SIZE).compile(constraint)
    for number, name in enumerate(("own", "old", "named"), 1):
        assert is_whole(grammar, f'{{"name":"{name}","arguments":{number}}}')
        assert not is_whole(grammar, f'{{"name":"{name}","arguments":{number + 1}}}')


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [NOW], "tool_choice": {"function": {"name": "add"}}}, "tool_choice"),
        ({"tools": [NOW], "tool_choice": "required", "grammar": "root ::= [a]"}, "tool_choice"),
        ({"tools": [NOW], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [NOW], "tool_choice": ADD_ALONE}, "tool_choice"),
        ({"tools": [ADD], "tool_choice": {**ADD_ALONE, "mode": "none"}}, "tool_choice"),
        ({"tools": [ADD], "tool_choice": {**ADD_ALONE, "tools": []}}, "tool_choice"),
        ({"tools": [ADD], "tool_choice": {"type": "function"}}, "tool_choice"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools"),
        ({"tools": [{"type": "search", "function": {"name": "a"}}]}, "tools"),
    ],
)
def test_refused(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as error:
        read(**body)
    assert error.value.param == param
