"""A text with every character outside ASCII as one that stands for its category, so that `re` can split by categories.

The categories are those of llama.cpp (`segue/unicode_categories.py`), whatever the version of Python's own tables.
"""

from functools import cache

from segue.unicode_categories import runs

# By the first letter of a category; _OTHERS for all others. White space is a vertical tab, as ASCII knows it.
_OTHERS = 0xD0
_STAND_INS = {"N": 0xD1, "L": 0xD2, "P": 0xD3, "M": 0xD4, "S": 0xD5}
_JOINERS, _HAN, _HAN_UNLETTERED, _LONG_S = 0xD6, 0xD7, 0xD8, 0xD9
# CJK ideographs, extensions A to F, and compatibility ideographs: first and last.
_HAN_RANGES = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2EBEF),
    (0x2F800, 0x2FA1F),
)

# What `\p{…}` stands for within brackets, in a text of stand-ins.
CLASSES = {
    r"\p{L}": "A-Za-z\xd2\xd9",
    r"\p{Upper}": "A-Z\xd2\xd9",  # all but a to z: no category of Unicode
    r"\p{Lower}": "a-z\xd2\xd9",
    r"\p{N}": "0-9\xd1",
    r"\p{P}": r"!-#%-*,-/:;?@\[-\]_{}" + "\xd3",
    r"\p{M}": "\xd4",
    r"\p{S}": r"$+<=>\^`\|\~" + "\xd5",
    r"\p{Joiner}": "\xd6",
    r"\p{Han}": "\xd7",  # in a text of `with_han` only, where they are no letters
    r"\p{HanUnlettered}": "\xd8",
    r"\p{LongS}": "\xd9",
}

_WHITE_SPACE = {
    **dict.fromkeys((0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000), 0x0B),
    **dict.fromkeys(range(0x2000, 0x200B), 0x0B),
}


def in_classes(text: str) -> str:
    return text.translate(_table())  # bytes give numbers, as a table must


def with_han(text: str) -> str:
    """As `in_classes`, but Chinese characters are a category of their own."""
    return text.translate(_han_table())


def in_plain_space(text: str) -> str:
    """All as it is, but white space outside ASCII."""
    return text if text.isascii() else text.translate(_WHITE_SPACE)


@cache
def _table() -> bytes:
    """By code point."""
    table = bytearray()
    for category, first, last in runs():
        table += bytes([_STAND_INS.get(category[0], _OTHERS)]) * (last - first + 1)
    table[:128] = range(128)
    for point, stand_in in _WHITE_SPACE.items():
        table[point] = stand_in
    table[0x017F] = _LONG_S
    table[0x200C] = table[0x200D] = _JOINERS
    return bytes(table)


@cache
def _han_table() -> bytes:
    table = bytearray(_table())
    marked = bytearray([_HAN_UNLETTERED]) * 256
    marked[_STAND_INS["L"]] = _HAN
    for first, last in _HAN_RANGES:
        table[first : last + 1] = table[first : last + 1].translate(marked)
    return bytes(table)
