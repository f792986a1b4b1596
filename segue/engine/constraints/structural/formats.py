"""Structural tags as rules. Both forms: a tree of formats, and structures with triggers.

What follows a free text tells where it ends, and so do the ends of the tag around it. What only tokens could tell apart
is refused, as is every key that is not known: a constraint must not be passed by.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple, Protocol

from segue.engine.constraints import gbnf
from segue.engine.constraints.free_text import MAX_STOP_CHARS, can_come_first, is_entangled
from segue.engine.constraints.grammar import (
    Free,
    GrammarError,
    Nested,
    Node,
    Range,
    Ref,
    Repeat,
    Rules,
    char_set,
    either,
    renamed,
)
from segue.engine.constraints.scalars.pattern import read_pattern
from segue.engine.constraints.schemas.arguments import Arguments
from segue.engine.constraints.schemas.values import Json
from segue.engine.constraints.structural import shapes
from segue.engine.constraints.structural.joining import literal, one_after_another
from segue.engine.constraints.structural.parameters import STYLES, parameters
from segue.engine.constraints.structural.shapes import read

MAX_DEPTH = 32
MAX_FORMATS = 2000
MAX_STRUCTURES = 1000
MAX_FREE_CHARS = 10_000  # a lexer has a state for each
MAX_PATTERN = 16_384
MAX_GRAMMAR = 65_536
_MOST_SPACES = 41  # that are ever written in a row where none are wished for


class Schemas(Protocol):
    """Reads schemas, with the white space wished for in them. Raises GrammarError."""

    def text(self, schema: Json, whitespace: str | None) -> str: ...

    def arguments(self, schema: Json, whitespace: str | None) -> Arguments: ...


def rules_of(whole: Json, schemas: Schemas) -> Rules:
    """Raises GrammarError with the place in the format."""
    builder = _Builder(schemas)
    match whole:
        case {"format": inner}:
            read(shapes.Whole, whole, "it")
            root = builder.format(inner, _At("format"))
        case {"structures": _}:
            root = builder.structures(read(shapes.Structures, whole, ""))
        case _:
            raise GrammarError(
                "it must be an object with a format, or with structures (each begin, schema, end) and triggers"
            )
    return {"root": root} | builder.rules


class _At(NamedTuple):
    """Where a format stands."""

    place: str
    ends: tuple[str, ...] = ()  # of the tag around it
    depth: int = 0

    def inside(self, name: str, ends: tuple[str, ...] | None = None) -> "_At":
        around = self.ends if ends is None else ends
        return _At(f"{self.place}.{name}", around, self.depth + 1)

    def error(self, message: str) -> GrammarError:
        return GrammarError(f"{self.place}: {message}")


class _Builder:
    def __init__(self, schemas: Schemas) -> None:
        self.rules: Rules = {}  # those that formats refer to
        self._schemas = schemas
        self._names: dict[Node, str] = {}  # of rules, by what they are
        self._num_formats = 0

    def format(self, value: Json, at: _At, kind: str | None = None) -> Node:
        """`kind`: the only one that is fine here; then it need not be told."""
        name = self._kind(value, at, kind)
        shape, build = _KINDS[name]
        return build(self, read(shape, value, at.place), at)

    def _kind(self, value: Json, at: _At, kind: str | None) -> str:
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
        if isinstance(name, str) and name in _OF_TOKENS:
            raise at.error(f"{name} speaks of tokens; {_OF_TOKENS[name]}")
        if not isinstance(name, str) or name not in _KINDS:
            raise at.error(f"the type must be one of {', '.join(_KINDS)}, not {name!r}")
        return name

    def structures(self, own: shapes.Structures) -> Node:
        """The older form. Errors name what it has: structures, begin, schema and triggers."""
        if len(own.structures) > MAX_STRUCTURES:
            raise GrammarError(f"structures: there are more than {MAX_STRUCTURES}")
        tags = [self._structure(tag, number) for number, tag in enumerate(own.structures)]
        triggers = [trigger for trigger in own.triggers if trigger]
        return _dispatch(_by_trigger(triggers, tags), [], True, _At("triggers"))

    def _structure(self, own: shapes.Structure, number: int) -> "_Tag":
        at = _At(f"structures[{number}]")
        schema = self.schema(shapes.Schema(json_schema=own.schema), at.inside("schema"))
        return _Tag(own.begin, one_after_another(schema, literal(own.end)), at)

    # --- one piece of text --------------------------------------------------------------------------

    def const(self, own: shapes.Const, at: _At) -> Node:
        return literal(own.value)

    def regex(self, own: shapes.Regex, at: _At) -> Node:
        if len(own.pattern) > MAX_PATTERN:
            raise at.error(f"the pattern has more than {MAX_PATTERN} characters")
        try:
            read_pattern(own.pattern)  # what is wrong is told in the caller's columns
            pattern = read_pattern(f"^(?:{own.pattern})$")
        except GrammarError as error:
            raise at.error(str(error)) from None
        return pattern.holds[0]

    def grammar(self, own: shapes.Grammar, at: _At) -> Node:
        if len(own.grammar) > MAX_GRAMMAR:
            raise at.error(f"the grammar has more than {MAX_GRAMMAR} characters")
        try:
            rules = gbnf.parse(own.grammar)
        except GrammarError as error:
            raise at.error(str(error)) from None
        prefix = f"{self._num_formats}."
        self.rules |= {prefix + name: renamed(body, prefix) for name, body in rules.items()}
        return Ref(f"{prefix}root")

    def schema(self, own: shapes.Schema, at: _At) -> Node:
        if own.style != "json" and own.style not in STYLES:
            known = ", ".join(["json", *STYLES])
            raise at.error(f"the style {own.style!r} is not supported; {known} are")
        if own.excludes:
            raise at.error("excludes within JSON are not supported; a pattern in the schema is")
        spaces = _spaces(own.max_whitespace_cnt)
        try:
            if own.style == "json":
                text = self._schemas.text(own.json_schema, spaces)
                return self.json(text, _types(own.json_schema), at)
            arguments = self._schemas.arguments(own.json_schema, spaces)
            return parameters(STYLES[own.style], arguments, _Maker(self, at))
        except GrammarError as error:
            raise at.error(str(error)) from None

    def json(self, text: str, kinds: Collection[str], at: _At) -> Node:
        """JSON values of these types."""
        begins = char_set([r for kind in kinds for r in _FIRST[kind]])
        goes_on = _IN_NUMBER if "number" in kinds or "integer" in kinds else ()
        return self.rule(Nested(text, begins, goes_on, at.place))

    def rule(self, body: Node) -> Node:
        name = self._names.setdefault(body, f"{len(self._names)}")
        self.rules.setdefault(name, body)
        return Ref(name)

    def parameter(self, own: shapes.Parameter, at: _At) -> Node:
        """The older name of a style."""
        return self.schema(shapes.Schema(json_schema=own.json_schema, style="qwen_xml"), at)

    def any_text(self, own: shapes.AnyText, at: _At) -> Node:
        if own.max_tokens is not None:
            raise at.error("max_tokens is not supported; max_chars is")
        if own.max_chars is not None and own.max_chars > MAX_FREE_CHARS:
            raise at.error(f"max_chars may be at most {MAX_FREE_CHARS}")
        stops = _stops([*own.excludes, *filter(None, at.ends)], at)
        return Free(stops, most=own.max_chars, place=at.place)

    # --- formats of formats -------------------------------------------------------------------------

    def sequence(self, own: shapes.Many, at: _At) -> Node:
        return one_after_another(*self._elements(own, at))

    def alternatives(self, own: shapes.Many, at: _At) -> Node:
        return either(*self._elements(own, at))

    def _elements(self, own: shapes.Many, at: _At) -> list[Node]:
        return [self.format(e, at.inside(f"elements[{i}]")) for i, e in enumerate(own.elements)]

    def optional(self, own: shapes.One, at: _At) -> Node:
        return Repeat(self._content(own, at), 0, 1)

    def star(self, own: shapes.One, at: _At) -> Node:
        return Repeat(self._content(own, at), 0, None)

    def plus(self, own: shapes.One, at: _At) -> Node:
        return Repeat(self._content(own, at), 1, None)

    def repeat(self, own: shapes.Repeat, at: _At) -> Node:
        most = None if own.max == -1 else own.max
        if max(own.min, most or 0) > gbnf.MAX_COUNT:
            raise at.error(f"more than {gbnf.MAX_COUNT} repetitions")
        if most is not None and most < own.min:
            raise at.error("max is less than min")
        return Repeat(self._content(own, at), own.min, most)

    def _content(self, own: shapes.One | shapes.Repeat, at: _At) -> Node:
        return self.format(own.content, at.inside("content"))

    # --- tags ---------------------------------------------------------------------------------------

    def tag(self, own: shapes.Tag, at: _At) -> Node:
        return one_after_another(literal(_begin(own, at)), self._rest(own, at))

    def _rest(self, own: shapes.Tag, at: _At) -> Node:
        """The content and the end."""
        if isinstance(own.end, dict):
            raise at.inside("end").error(f"a token is not supported; {_OF_TOKENS['token']}")
        ends = tuple(own.end) if isinstance(own.end, list) else (own.end,)
        content = self.format(own.content, at.inside("content", ends))
        texts = [end for end in ends if end]
        is_free = content == Free(tuple(dict.fromkeys(texts)))
        if is_free and is_entangled(texts):
            # It ends with the first of the ends: which one is meant could not be told once more text follows.
            stops, place = tuple(texts), f"{at.place}.content"
            firsts: list[Node] = [
                Free(stops, end, place=place) for end in texts if can_come_first(end, stops, texts)
            ]
            return either(*firsts, *([content] if "" in ends else []))
        return one_after_another(content, either(*map(literal, ends)))

    def triggered(self, own: shapes.Triggered, at: _At) -> Node:
        """Free text, in which one of a trigger's tags must follow the trigger."""
        tags = [self._triggered_tag(t, at.inside(f"tags[{i}]")) for i, t in enumerate(own.tags)]
        rests = _by_trigger(own.triggers, tags)
        first = either(*(one_after_another(literal(tag.begin), tag.rest) for tag in tags))
        if own.at_least_one and own.stop_after_first:
            return first
        excludes = [*own.excludes, *filter(None, at.ends)]
        after = _dispatch(rests, excludes, not own.stop_after_first, at)
        return one_after_another(first, after) if own.at_least_one else after

    def _triggered_tag(self, value: Json, at: _At) -> "_Tag":
        self._kind(value, at, "tag")
        tag = read(shapes.Tag, value, at.place)
        return _Tag(_begin(tag, at), self._rest(tag, at), at)

    def dispatch(self, own: shapes.Dispatch, at: _At) -> Node:
        """Free text, in which a rule's format must follow its text."""
        follows: dict[str, list[Node]] = {}
        for number, (text, value) in enumerate(own.rules):
            content = self.format(value, at.inside(f"rules[{number}][1]"))
            follows.setdefault(text, []).append(content)
        return _dispatch(follows, own.excludes, own.loop, at)

    def separated(self, own: shapes.Separated, at: _At) -> Node:
        tag = either(
            *(self.format(t, at.inside(f"tags[{i}]"), "tag") for i, t in enumerate(own.tags))
        )
        more = Repeat(one_after_another(literal(own.separator), tag), 0, None)
        whole = tag if own.stop_after_first else one_after_another(tag, more)
        return whole if own.at_least_one else Repeat(whole, 0, 1)


