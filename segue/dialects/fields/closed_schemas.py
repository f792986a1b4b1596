"""Schemas whose objects have no properties but those that they list.

A JSON schema allows properties that it does not mention. llama.cpp's converter, by which Ollama constrains answers too,
and vLLM's xgrammar read one otherwise: an object that lists `properties` and says nothing of others has no others.
Clients count on it: a schema made from a class seldom says `additionalProperties: false`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from segue.bounds import MAX_CONSTRAINT_CHARS
from segue.dialects.fields.kinds import Kind
from segue.types import Constraint, ConstraintKind

_DECODER = msgspec.json.Decoder(float_hook=Decimal)  # digits stay as they are written
_ENCODER = msgspec.json.Encoder(decimal_format="number")

# What says nothing of a value, or nothing that another part of the schema could contradict once that is closed.
_NOTES = frozenset({"type", "nullable", "title", "description", "default", "example", "examples"})
_NOTES |= {"deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$defs", "definitions"}
_NOTES |= {"discriminator"}
_PLAIN = frozenset({"properties", "required", "additionalProperties", "maxProperties", "items"})
_PLAIN |= {"prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "format"}
_PLAIN |= {"minLength", "maxLength", "pattern", "multipleOf", "minimum", "maximum"}
_PLAIN |= {"exclusiveMinimum", "exclusiveMaximum"} | _NOTES

_MISFITS = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
)  # no schema, or a reference that leads nowhere


@dataclass(frozen=True)
class ListedOnly:
    """A kind whose schemas are read as llama.cpp, Ollama and vLLM read them, those of structural tags too."""

    kind: Kind

    def read(self, value: Any) -> Any:
        found = self.kind.read(value)
        if not isinstance(found, Constraint) or found.kind not in WITH_SCHEMAS:
            return found
        return msgspec.structs.replace(found, value=listed_only(str(found.value), found.kind))

    def schema(self) -> dict[str, Any]:
        return self.kind.schema()


def listed_only(text: str, kind: ConstraintKind) -> str:
    """The text of a constraint, with `additionalProperties: false` in plain objects that say nothing of others.

    What fits then fits the schema as it was. Where parts of a schema speak of the same value (`allOf`, `oneOf`, `if`,
    `not`, …), they and what they refer to are left as they are: closed one by one, they might exclude each other.
    """
    return _with_others(text, kind, False)


def others_too(text: str, kind: ConstraintKind = "json_schema") -> str:
    """The same with `true`: the schema as it was, in words that all dialects read alike."""
    return _with_others(text, kind, True)


def _with_others(text: str, kind: ConstraintKind, are_allowed: bool) -> str:
    if len(text) > MAX_CONSTRAINT_CHARS:
        return text  # the compiler refuses it
    try:
        root = _DECODER.decode(text)
    except (msgspec.DecodeError, ArithmeticError, RecursionError):
        return text  # the compiler says what is wrong with it
    silent = [each for schema in WITH_SCHEMAS[kind](root) for each in _silent(schema)]
    for each in silent:
        each["additionalProperties"] = are_allowed
    return _ENCODER.encode(root).decode() if silent else text


def _of_tag(root: Any) -> Iterator[Any]:
    """The schemas of a structural tag in either form: of its structures, and of its formats however deep."""
    waiting = [root]
    while waiting:
        each = waiting.pop()
        if type(each) is dict:
            yield from (each[key] for key in _OF_FORMATS if key in each)
            waiting += [found for key, found in each.items() if key not in _OF_FORMATS]
        elif type(each) is list:
            waiting += each


_OF_FORMATS = ("json_schema", "schema")  # keys of formats, and of structures
# Kinds of constraints that hold schemas: which ones.
WITH_SCHEMAS: dict[ConstraintKind, Callable[[Any], Iterator[Any]]] = {
    "json_schema": lambda root: iter((root,)),
    "structural_tag": _of_tag,
}


def _silent(root: Any) -> list[dict[str, Any]]:
    """The plain objects of a schema that say nothing of others."""
    try:
        plain, entangled = _parts(root)
    except _MISFITS:
        return []  # the compiler says what is wrong with it
    return [each for key, each in plain.items() if key not in entangled and _is_listed(each)]


def _is_listed(schema: dict[str, Any]) -> bool:
    """Whether it says nothing of others, and lists all that an object needs."""
    names, required = schema.get("properties"), schema.get("required", [])
    if type(names) is not dict or type(required) is not list or "additionalProperties" in schema:
        return False
    return all(type(name) is str and name in names for name in required)


def _parts(root: Any) -> tuple[dict[int, dict[str, Any]], set[int]]:
    """By identity: the schemas that are reached part by part, and those that others speak of too."""
    plain: dict[int, dict[str, Any]] = {}
    entangled: set[int] = set()
    waiting = [(root, False)]
    while waiting:
        schema, is_entangled = waiting.pop()
        if type(schema) is not dict:
            continue
        if is_entangled or not _is_plain(schema, root):
            if id(schema) not in entangled:
                entangled.add(id(schema))
                waiting += [(each, True) for each in _everything(schema, root)]
        elif id(schema) not in plain:
            plain[id(schema)] = schema
            waiting += [(each, False) for each in _parts_of(schema, root)]
    return plain, entangled


def _is_plain(schema: dict[str, Any], root: Any) -> bool:
    """A union or a reference is plain where nothing beside it speaks of the same value."""
    keys = {key for key in schema if not key.startswith("x-")}
    if schema is root:
        keys -= {"$id", "id"}
    match sorted(keys - _NOTES):
        case ["anyOf"] | ["$ref"]:
            return True
        case ["allOf"]:
            return len(schema["allOf"]) == 1
        case ["oneOf"]:
            return _are_told_apart([_resolved(each, root) for each in schema["oneOf"]])
    return keys <= _PLAIN


def _are_told_apart(options: list[Any]) -> bool:
    """Whether a property that each must have has another value in each, whatever else they have."""
    shared = set.intersection(*(set(option.get("required", ())) for option in options))
    tags = [[option["properties"].get(name) for option in options] for name in sorted(shared)]
    values = [[tag.get("const") for tag in each if tag] for each in tags]
    return any(
        len({value for value in each if type(value) is str}) == len(options) for each in values
    )


def _resolved(schema: Any, root: Any) -> Any:
    return _target(schema["$ref"], root) if "$ref" in schema else schema


def _parts_of(schema: dict[str, Any], root: Any) -> Iterator[Any]:
    """Definitions are reached by what refers to them."""
    yield from schema.get("properties", {}).values()
    for key in ("additionalProperties", "additionalItems"):
        yield schema.get(key)
    for key in ("items", "prefixItems", "allOf", "anyOf", "oneOf"):
        found = schema.get(key)
        yield from found if type(found) is list else [found]
    if "$ref" in schema:
        yield _target(schema["$ref"], root)


def _everything(schema: dict[str, Any], root: Any) -> Iterator[Any]:
    for key, found in schema.items():
        if key == "$ref":
            yield _target(found, root)
        else:
            yield from found if type(found) is list else [found]


def _target(reference: str, root: Any) -> Any:
    """Raises LookupError for what is no JSON pointer into the schema."""
    place, *names = reference.split("/")
    if place != "#":
        raise LookupError(reference)
    found = root
    for name in names:
        key = name.replace("~1", "/").replace("~0", "~")
        found = found[int(key) if type(found) is list else key]
    return found


# --- every object, as vLLM's disable_additional_properties asks for --------------------------------

_NO_SCHEMAS = frozenset({"const", "enum", "default", "example", "examples"})  # no schemas
# A schema for each name.
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
_BY_NAME |= {"$defs", "definitions"}


def all_closed(schema: Any) -> Any:
    """The schema with additionalProperties: false in every object that says something of its properties."""
    if type(schema) is list:
        return [all_closed(each) for each in schema]
    if type(schema) is not dict:
        return schema
    closed = {key: _all_closed_within(key, value) for key, value in schema.items()}
    has_names = schema.keys() & {"properties", "patternProperties"}
    return {"additionalProperties": False, **closed} if has_names else closed


def _all_closed_within(keyword: str, value: Any) -> Any:
    if keyword in _NO_SCHEMAS:
        return value
    if keyword in _BY_NAME and type(value) is dict:
        return {name: all_closed(each) for name, each in value.items()}
    return all_closed(value)
