"""Keywords about a single value: their facts, and the facts of their negation."""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from segue.engine.constraints.grammar import GrammarError
from segue.engine.constraints.scalars.formats import FORMATS, NUMBER_FORMATS, UNCHECKED_FORMATS
from segue.engine.constraints.scalars.pattern import read_pattern
from segue.engine.constraints.schemas.documents import Part
from segue.engine.constraints.schemas.facts import (
    ANYTHING,
    Absent,
    AtLeast,
    AtMost,
    Branch,
    Branches,
    Count,
    Except,
    Fact,
    IsInteger,
    Length,
    Matches,
    Multiple,
    Only,
    Required,
    Size,
    just,
    must,
)
from segue.engine.constraints.schemas.values import (
    MAX_EXPONENT,
    TYPES,
    Json,
    is_count,
    is_number,
    key_of,
    type_of,
)


class Unenforceable(GrammarError):
    """The schema may be valid, but this keyword cannot be enforced. Lenient schemas ignore it."""


LENIENTLY = 'leave it out, or put "x-guidance": {"lenient": true} at the top of the schema to have it ignored'


def fail(part: Part, message: str) -> GrammarError:
    return GrammarError(f"at {part.path}: {message}")


_LARGEST = 10**MAX_EXPONENT
ENDLESS = 2**31 - 2  # no text is that long, and the compiler counts no further

Say = Callable[[Part, Json, bool], Branches]
"""Called with the schema, the keyword's value, and whether it is wanted."""


def say_type(part: Part, value: Json, is_wanted: bool) -> Branches:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise fail(part, "type must be a name or a list of names")
    if not names:
        raise fail(part, "type is an empty list, which no value fits")
    for name in names:
        if name not in TYPES and name != "integer":
            raise fail(
                part, f"there is no type {name!r}; types are {', '.join((*TYPES, 'integer'))}"
            )
    types = frozenset(names) - {"integer"}
    if part.value.get("nullable") is True:
        types |= {"null"}
    is_whole = "integer" in names and "number" not in names
    if is_wanted:
        facts = (IsInteger(),) if is_whole else ()
        return [Branch(types | {"number"} if is_whole else types, facts)]
    others = frozenset(TYPES) - types
    broken = (Multiple(Fraction(1), False),) if is_whole else ()
    return [Branch(others, broken)] if others else []


def say_nullable(part: Part, value: Json, is_wanted: bool) -> Branches:
    """Of OpenAPI 3.0: it adds null to the `type` beside it, which is all that it does."""
    if not isinstance(value, bool):
        raise fail(part, "nullable must be true or false")
    if value and "type" not in part.value:
        raise Unenforceable(
            f'at {part.path}: nullable acts beside type alone; write anyOf with {{"type": "null"}}'
        )
    return ANYTHING if is_wanted else []


def say_enum(part: Part, value: Json, is_wanted: bool) -> Branches:
    if not isinstance(value, list):
        raise fail(part, "enum must be a list")
    if not value:
        raise fail(part, "enum is an empty list, which no value fits")
    distinct = tuple({key_of(v): v for v in value}.values())
    if is_wanted:
        types = part.value.get("type", ()) if isinstance(part.value, dict) else ()
        is_number_meant = types == "number" or (isinstance(types, list) and "number" in types)
        only = Only(distinct, is_number_meant)
        return [Branch(frozenset(map(type_of, distinct)), (only,))]
    return just(Except(distinct))


def say_const(part: Part, value: Json, is_wanted: bool) -> Branches:
    return say_enum(part, [value], is_wanted)


def _number(part: Part, name: str, value: Json) -> Fraction:
    if not is_number(value):
        raise fail(part, f"{name} must be a number")
    if abs(value) > _LARGEST:
        raise fail(part, f"{name} is out of range")
    return Fraction(value)


def say_bound(name: str, is_low: bool, is_excluded: bool) -> Say:
    """`minimum` and those like it; the opposite is a bound on the other side."""

    def say(part: Part, value: Json, is_wanted: bool) -> Branches:
        excludes = is_excluded
        if isinstance(value, bool) and is_excluded:  # in draft 4 it sharpens its neighbour
            return ANYTHING if is_wanted else []
        sharp = "exclusiveMinimum" if is_low else "exclusiveMaximum"
        if not is_excluded and part.value.get(sharp) is True:
            excludes = True
        bound = (_number(part, name, value), excludes)
        if is_wanted:
            return just(AtLeast(bound) if is_low else AtMost(bound))
        other = (bound[0], not excludes)
        return must("number", AtMost(other) if is_low else AtLeast(other))

    return say


