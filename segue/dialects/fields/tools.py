"""Tools of a completion: where tool_choice requires a call, the answer is the JSON of that call."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from segue.bounds import MAX_TOOLS
from segue.dialects.fields.kinds import Mismatch
from segue.dialects.fields.table import Draft, Field
from segue.types import Constraint


@dataclass(frozen=True)
class Tools:
    """Each tool's name with the schema of its parameters."""

    def read(self, value: Any) -> Any:
        if type(value) is not list or len(value) > MAX_TOOLS:
            raise Mismatch(f"a list of at most {MAX_TOOLS} tools", value)
        return dict(_tool(tool, f"[{i}]") for i, tool in enumerate(value)) or UNSET

    def schema(self) -> dict[str, Any]:
        name = {"name": {"type": "string"}, "parameters": {"type": ["object", "null"]}}
        function = {"type": "object", "properties": name, "required": ["name"]}
        tool = {
            "type": "object",
            "properties": {"type": {"const": "function"}, "function": function},
        }
        return {"type": "array", "items": tool, "maxItems": MAX_TOOLS}


def _tool(tool: Any, at: str) -> tuple[str, dict[str, Any]]:
    function = tool.get("function") if type(tool) is dict else None
    name = function.get("name") if type(function) is dict else None
    if type(function) is not dict or type(name) is not str or tool.get("type") != "function":
        raise Mismatch('a tool of type "function" with a function that has a name', tool, at)
    parameters = function.get("parameters")
    if parameters is not None and type(parameters) is not dict:
        raise Mismatch("a JSON schema", parameters, f"{at}.function.parameters")
    return name, parameters or {"type": "object"}


_MODES = ("none", "auto", "required")
_CHOICES = (
    '"none", "auto", "required", a function with its name, or allowed_tools with a mode and tools'
)


class Chosen(NamedTuple):
    mode: str
    names: tuple[str, ...] = ()  # of the tools that may be called; none: all of them


@dataclass(frozen=True)
class ToolChoice:
    """none, auto, required; a function, {"function": {"name": ...}} or {"type": "function", "name": ...}; or some of
    the tools: {"type": "allowed_tools", "mode": "auto" or "required", "tools": [...]}."""

    def read(self, value: Any) -> Chosen:
        if value in _MODES:
            return Chosen(value)
        if type(value) is not dict:
            raise Mismatch(_CHOICES, value)
        if value.get("type") != "allowed_tools":
            return Chosen("required", (_name(value),))
        mode, tools = value.get("mode"), value.get("tools")
        if mode not in _MODES[1:] or type(tools) is not list or not 0 < len(tools) <= MAX_TOOLS:
            raise Mismatch(_CHOICES, value)
        return Chosen(mode, tuple(_name(tool) for tool in tools))

    def schema(self) -> dict[str, Any]:
        named = {"type": "object", "properties": {"function": {"type": "object"}}}
        return {"anyOf": [{"enum": [*_MODES]}, named]}


def _name(function: Any) -> str:
    """It is beside the type, or in an object of its own."""
    inner = function.get("function", function) if type(function) is dict else None
    name = inner.get("name") if type(inner) is dict else None
    if type(name) is not str:
        raise Mismatch(_CHOICES, function)
    return name


TOOL_ROWS = (
    Field("tools", Tools(), "Functions the answer may call.", "shape.tools"),
    Field(
        "tool_choice",
        ToolChoice(),
        "`required`, or a function: the answer is the JSON of its call.",
        "shape.tool_choice",
    ),
)


def call_tool(draft: Draft) -> None:
    """Only a required call changes a text completion, since tools are not written into its prompt."""
    tools: dict[str, Any] = draft.values.pop("shape.tools", {})
    mode, wanted = draft.values.pop("shape.tool_choice", Chosen("auto"))
    if mode != "required":
        if mode == "auto" and tools:
            draft.ignored.append("tools")
        return
    for name in wanted:
        if name not in tools:
            raise draft.refuse("shape.tool_choice", f"names {name!r}, which is not among the tools")
    if not tools:
        raise draft.refuse("shape.tool_choice", "requires a call, but there are no tools")
    if "constraint" in draft.given:
        other = draft.given["constraint"]
        raise draft.refuse("shape.tool_choice", f"cannot be given together with {other}")
    names = wanted or tuple(tools)
    calls = [_call(name, _alone(tools[name], f"tool:{i}")) for i, name in enumerate(names)]
    schema = calls[0] if len(calls) == 1 else {"anyOf": calls}
    draft.values["constraint"] = Constraint(
        kind="json_schema", value=msgspec.json.encode(schema).decode(), param="tools"
    )


def _alone(schema: dict[str, Any], own_id: str) -> dict[str, Any]:
    """The same within another schema: an address of its own, by which its references find their targets in it."""
    if "$id" in schema:
        return schema
    if "$ref" not in schema or "draft-0" not in str(schema.get("$schema")):
        return {"$id": own_id, **schema}
    # Up to draft 7 a $ref hides what stands beside it, an $id too.
    kept: dict[str, Any] = {
        key: schema[key] for key in ("$schema", "definitions", "$defs") if key in schema
    }
    return {"$id": own_id, **kept, "allOf": [{"$ref": schema["$ref"]}]}


def _call(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": parameters},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