# --- helpers --------------------------------------------------------------------------------------


class _Maker(NamedTuple):
    """Makes the rules of one format."""

    builder: _Builder
    at: _At

    def json(self, text: str, kinds: Collection[str]) -> Node:
        return self.builder.json(text, kinds, self.at)

    def rule(self, body: Node) -> Node:
        return self.builder.rule(body)


class _Tag(NamedTuple):
    begin: str
    rest: Node  # the content and the end
    at: _At


def _by_trigger(triggers: Iterable[str], tags: list[_Tag]) -> dict[str, list[Node]]:
    """What may follow each trigger: the rest of the tags that begin with it. Of two the shorter one appears first."""
    rests: dict[str, list[Node]] = {trigger: [] for trigger in triggers}
    for tag in tags:
        trigger = min((t for t in rests if tag.begin.startswith(t)), key=len, default=None)
        if trigger is None:
            raise tag.at.inside("begin").error(f"no trigger begins {tag.begin!r}")
        rests[trigger].append(one_after_another(literal(tag.begin[len(trigger) :]), tag.rest))
    return rests


def _dispatch(follows: dict[str, list[Node]], excludes: list[str], is_loop: bool, at: _At) -> Node:
    stops = _stops([*follows, *excludes], at)
    free = Free(stops, place=at.place)
    wanted = follows.keys() - set(excludes)
    hits = [
        one_after_another(Free(stops, trigger, place=at.place), either(*nodes))
        for trigger, nodes in follows.items()
        if nodes and trigger in wanted and can_come_first(trigger, stops, wanted)
    ]
    if not hits:
        return free
    return (
        one_after_another(Repeat(either(*hits), 0, None), free) if is_loop else either(*hits, free)
    )


