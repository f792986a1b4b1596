"""The parts of a schema and the targets of references: pointers, anchors, identifiers. Nothing is downloaded."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote, urldefrag, urljoin

from segue.engine.constraints.grammar import GrammarError
from segue.engine.constraints.schemas.values import Json, type_of

OLD = ("draft-04", "draft-06", "draft-07")  # in which a $ref hides what stands beside it
_ONE = (
    *("items", "additionalItems", "additionalProperties", "propertyNames", "contains", "not"),
    *("if", "then", "else", "unevaluatedItems", "unevaluatedProperties"),
)
_LIST = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
_MAP = (
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
)


@dataclass(frozen=True, eq=False)
class Part:
    """A schema within the document."""

    value: Json = field(repr=False)
    path: str
    base: str = ""
    draft: str = ""  # what $schema says, empty if nothing

    def child(self, *steps: str | int) -> "Part":
        value, path, base, draft = self.value, self.path, self.base, self.draft
        for step in steps:
            value = value[step]
            path += "/" + str(step).replace("~", "~0").replace("/", "~1")
            if isinstance(value, dict):
                base, draft = _identity(value, base, draft)
        return Part(value, path, base, draft)

    @property
    def is_old(self) -> bool:
        return any(name in self.draft for name in OLD)


def _identity(schema: dict[str, Json], base: str, draft: str) -> tuple[str, str]:
    if isinstance(dialect := schema.get("$schema"), str):
        draft = dialect
    own = schema.get("$id", schema.get("id") if "draft-04" in draft else None)
    hidden = "$ref" in schema and any(name in draft for name in OLD)
    if isinstance(own, str) and not own.startswith("#") and not hidden:
        try:
            base = urldefrag(urljoin(base, own)).url
        except ValueError:
            raise GrammarError(f"$id {own[:100]!r} is no address") from None
    return base, draft


class Documents:
    """One document with the schemas that it embeds."""

    def __init__(self, schema: Json) -> None:
        base, draft = _identity(schema, "", "") if isinstance(schema, dict) else ("", "")
        self.root = Part(schema, "#", base, draft)
        # One for each schema, however it is reached.
        self._parts: dict[tuple[int, str, str], Part] = {}
        self._made: dict[str, Part] = {}
        self._named: dict[str, Part] = {"": self.root, base: self.root}
        for part in _all(self.root):
            self._name(self.same(part))

    def same(self, part: Part) -> Part:
        """The unique object for this part."""
        if not isinstance(part.value, dict | list):
            return self._parts.setdefault((-1, part.path, part.base), part)
        return self._parts.setdefault((id(part.value), part.base, part.draft), part)

    def _name(self, part: Part) -> None:
        schema = part.value
        if not isinstance(schema, dict):
            return
        own = schema.get("$id", schema.get("id"))
        if isinstance(own, str):
            if own.startswith("#"):
                self._named.setdefault(part.base + own, part)
            else:
                self._named.setdefault(part.base, part)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := schema.get(keyword), str):
                self._named.setdefault(f"{part.base}#{anchor}", part)

    def made(self, part: Part, parts: list[Part]) -> Part:
        """A schema that is not in the document: one of these."""
        key = "|".join(str(id(other.value)) for other in parts)
        if any((other.base, other.draft) != (part.base, part.draft) for other in parts):
            raise GrammarError(f"at {part.path}: items of several documents are not kept apart")
        schema = {"anyOf": [other.value for other in parts]}
        return self._made.setdefault(key, Part(schema, part.path, part.base, part.draft))

    def constant(self, part: Part, value: Json) -> Part:
        """A schema for one array or object, in terms of its parts."""
        if isinstance(value, list):
            items = [{"const": item} for item in value]
            size = len(value)
            schema = {"type": "array", "prefixItems": items, "minItems": size, "maxItems": size}
        else:
            schema = {
                "type": "object",
                "properties": {name: {"const": item} for name, item in value.items()},
                "required": list(value),
                "additionalProperties": False,
            }
        return self._made.setdefault(f"={id(value)}", Part(schema, part.path, part.base, ""))

    def target(self, part: Part, reference: Json) -> Part:
        """The target of a $ref. Raises GrammarError."""
        if not isinstance(reference, str):
            raise GrammarError(f"at {part.path}: $ref must be a text")
        try:
            is_inside = reference.startswith("#")
            url, fragment = urldefrag(
                part.base + reference if is_inside else urljoin(part.base, reference)
            )
        except ValueError:
            raise GrammarError(f"at {part.path}: $ref {reference[:100]!r} is no address") from None
        if fragment.startswith("/") or not fragment:
            found = self._named.get(url)
            if found is None:
                raise GrammarError(
                    f"at {part.path}: $ref must point into the schema itself (#/...), not to {reference[:100]!r}"
                )
            return self.same(self._follow(found, unquote(fragment), reference))
        named = self._named.get(f"{url}#{unquote(fragment)}")
        if named is None:
            raise GrammarError(f"at {part.path}: nothing is called {reference[:100]!r}")
        return named

    def _follow(self, part: Part, pointer: str, reference: str) -> Part:
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            value = part.value
            if isinstance(value, dict) and name in value:
                part = part.child(name)
            elif isinstance(value, list) and _is_index(name) and int(name) < len(value):
                part = part.child(int(name))
            else:
                raise GrammarError(f"$ref {reference[:100]!r} points at nothing")
        if type_of(part.value) not in ("object", "boolean"):
            raise GrammarError(f"$ref {reference[:100]!r} points at no schema")
        return part


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdecimal() and len(step) < 10


def _all(root: Part) -> Iterator[Part]:
    stack = [root]
    while stack:
        part = stack.pop()
        yield part
        if isinstance(part.value, dict):
            stack.extend(_inside(part))


def _inside(part: Part) -> Iterator[Part]:
    for keyword, value in part.value.items():
        if keyword in _LIST and isinstance(value, list):
            yield from (part.child(keyword, i) for i in range(len(value)))
        elif keyword in _MAP and isinstance(value, dict):
            yield from (part.child(keyword, name) for name in value)
        elif keyword in _ONE:
            yield part.child(keyword)
