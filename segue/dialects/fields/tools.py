"""Tools of a completion: where tool_choice requires a call, the answer is the JSON of that call."""

from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class ToolChoice:
    """none, auto, required, or the name of a function in {"function": {"name": ...}}."""

    def read(self, value: Any) -> tuple[str, str]:
        if value in ("none", "auto", "required"):
            return value, ""
        function = value.get("function") if type(value) is dict else None
        name = function.get("name") if type(function) is dict else None
        if type(name) is not str:
            raise Mismatch('"none", "auto", "required" or a function with its name', value)
        return "required", name

    def schema(self) -> dict[str, Any]:
        named = {"type": "object", "properties": {"function": {"type": "object"}}}
        return {"anyOf": [{"enum": ["none", "auto", "required"]}, named]}


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
    choice, wanted = draft.values.pop("shape.tool_choice", ("auto", ""))
    if choice != "required":
        if choice == "auto" and tools:
            draft.ignored.append("tools")
        return
    if wanted and wanted not in tools:
        raise draft.refuse("shape.tool_choice", f"names {wanted!r}, which is not among the tools")
    if not tools:
        raise draft.refuse("shape.tool_choice", "requires a call, but there are no tools")
    if "constraint" in draft.given:
        other = draft.given["constraint"]
        raise draft.refuse("shape.tool_choice", f"cannot be given together with {other}")
    names = [wanted] if wanted else list(tools)
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
