"""ECMA-262 regular expressions, as `pattern` has them: text → nodes that match whole strings.

An expression that is not anchored matches anywhere, so the nodes get "any text" on the sides that are open. Look-ahead
is understood at the very beginning, `^(?=.*[0-9])(?!x)`: there it is one more condition on the whole text.
"""

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from segue.engine.constraints.grammar import (
    ANY,
    EMPTY,
    LAST,
    SURROGATES,
    Chars,
    Either,
    GrammarError,
    Literal,
    Node,
    Range,
    Ref,
    Repeat,
    Seq,
    char_set,
    children,
    complement,
    either,
    seq,
)
from segue.engine.constraints.scalars.unicode_classes import unicode_class

MAX_NESTING = 50
MAX_COUNT = 100_000

BEGIN, END = Ref("^"), Ref("$")  # anchors, until they are resolved
ANYTHING: Node = Repeat(ANY, 0, None)

_DIGIT: list[Range] = [(0x30, 0x39)]
_WORD: list[Range] = [*_DIGIT, (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]
_SPACE: list[Range] = [(9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)] + [
    (c, c) for c in (0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF)
]
_LINE_ENDS: list[Range] = [(10, 10), (13, 13), (0x2028, 0x2029)]
_CLASSES: Mapping[str, list[Range]] = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_SYNTAX = frozenset("^$\\.*+?()[]{}|/-")
_TIMES: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@dataclass(frozen=True)
class Pattern:
    """Complete texts that match all of `holds` and none of `lacks`."""

    holds: tuple[Node, ...]
    lacks: tuple[Node, ...] = ()


def read_pattern(source: str) -> Pattern:
    """Raises GrammarError with the place."""
    parser = Parser(source)
    ahead, node = parser.whole()
    holds: list[Node] = [_whole(node)]
    lacks: list[Node] = []
    for is_wanted, inner in ahead:
        (holds if is_wanted else lacks).append(_whole(seq(BEGIN, inner)))
    return Pattern(tuple(holds), tuple(lacks))


# --- anchors --------------------------------------------------------------------------------------

Edge = tuple[bool, Node]  # whether the mark was there, and what is left without it


def _whole(node: Node) -> Node:
    """Without anchors: they are where the text begins and ends, and anything may stand where there is none."""
    options: list[Node] = []
    for begins, inner in _edges(node, BEGIN):
        for ends, body in _edges(inner, END):
            before = () if begins else (ANYTHING,)
            after = () if ends else (ANYTHING,)
            options.append(seq(*before, body, *after))
    return either(*options)


def _edges(node: Node, mark: Ref) -> list[Edge]:
    """The alternatives of a node, by whether they have the mark at their edge, and whether anything is left of them."""
    if not _holds(node, mark):
        return [(False, node)]
    match node:
        case Ref():
            return [(True, EMPTY)]
        case Either(options):
            return _joined([edge for option in options for edge in _edges(option, mark)])
        case Repeat(item, least, _) if item == mark:
            return [(True, EMPTY)] if least else [(False, EMPTY)]
        case Repeat(item, 0, 1):
            return _joined([(False, EMPTY), *_edges(item, mark)])
        case Repeat(item, 1, 1):
            return _edges(item, mark)
        case Seq(items):
            return _sequence_edges(items, mark)
    raise GrammarError(f"the anchor {mark.name} stands where it can never be matched")


def _joined(edges: list[Edge]) -> list[Edge]:
    """The same alternatives, joined to four at most. A sequence has all combinations of its items' alternatives, and
    without this there would be too many."""
    kinds: dict[tuple[bool, bool], dict[Node, None]] = {}
    for has_mark, node in edges:
        kinds.setdefault((has_mark, node == EMPTY), {})[node] = None
    return [(has_mark, either(*nodes)) for (has_mark, _), nodes in kinds.items()]


def _sequence_edges(items: tuple[Node, ...], mark: Ref) -> list[Edge]:
    ordered = items if mark is BEGIN else items[::-1]
    found: list[Edge] = []
    before = {False}  # whether the mark was met, in ways in which nothing else was
    for place, item in enumerate(ordered):
        edges = _edges(item, mark)
        rest = ordered[place + 1 :]
        for has_mark, first in edges:
            if first != EMPTY:
                if any(_holds(other, mark) for other in rest):
                    message = f"the anchor {mark.name} stands where it can never be matched"
                    raise GrammarError(message)
                whole = (first, *rest) if mark is BEGIN else (*rest[::-1], first)
                node = seq(*(n for n in whole if n != EMPTY))
                found += [(has_mark or is_met, node) for is_met in sorted(before)]
        before = {has_mark or met for has_mark, n in edges if n == EMPTY for met in before}
        if not before:
            break
    return _joined(found + [(is_met, EMPTY) for is_met in sorted(before)])


def _holds(node: Node, mark: Ref) -> bool:
    return node == mark or any(_holds(child, mark) for child in children(node))


# --- text -----------------------------------------------------------------------------------------


class Parser:
    """What a dialect of expressions has otherwise is in methods and tables that it replaces."""

    classes: Mapping[str, list[Range]] = _CLASSES
    line_ends: Sequence[Range] = _LINE_ENDS  # which "." is not

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def whole(self) -> tuple[list[tuple[bool, Node]], Node]:
        """Look-ahead at the beginning, and the expression after it."""
        ahead: list[tuple[bool, Node]] = []
        start = 1 if self._text.startswith("^") else 0
        self._at = start
        while start and self._text.startswith(("(?=", "(?!"), self._at):
            is_wanted = self._text[self._at + 2] == "="
            self._at += 3
            ahead.append((is_wanted, self.group_body()))
        if not ahead:
            self._at = 0
        node = self.expression()
        if ahead and isinstance(node, Either):
            raise self._error("look-ahead before alternatives is not supported")
        return ahead, seq(BEGIN, node) if ahead else node

    def expression(self) -> Node:
        """All that is left."""
        node = self._options()
        if self._at < len(self._text):
            raise self._error("unexpected )")
        return node

    def _options(self) -> Node:
        options = [self._sequence()]
        while self.take("|"):
            options.append(self._sequence())
        return either(*options)

    def _sequence(self) -> Node:
        items: list[Node] = []
        while (c := self._peek()) and c not in "|)":
            item = self._item()
            times = self._times()
            items.append(item if times is None else self.repeated(item, *times))
        return seq(*items)

    def repeated(self, item: Node, least: int, most: int | None, is_greedy: bool) -> Node:
        """Greedy or not: the same texts."""
        return Repeat(item, least, most)

    def _item(self) -> Node:
        c = self._next()
        match c:
            case "^":
                return BEGIN
            case "$":
                return END
            case ".":
                return Chars(complement(char_set([*self.line_ends])))
            case "[":
                return self._char_class()
            case "(":
                return self.group()
            case "\\":
                return Chars(char_set(self._escape(in_class=False)))
            case "*" | "+" | "?" | "{":
                self._at -= 1
                self._check_alone()
                self._at += 1
        return Literal(c)

    def group(self) -> Node:
        self.opening()
        return self.group_body()

    def opening(self) -> bool:
        """What stands before the body of a group. Returns whether the group is one that captures."""
        start = self._at - 1
        if not self.take("?"):
            return True
        if self.take("<") and self._peek() not in "=!":
            while self._next() != ">":
                pass
            return True
        if not self.take(":"):
            raise self._error("this kind of group is not supported", start)
        return False

    def group_body(self) -> Node:
        start = self._at - 1
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._error(f"groups are nested more than {MAX_NESTING} deep")
        node = self._options()
        if not self.take(")"):
            raise self._error("this group is never closed", start)
        self._depth -= 1
        return node

    def _times(self) -> tuple[int, int | None, bool] | None:
        """The least, the most, and whether it is greedy."""
        times = _TIMES.get(self._peek())
        if times is not None:
            self._at += 1
        elif self._peek() == "{":
            times = self._braces()
        if times is None:
            return None
        is_greedy = not self.take("?")
        self._check_alone()
        return *times, is_greedy

    def _check_alone(self) -> None:
        """One sign of repetition an item."""
        c, start = self._peek(), self._at
        if c in {"*", "+", "?"} or (c == "{" and self._braces() is not None):
            raise self._error(f"{c} has nothing to repeat", start)

    def _braces(self) -> tuple[int, int | None] | None:
        """None if this is plain text, not a repetition."""
        start = self._at
        end = self._text.find("}", start)
        low, comma, high = self._text[start + 1 : end].partition(",")
        if end < 0 or not _is_number(low) or not (high == "" or _is_number(high)):
            return None
        least, most = int(low), int(high) if high else (None if comma else int(low))
        if max(least, most or 0) > MAX_COUNT:
            raise self._error(f"more than {MAX_COUNT} repetitions", start)
        if most is not None and most < least:
            raise self._error("the most repetitions are fewer than the least", start)
        self._at = end + 1
        return least, most

    # --- characters -------------------------------------------------------------------------------

    def _char_class(self) -> Node:
        start = self._at - 1
        is_negated = self.take("^")
        ranges: list[Range] = []
        while not self.take("]"):
            low = self._class_item(start)
            is_range = self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in (
                "]",
                "",
            )
            if is_range and len(low) == 1 and low[0][0] == low[0][1]:
                self._at += 1
                high = self._class_item(start)
                if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
                    raise self._error("a range of characters has no order", start)
                low = [(low[0][0], high[0][0])]
            ranges.extend(low)
        chars = char_set(ranges)
        return Chars(complement(chars) if is_negated else chars)

    def _class_item(self, start: int) -> list[Range]:
        if not self._peek():
            raise self._error("this [ is never closed", start)
        c = self._next()
        return self._escape(in_class=True) if c == "\\" else [(ord(c), ord(c))]

    def _escape(self, in_class: bool) -> list[Range]:
        start = self._at - 1
        c = self._next()
        if (known := self.classes.get(c.lower())) is not None and c.isalpha():
            return known if c.islower() else list(complement(char_set(known)))
        if c in "pP":
            return self._property(c == "P", start)
        code = self._code(c, in_class)
        if code is None:
            raise self._error(f"\\{c} is not supported", start)
        return [(code, code)]

    def _code(self, c: str, in_class: bool) -> int | None:
        if c in _CONTROLS:
            return _CONTROLS[c]
        if c == "b" and in_class:
            return 8
        if c == "0" and not self._peek().isdecimal():
            return 0
        if c == "c" and self._peek() in string.ascii_letters and self._peek():
            return ord(self._next()) % 32
        if c == "x":
            return self._hex(2)
        if c == "u":
            return self._unicode()
        return ord(c) if c in _SYNTAX or not (c.isalnum() or c == "_") else None

    def _unicode(self) -> int:
        if self.take("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : max(end, self._at)]
            if not digits or len(digits) > 8 or set(digits) - set(string.hexdigits):
                raise self._error("\\u{...} needs hexadecimal digits")
            self._at = end + 1
            code = int(digits, 16)
        else:
            code = self._hex(4)
            if 0xD800 <= code < 0xDC00 and self.take("\\u"):  # the first half of a pair
                low = self._hex(4)
                if not 0xDC00 <= low <= 0xDFFF:
                    raise self._error("half a character")
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        if code > LAST or SURROGATES[0] <= code <= SURROGATES[1]:
            raise self._error("there is no such character")
        return code

    def _hex(self, num: int) -> int:
        digits = self._text[self._at : self._at + num]
        if len(digits) < num or set(digits) - set(string.hexdigits):
            raise self._error(f"expected {num} hexadecimal digits")
        self._at += num
        return int(digits, 16)

    def _property(self, is_negated: bool, start: int) -> list[Range]:
        end = self._text.find("}", self._at)
        if not self.take("{") or end < 0:
            raise self._error("expected {...} with the name of a property", start)
        name = self._text[self._at : end]
        ranges = unicode_class(name)
        if ranges is None:
            raise self._error(f"the property {name!r} is not supported", start)
        self._at = end + 1
        return list(complement(ranges) if is_negated else ranges)

    # --- text -------------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._error("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def take(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _error(self, message: str, at: int | None = None) -> GrammarError:
        column = (self._at if at is None else at) + 1
        return GrammarError(f"the pattern {self._text[:80]!r}, column {column}: {message}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10
