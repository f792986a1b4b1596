"""JSON schemas, looked at before they are compiled: each keyword must be enforced, and some value must fit.

llguidance refuses keywords that it knows and has not implemented, but lets pass those that it does not know: a
misspelt keyword would leave the output free.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec

from segue.engine.constraints.grammar import GrammarError

MAX_NESTING = 100  # brackets; llguidance's own reader stops at 128
MAX_OPTIONAL = (
    450  # properties of one object that may be left out; each costs the parser a few items
)

Json = Any

_ONE = ("items", "additionalItems", "additionalProperties")  # hold a schema
_LIST = ("anyOf", "oneOf", "allOf", "prefixItems", "items")  # hold schemas in a list
_MAP = ("properties", "patternProperties", "$defs", "definitions")  # hold schemas by name
_ENFORCED = frozenset(
    {*_ONE, *_LIST, *_MAP, "$ref", "const", "enum", "type", "required", "format", "pattern"}
    | {"minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)
_ANNOTATIONS = frozenset(
    {"$schema", "$id", "id", "$anchor", "$comment", "title", "description", "default", "examples"}
    | {"example", "readOnly", "writeOnly", "deprecated", "contentMediaType", "contentEncoding"}
)
_MAX_WORK = 500_000


def read(text: str, lenient: bool) -> dict[str, Json]:
    """The schema, checked. Raises GrammarError."""
    check_nesting(text)
    try:
        schema = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise GrammarError(f"the schema is not JSON: {error}") from None
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise GrammarError("the schema must be a JSON object")
    own = schema.get("x-guidance", {})
    if not isinstance(own, dict):
        raise GrammarError("x-guidance must be a JSON object")
    check(schema, lenient or own.get("lenient") is True)
    return schema


def check_nesting(text: str) -> None:
    """Without reading it: a reader may not survive what is nested too deep."""
    depth = 0
    in_string = is_escaped = False
    for c in text:
        if in_string:
            in_string = c != '"' or is_escaped
            is_escaped = c == "\\" and not is_escaped
        elif c == '"':
            in_string = True
        elif c in "[{":
            depth += 1
            if depth > MAX_NESTING:
                raise GrammarError(f"the schema is nested more than {MAX_NESTING} deep")
        elif c in "]}":
            depth -= 1


def check(schema: Json, lenient: bool = False) -> None:
    for path, part in _subschemas(schema):
        if isinstance(part, dict):
            _check_keywords(path, part, lenient)
            _check_size(path, part)
        elif not isinstance(part, bool):
            raise GrammarError(f"at {path}: a schema must be an object or a boolean")
    if not _Endings(schema).has_end():
        raise GrammarError("no finite value fits the schema: it always requires itself again")


def _check_keywords(path: str, schema: dict[str, Json], lenient: bool) -> None:
    for keyword, value in schema.items():
        is_known = keyword in _ENFORCED or keyword in _ANNOTATIONS or keyword.startswith("x-")
        if not is_known and not lenient:
            raise GrammarError(
                f"at {path}: the keyword {keyword!r} cannot be enforced; leave it out, or ask for "
                "lenient schemas to have it ignored"
            )
        if keyword == "$ref" and not (isinstance(value, str) and value.startswith("#")):
            raise GrammarError(f"at {path}: $ref must point into the schema itself: #/...")


def _check_size(path: str, schema: dict[str, Json]) -> None:
    properties, required = schema.get("properties"), schema.get("required", ())
    if isinstance(properties, dict) and isinstance(required, list | tuple):
        num_optional = sum(name not in required for name in properties)
        if num_optional > MAX_OPTIONAL:
            raise GrammarError(
                f"at {path}: {num_optional} properties may be left out; at most {MAX_OPTIONAL} can"
            )


def _subschemas(schema: Json) -> Iterator[tuple[str, Json]]:
    """Every schema in it with its place, itself first. What is no schema, such as an enum, is not entered."""
    stack = [("#", schema)]
    while stack:
        path, part = stack.pop()
        yield path, part
        if not isinstance(part, dict):
            continue
        for key, value in part.items():
            inside: Iterator[tuple[Json, Json]] = iter(())
            if key in _LIST and isinstance(value, list):
                inside = iter(enumerate(value))
            elif key in _MAP and isinstance(value, dict):
                inside = iter(value.items())
            elif key in _ONE:
                stack.append((f"{path}/{key}", value))
            stack.extend((f"{path}/{key}/{name}", child) for name, child in inside)


# --- whether a value that fits can be finite ------------------------------------------------------


class _Endings:
    """Which references have a finite value, found from the ends backwards."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._ending: set[str] = set()
        self._blockers: set[str] = set()  # references that the current answer was no for
        self._work = 0

    def has_end(self) -> bool:
        waiting: dict[str, set[str]] = defaultdict(set)  # by what they wait for
        queue, seen = ["#"], {"#"}
        while queue:
            ref = queue.pop()
            self._blockers = set()
            if ref in self._ending:
                continue
            if self._can_end(_target(self._schema, ref)):
                self._ending.add(ref)
                queue.extend(waiting.pop(ref, ()))
            for blocker in self._blockers:
                waiting[blocker].add(ref)
            queue.extend(self._blockers - seen)
            seen |= self._blockers
            if self._work > _MAX_WORK:
                return True  # not known: the compiler has its own limits
        return "#" in self._ending

    def _can_end(self, schema: Json) -> bool:
        self._work += 1
        if not isinstance(schema, dict):
            return schema is not False
        if "const" in schema or "enum" in schema:
            return True
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref not in self._ending:
            self._blockers.add(ref)
            return False
        for keyword, enough in (("anyOf", any), ("oneOf", any), ("allOf", all)):
            options = schema.get(keyword)
            if isinstance(options, list) and not enough(map(self._can_end, options)):
                return False
        return self._own_type_can_end(schema)

    def _own_type_can_end(self, schema: dict[str, Json]) -> bool:
        kind = schema.get("type")
        kinds: list[str] = kind if isinstance(kind, list) else [str(kind)]
        if not all(kind in ("object", "array") for kind in kinds):
            return True
        return any(all(map(self._can_end, _needed(schema, kind))) for kind in kinds)


def _target(schema: Json, ref: str) -> Json:
    """What a pointer points at. What is not found is the compiler's to complain about."""
    found = schema
    for step in ref.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return True
    return found


def _needed(schema: dict[str, Json], kind: str) -> list[Json]:
    """The schemas of the parts that an object or array cannot go without."""
    if kind == "object":
        properties, required = schema.get("properties", {}), schema.get("required", ())
        others = schema.get("additionalProperties", True)
        if not isinstance(properties, dict) or not isinstance(required, list | tuple):
            return []
        return [properties.get(name, others) for name in required if isinstance(name, str)]
    least = schema.get("minItems", 0)
    first = schema.get("prefixItems", ())
    if not isinstance(least, int) or not isinstance(first, list | tuple):
        return []
    rest = [schema.get("items", True)] if least > len(first) else []
    return [*first[:least], *rest]
