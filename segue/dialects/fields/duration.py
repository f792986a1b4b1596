"""Durations in Go's notation ("5m", "1h30m", "300ms") or as a number of seconds, and time limits in milliseconds."""

import math
import re
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from segue.bounds import MAX_INT64
from segue.dialects.fields.kinds import Integer, Mismatch

_UNITS_S = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "\u03bcs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(ns|us|µs|\u03bcs|ms|s|m|h)")
_MAX_CHARS = 64
CENTURY_S = 100 * 365 * 86_400.0


@dataclass(frozen=True)
class Duration:
    """Seconds. A negative duration means forever, and so does one of a century: clocks and dates end somewhere."""

    def read(self, value: Any) -> float:
        if type(value) in (int, float):
            return float(value) if 0 <= value <= CENTURY_S else math.inf
        if type(value) is not str or len(value) > _MAX_CHARS:
            raise Mismatch(self._expected, value)
        text = value[1:] if value.startswith(("-", "+")) else value
        seconds = float(text) if text.isdecimal() else self._sum(text, value)
        is_forever = (value.startswith("-") and seconds) or seconds > CENTURY_S
        return math.inf if is_forever else seconds

    def _sum(self, text: str, value: str) -> float:
        parts = list(_PART.finditer(text))
        if not parts or "".join(part[0] for part in parts) != text:
            raise Mismatch(self._expected, value)
        return sum(float(part[1]) * _UNITS_S[part[2]] for part in parts)

    @property
    def _expected(self) -> str:
        return 'seconds, or a duration such as "5m"'

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "number"}, {"type": "string", "maxLength": _MAX_CHARS}]}


@dataclass(frozen=True)
class Milliseconds:
    """A time limit in milliseconds; the core has seconds. 0 and below mean no limit."""

    def read(self, value: Any) -> Any:
        number = Integer(-1, MAX_INT64).read(value)
        return number / 1000 if number > 0 else UNSET

    def schema(self) -> dict[str, Any]:
        return Integer(-1, MAX_INT64).schema()
