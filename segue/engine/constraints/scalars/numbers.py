"""Numbers as regular expressions over their decimal digits, exact for any bound that JSON can write.

Numbers without any condition may have an exponent. All others are written out: a sign, digits, a fraction.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd

import msgspec

from segue.engine.constraints.grammar import GrammarError
from segue.engine.constraints.scalars.strings import NOTHING

_INTEGER = "(?:0|[1-9][0-9]*)"
_FRACTION = r"(?:\.[0-9]+)?"
ANY_NUMBER = rf"/-?{_INTEGER}{_FRACTION}(?:[eE][\-+]?[0-9]+)?/"
_MAX_ENUMERATED = 64
_MAX_STEP = 10_000
_MAX_ENDS = 500
_SAFE = 2**53  # doubles hold every integer up to it, and readers make one of what has a point

Bound = tuple[Fraction, bool]  # and whether it is excluded itself


@dataclass(frozen=True)
class Numbers:
    """The set of numbers with these bounds and multiples."""

    is_integer: bool = False
    low: Bound | None = None
    high: Bound | None = None
    multiples: frozenset[Fraction] = frozenset()
    non_multiples: frozenset[Fraction] = frozenset()  # 1: no integers
    excluded: frozenset[Fraction] = frozenset()

    def above(self, bound: Bound) -> "Numbers":
        return replace(self, low=bound if self.low is None else max(self.low, bound))

    def below(self, bound: Bound) -> "Numbers":
        if self.high is None:
            return replace(self, high=bound)
        (value, is_excluded), (other, other_excluded) = self.high, bound
        closer = self.high if (value, not is_excluded) < (other, not other_excluded) else bound
        return replace(self, high=closer)

    def holds(self, value: Fraction) -> bool:
        if self.low and (value < self.low[0] or (value == self.low[0] and self.low[1])):
            return False
        if self.high and (value > self.high[0] or (value == self.high[0] and self.high[1])):
            return False
        return (
            not (self.is_integer and value.denominator != 1)
            and all((value / m).denominator == 1 for m in self.multiples)
            and not any((value / m).denominator == 1 for m in self.non_multiples)
            and value not in self.excluded
        )

    @property
    def step(self) -> Fraction | None:
        """A number of which all are multiples."""
        found = Fraction(1) if self.is_integer else None
        for m in self.multiples:
            found = m if found is None else _common_multiple(found, m)
        return found

    @property
    def is_stepped(self) -> bool:
        """Whether they are multiples of a number other than 1."""
        return bool(self.multiples) and not (self.is_integer and self.step == 1)

    def few(self) -> list[Fraction] | None:
        """All numbers, if they are few."""
        if self.low and self.high:
            if self.low[0] > self.high[0]:
                return []
            if self.low[0] == self.high[0]:
                return [v for v in (self.low[0],) if self.holds(v)]
        step = self.step
        if step is None or self.low is None or self.high is None:
            return None
        first, last = -(-self.low[0] // step), self.high[0] // step
        if last - first > _MAX_ENUMERATED:
            return None
        return [v for i in range(first, last + 1) if self.holds(v := i * step)]

    @property
    def is_everything(self) -> bool:
        return self == Numbers()

    def within(self, most: int) -> "Numbers":
        """From -most to most, where it has no bound of its own."""
        low, high = self.low or (Fraction(-most), False), self.high or (Fraction(most), False)
        return replace(self, low=low, high=high)


def _common_multiple(a: Fraction, b: Fraction) -> Fraction:
    common = a.denominator * b.denominator // gcd(a.denominator, b.denominator)
    one, other = int(a * common), int(b * common)
    return Fraction(one * other // gcd(one, other), common)


# --- terminals ------------------------------------------------------------------------------------


def written(numbers: Numbers, max_digits: int | None = None) -> str:
    """A Lark terminal. Raises GrammarError for multiples whose regular expression would be too large.

    `max_digits`: of each part of a number, or as many as its bounds and multiples have.
    """
    if max_digits is not None and numbers.is_integer:
        numbers = numbers.within(10 ** _longest(numbers, max_digits)[0] - 1)
    if numbers.is_everything:
        return ANY_NUMBER if max_digits is None else _short(max_digits, max_digits)
    few = numbers.few()
    if few is not None:
        return " | ".join(f"/{value_regex(v, numbers.is_integer)}/" for v in few)
    parts = [_range(numbers)]
    if numbers.is_stepped:
        parts += [f"/{_multiple_regex(m)}/" for m in sorted(numbers.multiples)]
    parts += [f"~/{_multiple_regex(m)}/" for m in sorted(numbers.non_multiples)]
    parts += [f"~/{_any_spelling(v)}/" for v in sorted(numbers.excluded)]
    if max_digits is not None and not numbers.is_integer:
        parts.append(_short(*_longest(numbers, max_digits)))
    return " & ".join(parts)


def _short(whole: int, fraction: int) -> str:
    """Any number with so many digits at most before the point, and as its exponent, and after it."""
    digits = f"(?:0|[1-9][0-9]{{0,{whole - 1}}})"
    return rf"/-?{digits}(?:\.[0-9]{{1,{fraction}}})?(?:[eE][\-+]?{digits})?/"


def _longest(numbers: Numbers, least: int) -> tuple[int, int]:
    """How many digits before and after the point the bounds and multiples have, or that many."""
    bounds = [abs(bound[0]) for bound in (numbers.low, numbers.high) if bound is not None]
    parts = [split(each) for each in (*bounds, *numbers.multiples)]
    wholes, fractions = (len(f"{whole}") for whole, _ in parts), (len(rest) for _, rest in parts)
    return max(least, *wholes, 0), max(least, *fractions, 0)


def value_regex(value: Fraction, is_integer: bool) -> str:
    """How one number may be spelled: an integer also with ".0" if it need not be one, and if doubles hold it."""
    whole, digits = split(abs(value))
    sign = "-" if value < 0 else ""
    zero = "" if is_integer or whole > _SAFE else r"(?:\.0)?"
    return f"{sign}{whole}" + (rf"\.{digits}" if digits else zero)


def _any_spelling(value: Fraction) -> str:
    """All spellings of a number without an exponent."""
    whole, digits = split(abs(value))
    sign = "-" if value < 0 else "-?" if value == 0 else ""
    zeros = "0*" if digits else r"(?:\.0+)?"
    return f"{sign}{whole}" + (rf"\.{digits}" if digits else "") + zeros


def split(value: Fraction) -> tuple[int, str]:
    """The digits before and after the decimal point."""
    whole = value.numerator // value.denominator
    rest, digits = value - whole, ""
    while rest:
        rest *= 10
        digit = rest.numerator // rest.denominator
        digits += str(digit)
        rest -= digit
    return whole, digits


def _range(numbers: Numbers) -> str:
    """From the lowest to the highest, both signs."""
    low, high = numbers.low, numbers.high
    options: list[str] = []
    if high is None or high[0] >= 0:
        least = low if low and low[0] >= 0 else None
        options.append(_magnitudes(least, high, numbers.is_integer))
    if low is None or low[0] < 0:
        least = (-high[0], high[1]) if high and high[0] < 0 else (Fraction(0), True)
        most = None if low is None else (-low[0], low[1])
        options.append(f'"-" ({_magnitudes(least, most, numbers.is_integer)})')
    if not numbers.is_integer and replace(numbers, excluded=frozenset()).holds(Fraction(0)):
        options.append(r"/-0(?:\.0+)?/")
    return f"({' | '.join(options)})"


def _magnitudes(low: Bound | None, high: Bound | None, is_integer: bool) -> str:
    """Without a sign. A lowest of None is 0."""
    if is_integer:
        first = 0 if low is None else _integer_from(low)
        last = None if high is None else -_integer_from((-high[0], high[1]))
        return f"/{'|'.join(_integers(first, last)) or NOTHING}/"
    parts = []
    if low is not None:
        parts.append(f"/{_from(low)}/")
    if high is not None:
        parts.append(f"/{_to(high)}/")
    return " & ".join(parts) or f"/{_INTEGER}{_FRACTION}/"


def _integer_from(bound: Bound) -> int:
    value, is_excluded = bound
    first = -(-value.numerator // value.denominator)
    return first + 1 if is_excluded and first == value else first


def _integers(first: int, last: int | None) -> Iterator[str]:
    """Regular expressions of the integers from the first to the last, neither below 0."""
    if last is not None:
        if first > last:
            return
        for low, high in _same_length(first, last):
            yield from _digits_between(str(low), str(high))
        return
    length = len(str(first))
    yield from _digits_between(str(first), "9" * length)
    yield f"[1-9][0-9]{{{length},}}"


def _same_length(first: int, last: int) -> Iterator[tuple[int, int]]:
    while len(str(first)) < len(str(last)):
        end = 10 ** len(str(first)) - 1
        yield first, end
        first = end + 1
    yield first, last


def _digits_between(low: str, high: str) -> Iterator[str]:
    """Digits of one length, from low to high."""
    same = next((i for i, (a, b) in enumerate(zip(low, high, strict=True)) if a != b), len(low))
    if same == len(low):
        yield low
        return
    start, rest = low[:same], len(low) - same - 1
    if set(low[same + 1 :]) <= {"0"} and set(high[same + 1 :]) <= {"9"}:
        yield start + _digit(low[same], high[same]) + _free(rest)
        return
    yield from (start + low[same] + tail for tail in _up(low[same + 1 :]))
    if int(high[same]) - int(low[same]) > 1:
        yield start + _digit(chr(ord(low[same]) + 1), chr(ord(high[same]) - 1)) + _free(rest)
    yield from (start + high[same] + tail for tail in _down(high[same + 1 :]))


def _digit(low: str, high: str) -> str:
    return low if low == high else f"[{low}-{high}]"


def _free(num: int) -> str:
    return "" if num == 0 else "[0-9]" if num == 1 else f"[0-9]{{{num}}}"


def _up(digits: str) -> Iterator[str]:
    """As many digits, not below these."""
    if set(digits) <= {"0"}:
        yield _free(len(digits))
        return
    for i, c in enumerate(digits):
        if c < "9":
            yield digits[:i] + _digit(chr(ord(c) + 1), "9") + _free(len(digits) - i - 1)
    yield digits


def _down(digits: str) -> Iterator[str]:
    """As many digits, not above these."""
    if set(digits) <= {"9"}:
        yield _free(len(digits))
        return
    for i, c in enumerate(digits):
        if c > "0":
            yield digits[:i] + _digit("0", chr(ord(c) - 1)) + _free(len(digits) - i - 1)
    yield digits


def _from(bound: Bound) -> str:
    """Decimals without a sign from a bound on."""
    value, is_excluded = bound
    whole, digits = split(value)
    above = "|".join(_integers(whole + 1, None))
    if digits:
        tails = [
            digits[:i] + _digit(chr(ord(c) + 1), "9") + "[0-9]*"
            for i, c in enumerate(digits)
            if c < "9"
        ]
        tails.append(digits + ("[0-9]*[1-9][0-9]*" if is_excluded else "[0-9]*"))
        same = rf"{whole}\.(?:{'|'.join(tails)})"
    else:
        same = rf"{whole}\.[0-9]*[1-9][0-9]*" if is_excluded else f"{whole}{_FRACTION}"
    return f"(?:{above}){_FRACTION}|{same}"


def _to(bound: Bound) -> str:
    """Decimals without a sign up to a bound."""
    value, is_excluded = bound
    whole, digits = split(value)
    options = []
    if whole > 0:
        options.append(f"(?:{'|'.join(_integers(0, whole - 1))}){_FRACTION}")
    if digits:
        tails = [
            digits[:i] + _digit("0", chr(ord(c) - 1)) + "[0-9]*"
            for i, c in enumerate(digits)
            if c > "0"
        ]
        tails += [digits[:i] for i in range(1, len(digits))]
        tails += [] if is_excluded else [digits + "0*"]
        options.append(rf"{whole}(?:\.(?:{'|'.join(tails)}))?")
    elif not is_excluded:
        options.append(rf"{whole}(?:\.0+)?")
    return "|".join(options) or NOTHING


# --- multiples ------------------------------------------------------------------------------------


def _shown(number: Fraction) -> str:
    """In a message; it may have more digits than a float can."""
    whole, digits = split(number)
    text = f"{whole}.{digits}" if digits else f"{whole}"
    return text if len(text) <= 20 else f"{text[:20]}…"


def _multiple_regex(step: Fraction) -> str:
    """Decimals of either sign that are multiples of it, where their last digits show that."""
    digits = len(split(step)[1])
    if step == Fraction(1, 10**digits):
        fraction = rf"(?:\.[0-9]{{1,{digits}}}0*)?" if digits else r"(?:\.0+)?"
        return f"-?{_INTEGER}{fraction}"
    if step.numerator == 1 and step.denominator <= _MAX_ENDS:
        ends = [split(i * step)[1] for i in range(1, step.denominator)]
        return rf"-?{_INTEGER}(?:\.(?:0+|{'|'.join(end + '0*' for end in ends)}))?"
    places = next((n for n in range(4) if 10**n % step == 0), None)
    if step.denominator != 1 or places is None or 10**places // int(step) > _MAX_ENDS:
        raise GrammarError(f"multiples of {_shown(step)} cannot be enforced, or not beside this")
    few = range(0, 10**places, int(step))
    ends = [f"{i:0{places}}" for i in few] if places else [""]
    return rf"-?(?:{'|'.join(map(str, few))}|[1-9][0-9]*(?:{'|'.join(ends)}))(?:\.0+)?"


def by_json(numbers: Numbers, *, is_short: bool) -> str | None:
    """A schema for the compiler's own numbers, where those are exact: multiples within closed bounds. `is_short`: of
    no more digits than doubles hold."""
    numbers, step = numbers.within(_SAFE) if is_short else numbers, numbers.step
    if not numbers.is_stepped or step is None or numbers.non_multiples or numbers.excluded:
        return None
    schema: dict[str, object] = {"type": "integer" if numbers.is_integer else "number"}
    bounds = [b[0] for b in (numbers.low, numbers.high) if b is not None]
    if any(abs(v) > _SAFE for v in bounds) or step.denominator != 1 or step > _MAX_STEP:
        return None
    schema["multipleOf"] = int(step)
    if numbers.low is not None:
        schema["minimum"] = _next_multiple(numbers.low, int(step))
    if numbers.high is not None:
        schema["maximum"] = -_next_multiple((-numbers.high[0], numbers.high[1]), int(step))
    return msgspec.json.encode(schema | {"x-guidance": {"whitespace_flexible": False}}).decode()


def _next_multiple(bound: Bound, step: int) -> int:
    value, is_excluded = bound
    first = -(-value // step)
    return (first + 1 if is_excluded and first * step == value else first) * step
