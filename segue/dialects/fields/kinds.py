"""Kinds of JSON values: each reads one, and says what would be right in words and as a schema.

`read` returns the core's value, or UNSET where the value means the same as leaving the field out.
It raises Mismatch and knows no field names: the table puts those in.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import UNSET

from segue.bounds import MAX_BIAS, MAX_BIASES, MAX_INT32, MAX_JSON_VALUES, MAX_STOP_CHARS, MAX_STOPS


class Mismatch(Exception):
    """The value is not what the field takes. `at` is where inside it, such as "[3]".

    `bounds` are set where the value is a number, only too small or too large; `because` where no value would do and
    the reason says more than what was sent.
    """

    def __init__(
        self,
        expected: str,
        value: Any,
        at: str = "",
        bounds: tuple[float, float] | None = None,
        because: str = "",
    ):
        super().__init__(expected)
        self.expected = expected
        self.value = value
        self.at = at
        self.bounds = bounds
        self.because = because

    def inside(self, at: str) -> "Mismatch":
        """The same, of a value that stands at this place of the field's."""
        return Mismatch(self.expected, self.value, at + self.at, self.bounds, self.because)

    def below(self, most: float) -> "Mismatch":
        """The same of a number that may be no larger than this either."""
        bounds = self.bounds and (self.bounds[0], min(self.bounds[1], most))
        return Mismatch(self.expected, self.value, self.at, bounds, self.because)


class Kind(Protocol):
    def read(self, value: Any) -> Any: ...

    def schema(self) -> dict[str, Any]: ...


def part(value: dict[str, Any], name: str, kind: Kind, at: str) -> Any:
    """A member of an object that stands at this place of the field's value."""
    try:
        return kind.read(value.get(name))
    except Mismatch as wrong:
        raise wrong.inside(f"{at}.{name}") from None


@dataclass(frozen=True)
class Boolean:
    def read(self, value: Any) -> bool:
        if type(value) is not bool:
            raise Mismatch("true or false", value)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class When:
    """A boolean that stands for one value: true means that value, false means that the field is left out."""

    value: Any

    def read(self, value: Any) -> Any:
        return self.value if Boolean().read(value) else UNSET

    def schema(self) -> dict[str, Any]:
        return Boolean().schema()


@dataclass(frozen=True)
class Flag:
    """A boolean, or the words for one in a query: `?add_special=0`."""

    def read(self, value: Any) -> bool:
        words = {"": True, "1": True, "true": True, "0": False, "false": False}
        if type(value) is str and value.lower() in words:
            return words[value.lower()]
        return Boolean().read(value)

    def schema(self) -> dict[str, Any]:
        return Boolean().schema()


@dataclass(frozen=True)
class Integer:
    """An integer in a range. `meaning` maps single values to others ({-1: None}); `clamp` moves values into it."""

    low: int
    high: int
    meaning: Mapping[int, Any] = field(default_factory=dict)
    clamp: bool = False

    def read(self, value: Any) -> Any:
        # JSON has one type of number: 16.0 is an integer, 1.5 is not.
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise Mismatch(self._expected, value)
        if self.clamp:
            value = min(max(value, self.low), self.high)
        elif not self.low <= value <= self.high:
            raise Mismatch(self._expected, value, bounds=(self.low, self.high))
        return self.meaning.get(value, value)

    @property
    def _expected(self) -> str:
        return f"an integer from {self.low} to {self.high}"

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True)
class Endless:
    """An integer from `low`. For all there is, clients send their language's largest: an int32's is more than any
    context or vocabulary has."""

    low: int
    meaning: Mapping[int, Any] = field(default_factory=dict)

    def read(self, value: Any) -> Any:
        number = int(value) if type(value) is float and value.is_integer() else value
        if type(number) is not int or number < self.low:
            raise Mismatch(f"an integer of at least {self.low}", value)
        return self.meaning.get(number, min(number, MAX_INT32))

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low}


