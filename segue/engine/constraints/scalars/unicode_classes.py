"""Unicode's general categories, as `\\p{...}` names them."""

from functools import cache

from segue.engine.constraints.grammar import LAST, Range, char_set
from segue.unicode_categories import CATEGORIES, runs

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
_SHORT = frozenset(CATEGORIES) - {"Cs"} | {category[0] for category in CATEGORIES}


def unicode_class(name: str) -> tuple[Range, ...] | None:
    """The characters of a category, None if it is not known."""
    name = name.removeprefix("General_Category=").removeprefix("gc=")
    if name == "ASCII":
        return ((0, 0x7F),)
    if name == "Any":
        return char_set([(0, LAST)])
    short = _LONG.get(name, name)
    return _ranges(short) if short in _SHORT else None


@cache
def _ranges(category: str) -> tuple[Range, ...]:
    return char_set([(run.first, run.last) for run in runs() if run.category.startswith(category)])
