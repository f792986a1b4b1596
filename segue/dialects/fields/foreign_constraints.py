"""Constraints that only other dialects know: refused, since the answer would be free text otherwise."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET

from segue.dialects.fields.constraint_fields import CONSTRAINTS
from segue.dialects.fields.kinds import Kind, Mismatch
from segue.dialects.fields.table import Draft, Table
from segue.dialects.fields.tools import ToolChoice
from segue.errors import InvalidField


def _constrains(kind: Kind) -> Callable[[Any], bool]:
    """Whether a value asks for anything. {"type": "text"} does not; a malformed one does."""

    def constrains(value: Any) -> bool:
        try:
            return kind.read(value) is not UNSET
        except Mismatch:
            return True

    return constrains


def _requires_call(value: Any) -> bool:
    try:
        return ToolChoice().read(value)[0] == "required"
    except Mismatch:
        return True


# By these other servers constrain an answer (SGLang, older versions of vLLM); no dialect here has them.
ELSEWHERE = ("regex", "ebnf", "structural_tag", "guided_json_object", "guided_decoding")

# Every field by which some dialect constrains an answer, and whether a value of it does.
_KNOWN: dict[str, Callable[[Any], bool]] = {
    **{row.name: _constrains(row.kind) for row in CONSTRAINTS.rows},
    "tool_choice": _requires_call,
    **dict.fromkeys(ELSEWHERE, lambda value: value is not False),
}


def refuse_foreign(draft: Draft, body: Mapping[str, Any], table: Table) -> None:
    """Raises InvalidField for a constraint among the fields that `table` does not know."""
    for name in draft.ignored:
        fields, inner = (body, name) if name in body else _inside(body, name)
        if inner in _KNOWN and name not in table.known and _KNOWN[inner](fields[inner]):
            raise InvalidField(
                f"{name} cannot be enforced here: {_instead(name, table)}", param=name
            )


def _inside(body: Mapping[str, Any], name: str) -> tuple[Mapping[str, Any], str]:
    """The object of the body that has the field, and what that is called there: `options.grammar`."""
    group, _, inner = name.partition(".")
    return body[group], inner


def _instead(name: str, table: Table) -> str:
    """The field that has the name in its own, as guided_regex has regex; else any that constrains."""
    names = [row.name for row in table.rows if row.target == "constraint"]
    names = [each for each in names if name in each.split("_")] or names
    return f"use {' or '.join(names)}" if names else "this dialect has no constraints"