@dataclass(frozen=True)
class Number:
    low: float
    high: float
    above_low: bool = False  # the low end itself is refused
    clamp: bool = False

    def read(self, value: Any) -> float:
        is_nan = type(value) is float and math.isnan(value)
        if type(value) not in (float, int) or is_nan:
            raise Mismatch(self._expected, value)
        if self.clamp:
            value = min(max(value, self.low), self.high)
        elif not self.low <= value <= self.high or (self.above_low and value == self.low):
            raise Mismatch(self._expected, value, bounds=(self.low, self.high))
        return float(value)

    @property
    def _expected(self) -> str:
        if self.above_low:
            return f"a number above {self.low:g}, up to {self.high:g}"
        return f"a number from {self.low:g} to {self.high:g}"

    def schema(self) -> dict[str, Any]:
        low = "exclusiveMinimum" if self.above_low else "minimum"
        return {"type": "number", low: self.low, "maximum": self.high}


class AnyObject:
    def read(self, value: Any) -> Any:
        if type(value) is not dict:
            raise Mismatch("an object", value)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}


@dataclass(frozen=True)
class Text:
    max_chars: int

    def read(self, value: Any) -> str:
        if type(value) is not str or len(value) > self.max_chars:
            raise Mismatch(f"a string of at most {self.max_chars} characters", value)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": self.max_chars}


class Word:
    """One of a few words; `unset` means the same as leaving the field out."""

    def __init__(self, *words: str, unset: str | None):
        self._words = words
        self._unset = unset

    def read(self, value: Any) -> Any:
        if type(value) is not str or value not in self._words:
            *others, last = self._words
            raise Mismatch(f"{', '.join(others)} or {last}" if others else last, value)
        return UNSET if value == self._unset else value

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self._words)}


@dataclass(frozen=True)
class Texts:
    """A list of strings."""

    max_texts: int
    max_chars: int

    def read(self, value: Any) -> tuple[str, ...]:
        if type(value) is not list or len(value) > self.max_texts:
            raise Mismatch(f"a list of at most {self.max_texts} strings", value)
        one = Text(self.max_chars)
        for i, text in enumerate(value):
            try:
                one.read(text)
            except Mismatch as wrong:
                raise wrong.inside(f"[{i}]") from None
        return tuple(value)

    def schema(self) -> dict[str, Any]:
        one = Text(self.max_chars).schema()
        return {"type": "array", "items": one, "maxItems": self.max_texts}


def lenient(value: Any) -> Any:
    """The number that lenient JSON readers take true, or a text, for; anything else as it is."""
    if type(value) is bool:
        return int(value)
    if type(value) is not str:
        return value
    try:
        return int(value) if value.lstrip("-").isdecimal() else float(value)
    except ValueError:
        return value


@dataclass(frozen=True)
class Lax:
    """Also takes what lenient JSON readers take: true for 1, "5" for 5."""

    kind: Kind

    def read(self, value: Any) -> Any:
        number = lenient(value)
        if type(number) is str:
            raise Mismatch("a number", value)
        return self.kind.read(number)

    def schema(self) -> dict[str, Any]:
        return self.kind.schema()


@dataclass(frozen=True)
class LaxFlag:
    """The same for booleans: 1 and "true" for true, 0 and "false" for false."""

    kind: Kind

    def read(self, value: Any) -> Any:
        if type(value) is str:
            value = _SPELT.get(value.lower(), value)
        is_bit = type(value) in (int, float) and value in (0, 1)
        return self.kind.read(bool(value) if is_bit else value)

    def schema(self) -> dict[str, Any]:
        return self.kind.schema()


_SPELT = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off"), False),
}


