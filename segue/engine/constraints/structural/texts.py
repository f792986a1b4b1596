"""Formats that are one piece of text: a constant, a regular expression, a grammar, a schema, any text."""

from collections.abc import Collection
from typing import NamedTuple

from segue.engine.constraints import gbnf
from segue.engine.constraints.grammar import Free, GrammarError, Nested, Node, Range, Ref, char_set
from segue.engine.constraints.scalars.pattern import read_pattern
from segue.engine.constraints.schemas.values import Json
from segue.engine.constraints.structural import shapes
from segue.engine.constraints.structural.joining import literal
from segue.engine.constraints.structural.parameters import parameters
from segue.engine.constraints.structural.styles import STYLES
from segue.engine.constraints.structural.walking import At, SchemaStyle, Walker

MAX_FREE_CHARS = 10_000  # a lexer has a state for each
MAX_PATTERN = 16_384
MAX_GRAMMAR = 65_536
_MOST_SPACES = 41  # that are ever written in a row where none are wished for


def const(walker: Walker, own: shapes.Const, at: At) -> Node:
    return literal(own.value)


def regex(walker: Walker, own: shapes.Regex, at: At) -> Node:
    if len(own.pattern) > MAX_PATTERN:
        raise at.error(f"the pattern has more than {MAX_PATTERN} characters")
    with at.blamed():
        told = read_pattern(own.pattern)  # what is wrong is told in the caller's columns
        if told.lacks or len(told.holds) > 1:
            raise GrammarError("look-ahead is not supported here; in the pattern of a schema it is")
        return read_pattern(f"^(?:{own.pattern})$").holds[0]


def grammar(walker: Walker, own: shapes.Grammar, at: At) -> Node:
    if len(own.grammar) > MAX_GRAMMAR:
        raise at.error(f"the grammar has more than {MAX_GRAMMAR} characters")
    with at.blamed():
        return walker.grammar(gbnf.parse(own.grammar, walker.tokens))


def any_text(walker: Walker, own: shapes.AnyText, at: At) -> Node:
    if own.max_tokens is not None:
        raise at.error("max_tokens is not supported; max_chars is, and any_tokens with max_tokens")
    if own.max_chars is not None and own.max_chars > MAX_FREE_CHARS:
        raise at.error(f"max_chars may be at most {MAX_FREE_CHARS}")
    return Free(at.stops([*own.excludes, *at.ends]), most=own.max_chars, place=at.place)


# --- schemas --------------------------------------------------------------------------------------


def schema(walker: Walker, own: shapes.Schema, at: At) -> Node:
    if own.style != "json" and own.style not in STYLES:
        known = ", ".join(["json", *STYLES])
        raise at.error(f"the style {own.style!r} is not supported; {known} are")
    any_order = own.any_order and walker.any_order
    style = SchemaStyle(_spaces(own.max_whitespace_cnt), at.stops(own.excludes), any_order)
    maker = _Maker(walker, at)
    with at.blamed():
        if own.style == "json":
            return maker.json(walker.schemas.text(own.json_schema, style), _types(own.json_schema))
        arguments = walker.schemas.arguments(own.json_schema, style)
        return parameters(STYLES[own.style], arguments, maker)


def parameter(walker: Walker, own: shapes.Parameter, at: At) -> Node:
    """The older name of a style."""
    return schema(walker, shapes.Schema(json_schema=own.json_schema, style="qwen_xml"), at)


class _Maker(NamedTuple):
    """Makes the rules of one schema."""

    walker: Walker
    at: At

    @property
    def place(self) -> str:
        return self.at.place

    def json(self, text: str, kinds: Collection[str], mark: str = "") -> Node:
        begins = char_set([r for kind in kinds for r in _FIRST[kind]])
        goes_on = _IN_NUMBER if "number" in kinds or "integer" in kinds else ()
        return self.rule(Nested(text, begins, goes_on, mark, self.at.place))

    def rule(self, body: Node) -> Node:
        return self.walker.rule(body)

    def new(self) -> Ref:
        return self.walker.new()

    def define(self, place: Ref, body: Node) -> None:
        self.walker.define(place, body)


def _spaces(most: int | None) -> str | None:
    """At most so many in a row: white space is written once between two parts."""
    if most is None or most >= _MOST_SPACES:
        return None
    return f"[ ]|\\n[ \\t]{{0,{most - 1}}}" if most else ""


def _types(schema: Json) -> list[str]:
    """Those that its values can have, as far as it says so at its top."""
    kinds = schema.get("type") if isinstance(schema, dict) else None
    if not kinds or schema.keys() & {"$ref", "nullable"}:
        return list(_FIRST)
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _ranges(chars: str) -> list[Range]:
    return [(ord(c), ord(c)) for c in chars]


_FIRST: dict[str, list[Range]] = {
    "object": _ranges("{"),
    "array": _ranges("["),
    "string": _ranges('"'),
    "number": _ranges("-0123456789"),
    "integer": _ranges("-0123456789"),
    "boolean": _ranges("tf"),
    "null": _ranges("n"),
}
_IN_NUMBER = char_set(_ranges("0123456789.eE"))  # after a whole one
