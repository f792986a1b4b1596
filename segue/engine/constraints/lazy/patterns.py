"""The patterns of triggers: text → nodes, with marks where groups begin and end.

llama.cpp searches with C++'s std::regex: ECMA-262, whose classes are those of ASCII. It sees bytes, and here are
characters, so that "." is one of these.
"""

from dataclasses import dataclass
from types import MappingProxyType

from segue.engine.constraints.grammar import (
    ANY,
    Chars,
    Either,
    GrammarError,
    Literal,
    Node,
    Range,
    Ref,
    Repeat,
    Seq,
)
from segue.engine.constraints.scalars.pattern import END, Parser

MAX_PATTERN = 4096

_DIGIT: list[Range] = [(0x30, 0x39)]
_WORD: list[Range] = [*_DIGIT, (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]


@dataclass(frozen=True)
class Group(Seq):
    """One that captures: its body, and which one it is."""

    number: int = 0


@dataclass(frozen=True)
class Shortest(Repeat):
    """A repetition that is tried with fewer items first."""


@dataclass(frozen=True)
class Ahead(Seq):
    """What must follow, or must not; it is not part of the match."""

    is_wanted: bool = True


def read(text: str) -> Node:
    """Raises GrammarError with the place."""
    if len(text) > MAX_PATTERN:
        raise GrammarError(f"the pattern has more than {MAX_PATTERN} characters")
    return _without_tail(_Parser(text).expression())


def anchored(text: str) -> str:
    """A pattern that the whole output must match, as llama.cpp makes one of it."""
    if not text:
        return "^$"
    return ("" if text[0] == "^" else "^") + text + ("" if text[-1] == "$" else "$")


class _Parser(Parser):
    classes = MappingProxyType({"d": _DIGIT, "w": _WORD, "s": [(9, 13), (32, 32)]})
    line_ends = ((10, 10), (13, 13))

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._num_groups = 0

    def group(self) -> Node:
        for opening in ("?=", "?!"):
            if self.take(opening):
                return Ahead((self.group_body(),), is_wanted=opening == "?=")
        if not self.opening():
            return self.group_body()
        self._num_groups += 1
        number = self._num_groups
        return Group((self.group_body(),), number=number)

    def repeated(self, item: Node, least: int, most: int | None, is_greedy: bool) -> Node:
        return (Repeat if is_greedy else Shortest)(item, least, most)


def _without_tail(node: Node) -> Node:
    """Without anything and the end of the output behind it: then the match is there as soon as the rest of it is."""
    match node:
        case Seq((*items, Repeat(Chars(ranges), 0, None), Ref(END.name))) if (
            type(node) is Seq and ranges == ANY.ranges
        ):
            return Seq(tuple(items))
    return node


def may_be_empty(node: Node) -> bool:
    """Whether it can match without a character."""
    match node:
        case Ahead() | Ref():
            return True
        case Chars() | Literal():
            return False
        case Seq(items):
            return all(map(may_be_empty, items))
        case Either(options):
            return any(map(may_be_empty, options))
        case Repeat(item, least):
            return least == 0 or may_be_empty(item)
    raise TypeError(f"not a part of a pattern: {node}")


def sure_groups(node: Node) -> frozenset[int]:
    """The groups that have text in every match."""
    match node:
        case Group((body,), number=number):
            own = frozenset() if may_be_empty(body) else frozenset({number})
            return own | sure_groups(body)
        case Ahead():
            return frozenset()
        case Seq(items):
            return frozenset().union(*map(sure_groups, items))
        case Either(options):
            return frozenset.intersection(*map(sure_groups, options))
        case Repeat(item, least):
            return sure_groups(item) if least else frozenset()
    return frozenset()
