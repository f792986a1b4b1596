"""Unicode's general categories, as `\\p{...}` names them."""

import unicodedata
from functools import cache, lru_cache
from itertools import groupby

from segue.engine.constraints.grammar import LAST, Range, char_set

_LONG = {
    "Letter": "L",
    "Lowercase_Letter": "Ll",
    "Uppercase_Letter": "Lu",
    "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm",
    "Other_Letter": "Lo",
    "Mark": "M",
    "Number": "N",
    "Decimal_Number": "Nd",
    "digit": "Nd",
    "Letter_Number": "Nl",
    "Other_Number": "No",
    "Punctuation": "P",
    "Symbol": "S",
    "Currency_Symbol": "Sc",
    "Math_Symbol": "Sm",
    "Separator": "Z",
    "Space_Separator": "Zs",
    "Other": "C",
    "Control": "Cc",
}
_SHORT = frozenset(
    {
        "L",
        "Ll",
        "Lu",
        "Lt",
        "Lm",
        "Lo",
        "M",
        "Mn",
        "Mc",
        "Me",
        "N",
        "Nd",
        "Nl",
        "No",
        "P",
        "Pc",
        "Pd",
    }
    | {"Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C", "Cc"}
    | {"Cf", "Co", "Cn"}
)


def unicode_class(name: str) -> tuple[Range, ...] | None:
    """The characters of a category, None if it is not known."""
    name = name.removeprefix("General_Category=").removeprefix("gc=")
    if name == "ASCII":
        return ((0, 0x7F),)
    if name == "Any":
        return char_set([(0, LAST)])
    short = _LONG.get(name, name)
    return _ranges(short) if short in _SHORT else None


@lru_cache(64)
def _ranges(category: str) -> tuple[Range, ...]:
    parts = [ranges for name, ranges in _all().items() if name.startswith(category)]
    return char_set([r for ranges in parts for r in ranges])


@cache
def _all() -> dict[str, list[Range]]:
    """By category of two letters, in one pass: it takes a good part of a second."""
    found: dict[str, list[Range]] = {}
    runs = groupby(range(LAST + 1), lambda code: unicodedata.category(chr(code)))
    for category, codes in runs:
        run = list(codes)
        found.setdefault(category, []).append((run[0], run[-1]))
    return found