@dataclass(frozen=True)
class NumTop:
    """How many alternatives to report: a number, or true for one and false for none at all."""

    high: int
    is_off_from_zero: bool = False  # 0 and below are none at all, not the chosen token alone

    def read(self, value: Any) -> Any:
        if type(value) is bool:
            return 1 if value else UNSET
        low = -MAX_INT32 if self.is_off_from_zero else 0
        number = Integer(low, self.high).read(value)
        return UNSET if self.is_off_from_zero and number <= 0 else number

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Integer(0, self.high).schema(), Boolean().schema()]}


@dataclass(frozen=True)
class OnlyEmpty:
    """A field that is known but not served: "", [], {} and null pass, anything else is refused."""

    reason: str

    def read(self, value: Any) -> Any:
        if value not in ("", [], {}):
            raise Mismatch("left out", value, because=self.reason)
        return UNSET

    def schema(self) -> dict[str, Any]:
        return {"description": self.reason}


def token_ids(value: list[int], at: str) -> tuple[int, ...]:
    for edge in (min(value), max(value)):
        if not 0 <= edge <= MAX_INT32:
            raise Mismatch(f"token ids from 0 to {MAX_INT32}", edge, at)
    return tuple(value)


@dataclass(frozen=True)
class TokenIds:
    max_tokens: int = MAX_JSON_VALUES

    def read(self, value: Any) -> tuple[int, ...]:
        if type(value) is not list or len(value) > self.max_tokens:
            raise Mismatch(f"a list of at most {self.max_tokens} token ids", value)
        if not set(map(type, value)) <= {int}:
            other = next(i for i, token in enumerate(value) if type(token) is not int)
            raise Mismatch("a token id", value[other], f"[{other}]")
        return token_ids(value, "") if value else ()

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": MAX_INT32}}


@dataclass(frozen=True)
class Stops:
    max_stops: int = MAX_STOPS
    max_chars: int = MAX_STOP_CHARS

    def read(self, value: Any) -> tuple[str, ...]:
        stops = [value] if type(value) is str else value
        if type(stops) is not list or len(stops) > self.max_stops:
            raise Mismatch(f"a string or a list of at most {self.max_stops} strings", value)
        for i, stop in enumerate(stops):
            if type(stop) is not str or not 0 < len(stop) <= self.max_chars:
                expected = f"a string of 1 to {self.max_chars} characters"
                raise Mismatch(expected, stop, f"[{i}]" if stops is value else "")
        return tuple(dict.fromkeys(stops))

    def schema(self) -> dict[str, Any]:
        one = {"type": "string", "minLength": 1, "maxLength": self.max_chars}
        return {"anyOf": [one, {"type": "array", "items": one, "maxItems": self.max_stops}]}


_TOKEN_KEY = re.compile(r"0|[1-9][0-9]{0,9}")


def token_of(key: str) -> int | None:
    """The token id that a key of an object spells, if it spells one."""
    return int(key) if _TOKEN_KEY.fullmatch(key) and int(key) <= MAX_INT32 else None


@dataclass(frozen=True)
class LogitBias:
    max_bias: float = MAX_BIAS
    clamp: bool = False  # move a bias that is larger into the range

    def read(self, value: Any) -> dict[int, float]:
        if type(value) is not dict or len(value) > MAX_BIASES:
            raise Mismatch(f"an object of at most {MAX_BIASES} token ids", value)
        return {_token_key(key): self._bias(key, bias) for key, bias in value.items()}

    def _bias(self, key: str, bias: Any) -> float:
        try:
            return Number(-self.max_bias, self.max_bias, clamp=self.clamp).read(bias)
        except Mismatch as wrong:
            raise wrong.inside(f"[{key}]") from None

    def schema(self) -> dict[str, Any]:
        bias = Number(-self.max_bias, self.max_bias).schema()
        return {"type": "object", "additionalProperties": bias, "maxProperties": MAX_BIASES}


def _token_key(key: str) -> int:
    token = token_of(key)
    if token is None:
        raise Mismatch("an object whose keys are token ids", key)
    return token
