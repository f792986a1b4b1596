"""JSON with exact numbers, and equality of values."""

from collections.abc import Hashable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec

from segue.engine.constraints.grammar import GrammarError

Json = Any

MAX_NESTING = 100  # brackets; readers call themselves for each
MAX_EXPONENT = 400  # beyond every double
TYPES = ("null", "boolean", "number", "string", "array", "object")


def read_json(text: str, what: str = "the schema") -> Json:
    """Numbers as int or Fraction, to the last digit. Raises GrammarError."""
    check_nesting(text)
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise GrammarError(f"{what} is not JSON: {error}") from None


def _exact(text: str) -> int | Fraction:
    number = Decimal(text)
    if (number and not -MAX_EXPONENT <= number.adjusted() <= MAX_EXPONENT) or len(text) > 1000:
        raise GrammarError(f"the number {text[:30]} is out of range")
    found = Fraction(number)
    return int(found) if found.denominator == 1 else found


_DECODER = msgspec.json.Decoder(float_hook=_exact)


def check_nesting(text: str) -> None:
    """Checks the depth without parsing: a parser may crash on what is nested too deep."""
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


def type_of(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | Fraction() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_number(value: Json) -> bool:
    return isinstance(value, int | Fraction) and not isinstance(value, bool)


def key_of(value: Json) -> Hashable:
    """The same for values that JSON holds to be the same: 1 and 1.0 are, 1 and true are not."""
    match value:
        case dict():
            return "object", frozenset((name, key_of(item)) for name, item in value.items())
        case list():
            return "array", tuple(map(key_of, value))
    return type_of(value), value