def _stops(texts: Iterable[str], at: _At) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(texts))
    if "" in found:
        raise at.error("triggers and excludes must not be empty")
    if sum(map(len, found)) > MAX_STOP_CHARS:
        raise at.error(
            f"triggers, excludes and ends to look out for have more than {MAX_STOP_CHARS} characters"
        )
    return found


def _begin(tag: shapes.Tag, at: _At) -> str:
    if isinstance(tag.begin, dict):
        raise at.inside("begin").error(f"a token is not supported; {_OF_TOKENS['token']}")
    return tag.begin


def _spaces(most: int | None) -> str | None:
    """At most so many in a row: white space is written once between two parts."""
    if most is None or most >= _MOST_SPACES:
        return None
    return f"[ ]|\\n[ \\t]{{0,{most - 1}}}" if most else ""


def _types(schema: Json) -> list[str]:
    kinds = schema.get("type") if isinstance(schema, dict) else None
    known = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(known, list) or not all(k in _FIRST for k in known if isinstance(k, str)):
        return list(_FIRST)
    return [k for k in known if isinstance(k, str)] or list(_FIRST)


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

_KINDS: dict[str, tuple[type[Any], Callable[[_Builder, Any, _At], Node]]] = {
    "const_string": (shapes.Const, _Builder.const),
    "json_schema": (shapes.Schema, _Builder.schema),
    "qwen_xml_parameter": (shapes.Parameter, _Builder.parameter),
    "regex": (shapes.Regex, _Builder.regex),
    "grammar": (shapes.Grammar, _Builder.grammar),
    "any_text": (shapes.AnyText, _Builder.any_text),
    "sequence": (shapes.Many, _Builder.sequence),
    "or": (shapes.Many, _Builder.alternatives),
    "optional": (shapes.One, _Builder.optional),
    "star": (shapes.One, _Builder.star),
    "plus": (shapes.One, _Builder.plus),
    "repeat": (shapes.Repeat, _Builder.repeat),
    "tag": (shapes.Tag, _Builder.tag),
    "triggered_tags": (shapes.Triggered, _Builder.triggered),
    "tags_with_separator": (shapes.Separated, _Builder.separated),
    "dispatch": (shapes.Dispatch, _Builder.dispatch),
}
_OF_TOKENS = {  # what would be right instead
    "token": "write its text as a const_string",
    "exclude_token": "a regex of the characters allowed is supported",
    "any_tokens": "any_text with excludes is supported",
    "token_triggered_tags": "triggered_tags is supported",
    "token_dispatch": "dispatch is supported",
}
