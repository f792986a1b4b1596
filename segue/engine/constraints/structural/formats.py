"""Structural tags as rules. Both forms: a tree of formats, and structures with triggers.

What follows a free text tells where it ends, and so do the ends of the tag around it. What cannot be told apart is
refused, as is every key that is not known: a constraint must not be passed by.
"""

from collections.abc import Callable
from typing import Any

from segue.engine.constraints import gbnf
from segue.engine.constraints.grammar import GrammarError, Node, Ref, Repeat, Rules, either, renamed
from segue.engine.constraints.schemas.values import Json
from segue.engine.constraints.structural import shapes, tags, texts, token_formats
from segue.engine.constraints.structural.joining import one_after_another
from segue.engine.constraints.structural.shapes import read
from segue.engine.constraints.structural.walking import At, Schemas, Walker
from segue.engine.constraints.tokens import KnownTokens, TokenSets

MAX_DEPTH = 32
MAX_FORMATS = 2000
# Schemas whose properties come in any order; of more none do, or they would cost too much.
MAX_ANY_ORDER_SCHEMAS = 16


def rules_of(whole: Json, schemas: Schemas, known: KnownTokens | None) -> Rules:
    """Raises GrammarError with the place in the format."""
    walker = _Walker(schemas, TokenSets(known), _num_any_order(whole) <= MAX_ANY_ORDER_SCHEMAS)
    match whole:
        case {"format": inner}:
            read(shapes.Whole, whole, "it")
            root = walker.format(inner, At("format"))
        case {"structures": _}:
            root = tags.structures(walker, read(shapes.Structures, whole, ""))
        case _:
            raise GrammarError(
                "it must be an object with a format, or with structures (each begin, schema, end) and triggers"
            )
    return {"root": root} | walker.rules


class _Walker:
    def __init__(self, schemas: Schemas, tokens: TokenSets, any_order: bool) -> None:
        self.rules: Rules = {}  # those that formats refer to
        self.schemas = schemas
        self.tokens = tokens
        self.any_order = any_order
        self._names: dict[Node, str] = {}  # of rules, by what they are
        self._num_formats = self._num_new = 0

    def format(self, value: Json, at: At, kind: str | None = None) -> Node:
        shape, build = _KINDS[self.kind(value, at, kind)]
        return build(self, read(shape, value, at.place), at)

    def kind(self, value: Json, at: At, kind: str | None = None) -> str:
        self._num_formats += 1
        if at.depth > MAX_DEPTH:
            raise at.error(f"formats are nested more than {MAX_DEPTH} deep")
        if self._num_formats > MAX_FORMATS:
            raise at.error(f"there are more than {MAX_FORMATS} formats")
        if not isinstance(value, dict):
            raise at.error("a format must be an object with a type")
        name = value.get("type", kind)
        if kind is not None and name != kind:
            raise at.error(f"the type must be {kind}, not {name!r}")
        if not isinstance(name, str) or name not in _KINDS:
            raise at.error(f"the type must be one of {', '.join(_KINDS)}, not {name!r}")
        return name

    def rule(self, body: Node) -> Node:
        name = self._names.setdefault(body, f"{len(self._names)}")
        self.rules.setdefault(name, body)
        return Ref(name)

    def new(self) -> Ref:
        self._num_new += 1
        return Ref(f"new {self._num_new}")

    def define(self, place: Ref, body: Node) -> None:
        self.rules[place.name] = body

    def grammar(self, rules: Rules) -> Node:
        prefix = f"{self._num_formats}."
        self.rules |= {prefix + name: renamed(body, prefix) for name, body in rules.items()}
        return Ref(f"{prefix}root")


def _num_any_order(value: Json) -> int:
    match value:
        case dict():
            return (value.get("any_order") is True) + sum(map(_num_any_order, value.values()))
        case list():
            return sum(map(_num_any_order, value))
    return 0


# --- formats of formats ---------------------------------------------------------------------------


def _sequence(walker: Walker, own: shapes.Many, at: At) -> Node:
    return one_after_another(*_elements(walker, own, at))


def _alternatives(walker: Walker, own: shapes.Many, at: At) -> Node:
    return either(*_elements(walker, own, at))


def _elements(walker: Walker, own: shapes.Many, at: At) -> list[Node]:
    return [walker.format(e, at.inside(f"elements[{i}]")) for i, e in enumerate(own.elements)]


def _times(least: int, most: int | None) -> Callable[[Walker, shapes.One, At], Node]:
    def build(walker: Walker, own: shapes.One, at: At) -> Node:
        return Repeat(walker.format(own.content, at.inside("content")), least, most)

    return build


def _repeat(walker: Walker, own: shapes.Repeat, at: At) -> Node:
    most = None if own.max == -1 else own.max
    if max(own.min, most or 0) > gbnf.MAX_COUNT:
        raise at.error(f"more than {gbnf.MAX_COUNT} repetitions")
    if most is not None and most < own.min:
        raise at.error("max is less than min")
    return Repeat(walker.format(own.content, at.inside("content")), own.min, most)


# What each holds, and what builds it.
_KINDS: dict[str, tuple[type[Any], Callable[[Walker, Any, At], Node]]] = {
    "const_string": (shapes.Const, texts.const),
    "json_schema": (shapes.Schema, texts.schema),
    "qwen_xml_parameter": (shapes.Parameter, texts.parameter),
    "regex": (shapes.Regex, texts.regex),
    "grammar": (shapes.Grammar, texts.grammar),
    "any_text": (shapes.AnyText, texts.any_text),
    "sequence": (shapes.Many, _sequence),
    "or": (shapes.Many, _alternatives),
    "optional": (shapes.One, _times(0, 1)),
    "star": (shapes.One, _times(0, None)),
    "plus": (shapes.One, _times(1, None)),
    "repeat": (shapes.Repeat, _repeat),
    "tag": (shapes.Tag, tags.tag),
    "triggered_tags": (shapes.Triggered, tags.triggered),
    "tags_with_separator": (shapes.Separated, tags.separated),
    "dispatch": (shapes.Dispatch, tags.dispatch),
    "token": (shapes.Token, token_formats.token),
    "exclude_token": (shapes.ExcludeToken, token_formats.exclude_token),
    "any_tokens": (shapes.AnyTokens, token_formats.any_tokens),
    "token_triggered_tags": (shapes.TokenTriggered, token_formats.triggered),
    "token_dispatch": (shapes.TokenDispatch, token_formats.dispatch),
}
