"""Grammars as values: rules made of nodes, independent of the syntax they were written in."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

Range = tuple[int, int]  # of code points, both ends included

LAST = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)


class GrammarError(ValueError):
    """What is wrong with a grammar, and where if that is known."""


@dataclass(frozen=True)
class Chars:
    """One character of a set. The ranges are sorted and do not touch."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True)
class Literal:
    text: str
    # Tells it from the same text elsewhere: what follows each is looked at by itself.
    mark: str = ""


@dataclass(frozen=True)
class Seq:
    items: tuple["Node", ...]


@dataclass(frozen=True)
class Either:
    options: tuple["Node", ...]


@dataclass(frozen=True)
class Repeat:
    item: "Node"
    least: int
    most: int | None


@dataclass(frozen=True)
class Ref:
    name: str


@dataclass(frozen=True)
class Lexeme:
    """A regular part of the grammar, which the lexer matches as one lexeme."""

    node: "Node"

    @cached_property
    def _hash(self) -> int:
        return hash(self.node)  # deep, and asked for again and again

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Terminal:
    """A lexeme written as Lark text."""

    text: str


@dataclass(frozen=True)
class Free:
    """Any text without the stops in it; or any that ends with `until`, the first of the stops that it holds.

    Where two stops end together, the longer one counts.
    """

    stops: tuple[str, ...] = ()  # none is empty
    until: str | None = None
    most: int | None = None  # characters
    like: str = ""  # a Lark terminal for what comes before `until`; without one it is any text
    place: str = field(default="", compare=False)  # for errors


class Step(NamedTuple):
    """Of an automaton: from one state to another, by any of these characters."""

    ranges: tuple[Range, ...]
    target: int
    is_end: bool  # the text may end here


@dataclass(frozen=True)
class Watched:
    """Text that an automaton reads, as one lexeme: any up to a trigger, or with it."""

    states: tuple[tuple[Step, ...], ...]  # it begins in the first
    may_be_empty: bool
    body: "Node" = field(compare=False)  # the same as an expression
    mark: str = ""  # as that of a literal
    place: str = field(default="", compare=False)  # for errors


@dataclass(frozen=True, eq=False)
class Shared:
    """A part of the expression of an automaton, which stands in several places."""

    node: "Node"


@dataclass(frozen=True)
class Pieces(Seq):
    """Items that are lexemes of their own: together they would be too dear. It is the whole body of a rule."""


@dataclass(frozen=True)
class Nested:
    """A grammar of its own, as Lark text. It is the whole body of a rule."""

    text: str
    begins: tuple[Range, ...]  # its first character
    goes_on: tuple[Range, ...]  # what its last lexeme may read on: the digits of a number
    mark: str = ""  # as that of a literal
    place: str = field(default="", compare=False)  # for errors


@dataclass(frozen=True)
class Tokens:
    """One token of the model. It is the whole body of a rule."""

    ids: tuple[Range, ...]
    is_any: bool  # one of many, text among them: not one that is named
    texts: tuple[str, ...] = ()  # of the one that is named, where text must not be meant by it
    mark: str = ""  # as that of a literal
    place: str = field(default="", compare=False)  # for errors


@dataclass(frozen=True)
class Edge:
    """The begin or the end of a nested grammar, as a lexeme: for those who look at what surrounds it."""

    nested: Nested
    is_end: bool


Node = (
    Chars | Literal | Seq | Either | Repeat | Ref
    | Lexeme | Terminal | Free | Watched | Shared | Nested | Tokens | Edge
)  # fmt: skip
Rules = dict[str, Node]


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Seq(items):
            return items
        case Either(options):
            return options
        case Repeat(item):
            return (item,)
    return ()


def parts(node: Node) -> Iterator[Node]:
    """Those of a sequence, and of the sequences in it, one after the other."""
    if isinstance(node, Seq):
        for item in node.items:
            yield from parts(item)
    else:
        yield node


def refs(node: Node) -> Iterator[str]:
    stack = [node]
    while stack:
        match current := stack.pop():
            case Ref(name):
                yield name
            case _:
                stack.extend(children(current))


def renamed(node: Node, prefix: str) -> Node:
    """The same, with the prefix before every name that it refers to."""
    match node:
        case Ref(name):
            return Ref(prefix + name)
        case Seq(items):
            return Seq(tuple(renamed(item, prefix) for item in items))
        case Either(options):
            return Either(tuple(renamed(option, prefix) for option in options))
        case Repeat(item, least, most):
            return Repeat(renamed(item, prefix), least, most)
    return node


def seq(*items: Node) -> Node:
    return items[0] if len(items) == 1 else Seq(items)


def either(*options: Node) -> Node:
    return options[0] if len(options) == 1 else Either(options)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The ranges sorted; none touches another."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def char_set(ranges: list[Range]) -> tuple[Range, ...]:
    """The ranges sorted and merged, without surrogates, which are not characters."""
    whole = merged(ranges)
    first, last = SURROGATES
    below = [(low, min(high, first - 1)) for low, high in whole]
    above = [(max(low, last + 1), high) for low, high in whole]
    return tuple((low, high) for low, high in below + above if low <= high)


def complement(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    gaps: list[Range] = []
    start = 0
    for low, high in ranges:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        gaps.append((start, LAST))
    return char_set(gaps)


EMPTY = Seq(())
ANY = Chars(char_set([(0, LAST)]))


def settled(used: Mapping[str, Set[str]], is_ready: Callable[[str, Set[str]], bool]) -> list[str]:
    """Names in an order in which each is ready, given those before it. `used`: what a name's readiness hangs on."""
    users: dict[str, list[str]] = defaultdict(list)
    for name, others in used.items():
        for other in others:
            users[other].append(name)
    found: dict[str, None] = {}
    queue = deque(used)
    while queue:
        name = queue.popleft()
        if name not in found and is_ready(name, found.keys()):
            found[name] = None
            queue.extend(users[name])
    return list(found)