def say_multiple(part: Part, value: Json, is_wanted: bool) -> Branches:
    step = _number(part, "multipleOf", value)
    if step <= 0:
        raise fail(part, "multipleOf must be above 0")
    fact = Multiple(step, is_wanted)
    return just(fact) if is_wanted else must("number", fact)


def say_count(name: str, kind: str, make: Callable[[int, int | None], Fact], is_least: bool) -> Say:
    """`minLength` and those like it."""

    def say(part: Part, value: Json, is_wanted: bool) -> Branches:
        if not is_count(value):
            raise fail(part, f"{name} must be a whole number, not below 0")
        if is_wanted and not is_least and value > ENDLESS:
            return ANYTHING
        if is_wanted:
            return just(make(value, None) if is_least else make(0, value))
        if is_least:
            return must(kind, make(0, value - 1)) if value > 0 else []
        return must(kind, make(value + 1, None))

    return say


def say_pattern(part: Part, value: Json, is_wanted: bool) -> Branches:
    if not isinstance(value, str):
        raise fail(part, "pattern must be a text")
    try:
        fact = Matches(read_pattern(value), is_wanted)
    except GrammarError as error:
        raise fail(part, str(error)) from None
    return just(fact) if is_wanted else must("string", fact)


def say_format(part: Part, value: Json, is_wanted: bool) -> Branches:
    if not isinstance(value, str):
        raise fail(part, "format must be a text")
    if value in UNCHECKED_FORMATS:
        return ANYTHING if is_wanted else []
    if value in NUMBER_FORMATS:
        low, high = NUMBER_FORMATS[value]
        facts = (IsInteger(), AtLeast((Fraction(low), False)), AtMost((Fraction(high), False)))
        if not is_wanted:
            raise Unenforceable(
                f"at {part.path}: the opposite of format {value!r} cannot be enforced"
            )
        return just(*facts)
    if value not in FORMATS:
        raise Unenforceable(f"at {part.path}: the format {value!r} cannot be enforced; {LENIENTLY}")
    fact = Matches(FORMATS[value](), is_wanted)
    return just(fact) if is_wanted else must("string", fact)


def say_required(part: Part, value: Json, is_wanted: bool) -> Branches:
    if isinstance(value, bool) and "draft-03" in part.draft:
        return ANYTHING if is_wanted else []
    names = texts(part, "required", value)
    if is_wanted:
        return just(*map(Required, names))
    return [branch for name in names for branch in must("object", Absent(name))]


def texts(part: Part, keyword: str, value: Json) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise fail(part, f"{keyword} must be a list of names")
    return list(dict.fromkeys(value))


class Keyword(NamedTuple):
    say: Say
    note: str = ""


ASSERTIONS: dict[str, Keyword] = {
    "type": Keyword(say_type),
    "nullable": Keyword(
        say_nullable,
        "from OpenAPI 3.0: null fits the `type` beside it too; refused without a `type`",
    ),
    "const": Keyword(say_const),
    "enum": Keyword(say_enum),
    "minimum": Keyword(say_bound("minimum", True, False), "any number of digits"),
    "maximum": Keyword(say_bound("maximum", False, False), "any number of digits"),
    "exclusiveMinimum": Keyword(say_bound("exclusiveMinimum", True, True)),
    "exclusiveMaximum": Keyword(say_bound("exclusiveMaximum", False, True)),
    "multipleOf": Keyword(
        say_multiple,
        "whole numbers up to 10,000 and fractions of one such as 0.25; under `not` only where the last digits decide",
    ),
    "minLength": Keyword(say_count("minLength", "string", Length, True), "in characters"),
    "maxLength": Keyword(say_count("maxLength", "string", Length, False), "in characters"),
    "pattern": Keyword(
        say_pattern, "look-ahead only at the very beginning; no look-behind, `\\b`, back-references"
    ),
    "format": Keyword(say_format, "the formats below"),
    "minItems": Keyword(say_count("minItems", "array", Size, True)),
    "maxItems": Keyword(say_count("maxItems", "array", Size, False)),
    "minProperties": Keyword(
        say_count("minProperties", "object", Count, True),
        "refused where two or more properties would have free names",
    ),
    "maxProperties": Keyword(say_count("maxProperties", "object", Count, False)),
    "required": Keyword(say_required),
}
