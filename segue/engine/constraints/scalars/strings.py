"""JSON strings as regular expressions: nodes over characters become nodes over their one spelling in JSON.

A character is spelled in one way only: as it is, or where JSON demands it by its short escape, or else by \\u00xx. So
no text can write a name that is taken in another way, and lengths are counted in characters.
"""

from functools import lru_cache

from segue.engine.constraints.grammar import (
    ANY,
    Chars,
    Either,
    GrammarError,
    Lexeme,
    Literal,
    Node,
    Range,
    Ref,
    Repeat,
    Seq,
    Terminal,
    char_set,
    complement,
)

ALL_ESCAPES = 'nrbtf\\"u'
_SHORT = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 0x22: '"', 0x5C: "\\"}
_SPECIAL = char_set([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])
_HEX = "0123456789abcdef"
_META = frozenset("\\.+*?()|[]{}^$/#&-~")
NOTHING = r"[^\x{0}-\x{10ffff}]"  # a regular expression that no text matches


def quoted(text: str, escapes: str | None = ALL_ESCAPES) -> str:
    """A JSON string, in its one spelling; without escapes the text itself."""
    if escapes is None:
        return text
    return '"' + "".join(_spelled(ord(c), escapes) for c in text) + '"'


def _spelled(code: int, escapes: str) -> str:
    if code in _SHORT:
        if _SHORT[code] not in escapes:
            raise GrammarError(f"json_allowed_escapes leaves no way to write {chr(code)!r}")
        return "\\" + _SHORT[code]
    if code < 0x20:
        if "u" not in escapes:
            raise GrammarError(f"json_allowed_escapes leaves no way to write {chr(code)!r}")
        return f"\\u{code:04x}"
    return chr(code)


def in_json(node: Node, escapes: str) -> Node:
    """What spells the texts of a node within a JSON string."""
    match node:
        case Chars(ranges):
            return _chars(ranges, escapes)
        case Literal(text):
            return Literal(quoted(text, escapes)[1:-1])
        case Seq(items):
            return Seq(tuple(in_json(item, escapes) for item in items))
        case Either(options):
            return Either(tuple(in_json(option, escapes) for option in options))
        case Repeat(item, least, most):
            return Repeat(in_json(item, escapes), least, most)
    raise TypeError(f"not a node of a pattern: {node}")


@lru_cache(1024)
def _chars(ranges: tuple[Range, ...], escapes: str) -> Node:
    special = _meet(ranges, _SPECIAL)
    codes = [code for low, high in special for code in range(low, high + 1)]
    options: list[Node] = []
    if plain := _meet(ranges, complement(_SPECIAL)):
        options.append(Chars(plain))
    letters = [ord(_SHORT[c]) for c in codes if c in _SHORT and _SHORT[c] in escapes]
    if letters:
        options.append(Seq((Literal("\\"), Chars(char_set([(c, c) for c in letters])))))
    for high in (0, 1) if "u" in escapes else ():
        digits = [ord(_HEX[c % 16]) for c in codes if c not in _SHORT and c // 16 == high]
        if digits:
            chars = Chars(char_set([(c, c) for c in digits]))
            options.append(Seq((Literal(f"\\u00{high}"), chars)))
    return options[0] if len(options) == 1 else Either(tuple(options))


def _meet(one: tuple[Range, ...], other: tuple[Range, ...]) -> tuple[Range, ...]:
    pairs = ((max(a[0], b[0]), min(a[1], b[1])) for a in one for b in other)
    return char_set([pair for pair in pairs if pair[0] <= pair[1]])


@lru_cache(64)
def string_of(node: Node, escapes: str | None) -> str:
    """A regular expression for the JSON strings whose text matches the node; without escapes, for the texts."""
    if escapes is None:
        return _group(node)
    return f'"{_group(in_json(node, escapes))}"'


def lengths(least: int, most: int | None) -> Node:
    return Repeat(ANY, least, most)


def regex_text(node: Node) -> str:
    """As llguidance reads it between slashes."""
    match node:
        case Chars(ranges):
            return char_class(ranges)
        case Literal(text):
            return literal(text)
        case Seq(items):
            return "".join(_group(item) for item in items)
        case Either(options):
            return "|".join(map(regex_text, options)) if options else NOTHING
        case Repeat(_, _, 0):
            return ""
        case Repeat(item, least, most):
            inner = regex_text(item)
            atom = inner if isinstance(item, Chars) else f"(?:{inner})"
            return atom + _times(least, most)
        case Ref() | Lexeme() | Terminal():
            pass
    raise TypeError(f"not a node of a pattern: {node}")


def _group(node: Node) -> str:
    text = regex_text(node)
    return f"(?:{text})" if isinstance(node, Either) else text


def _times(least: int, most: int | None) -> str:
    if (least, most) == (0, None):
        return "*"
    if (least, most) == (0, 1):
        return "?"
    return f"{{{least},{'' if most is None else most}}}"


def literal(text: str) -> str:
    return "".join(_in_regex(c) for c in text)


def _in_regex(c: str) -> str:
    if c in _META:
        return "\\" + c
    return f"\\x{{{ord(c):x}}}" if ord(c) < 0x20 or ord(c) == 0x7F else c


def char_class(ranges: tuple[Range, ...]) -> str:
    if not ranges:
        return NOTHING
    inside = "".join(
        f"\\x{{{low:x}}}" + (f"-\\x{{{high:x}}}" if high > low else "") for low, high in ranges
    )
    return f"[{inside}]"
