"""What is still to come of a grammar: stacks of its parts, the next one on top.

Parts and stacks have numbers, so that two are compared in one step, however large they are, and what may come next of
a part is found once.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from segue.engine.constraints.automaton import Work
from segue.engine.constraints.grammar import (
    Chars,
    Either,
    GrammarError,
    Literal,
    Node,
    Ref,
    Repeat,
    Rules,
    Seq,
    Terminal,
    Tokens,
    seq,
)
from segue.engine.constraints.scalars import oracle

BOTTOM = 0  # the stack on which nothing is
# Of the steps that are allowed:
_COMPILE = 4000  # for a terminal, and one for each of its characters
_READ = 100  # for a character of a terminal
_READ_AGAIN = 4  # for each before it
_COPIED = 32  # characters of a text, or parts of a grammar, for one


@dataclass(frozen=True)
class Begun:
    """A terminal of which this text was read, and that goes on."""

    terminal: str  # its text
    read: str


Part = Node | Begun
Leaf = Chars | Literal | Tokens | Begun
Way = tuple[int, int]  # the number of a leaf that may come next, and the stack after it


class _Ways(NamedTuple):
    found: tuple[Way, ...]  # the stacks are what is left of the part itself
    may_be_empty: bool


class Stacks:
    """Raises Undecided where that is too much work, GrammarError where a rule leads to itself from the left."""

    def __init__(self, rules: Rules, work: Work) -> None:
        self._rules = rules
        self._work = work
        self._parts: list[Part] = []
        self._sizes: list[int] = []
        self._items: list[tuple[int, ...]] = []  # of parts that are made of others
        self._known: dict[Hashable, int] = {}  # parts by what they are made of
        self._cells: list[tuple[int, int]] = [(-1, -1)]  # what is on top, and the stack below it
        self._numbers: dict[tuple[int, int], int] = {}
        self._ways: dict[int, _Ways] = {}
        self._within: set[str] = set()  # rules of which nothing was read yet
        self._prefixes: dict[Begun, oracle.Prefix] = {}

    def of(self, node: Node) -> int:
        """The stack of this alone."""
        return self._push(self._part(node), BOTTOM)

    def ways(self, stack: int) -> Iterator[Way]:
        """The ways to go on."""
        while stack != BOTTOM:
            part, stack = self._cells[stack]
            found, may_be_empty = self._ways_of(part)
            self._work.spend(1 + len(found))
            yield from ((leaf, self._onto(tail, stack)) for leaf, tail in found)
            if not may_be_empty:
                return

    def leaf(self, way: Way) -> Leaf:
        match self._parts[way[0]]:
            case (Chars() | Literal() | Tokens() | Begun()) as leaf:
                return leaf
        raise TypeError("not a leaf")

    def after(self, way: Way, c: str) -> Iterator[int]:
        """The stacks after this character."""
        leaf, stack = self.leaf(way), way[1]
        match leaf:
            case Chars(ranges) if any(low <= ord(c) <= high for low, high in ranges):
                yield stack
            case Literal(text) if text[0] == c:
                self._work.spend(len(text) // _COPIED)
                yield self._push(self._literal(text[1:]), stack) if len(text) > 1 else stack
            case Begun(terminal, read):
                after = Begun(terminal, read + c)
                prefix = self._prefix(after)
                if prefix.is_whole:
                    yield stack
                if prefix.goes_on:
                    yield self._push(self._begun(after), stack)

    def node(self, stack: int) -> Node:
        """The same as a node. Raises GrammarError if a terminal is begun."""
        found: list[Node] = []
        while stack != BOTTOM:
            number, stack = self._cells[stack]
            part = self._parts[number]
            if isinstance(part, Begun):
                raise GrammarError(
                    "the trigger ends within a name or a value of the schema; it must end before it or behind it"
                )
            self._work.spend(self._sizes[number])
            found.append(part)
        return seq(*found)

    # --- stacks -------------------------------------------------------------------------------------

    def _push(self, part: int, stack: int) -> int:
        """Without what is nothing, so that equal ends look alike."""
        match self._parts[part]:
            case Seq():
                return self._pushed(self._items[part], stack)
            case Repeat(_, _, 0):
                return stack
        return self._cell(part, stack)

    def _pushed(self, parts: Sequence[int], stack: int) -> int:
        for part in reversed(parts):
            stack = self._push(part, stack)
        return stack

    def _cell(self, part: int, stack: int) -> int:
        self._work.spend(1)
        number = self._numbers.setdefault((part, stack), len(self._cells))
        if number == len(self._cells):
            self._cells.append((part, stack))
        return number

    def _onto(self, top: int, stack: int) -> int:
        """One stack on another."""
        if stack == BOTTOM:
            return top
        parts: list[int] = []
        while top != BOTTOM:
            part, top = self._cells[top]
            parts.append(part)
        for part in reversed(parts):
            stack = self._cell(part, stack)
        return stack

    # --- what may come next -------------------------------------------------------------------------

    def _ways_of(self, part: int) -> _Ways:
        if part not in self._ways:
            found, may_be_empty = self._found(part)
            ways = tuple(dict.fromkeys(found))
            self._work.spend(1 + len(ways))
            self._ways[part] = _Ways(ways, may_be_empty)
        return self._ways[part]

    def _found(self, part: int) -> tuple[Iterable[Way], bool]:
        match node := self._parts[part]:
            case Ref(name):
                return self._of_rule(name)
            case Seq():
                return self._of_items(self._items[part])
            case Either():
                options = [self._ways_of(option) for option in self._items[part]]
                ways = [way for option in options for way in option.found]
                return ways, any(option.may_be_empty for option in options)
            case Repeat(inner, least, most):
                if most == 0:
                    return (), True
                (item,) = self._items[part]
                fewer = self._repeat(
                    inner, item, max(least - 1, 0), None if most is None else most - 1
                )
                again = self._push(fewer, BOTTOM)
                ways = [(leaf, self._onto(tail, again)) for leaf, tail in self._ways_of(item).found]
                return ways, least == 0 or self._ways_of(item).may_be_empty
            case Terminal(text):
                begun = Begun(text, "")
                return [(self._begun(begun), BOTTOM)], self._prefix(begun).is_whole
            case Chars() | Literal() | Tokens() | Begun():
                return [(part, BOTTOM)], False
        raise TypeError(f"not a part of a grammar that can be followed: {node}")

    def _of_rule(self, name: str) -> _Ways:
        if name in self._within:
            raise GrammarError(
                f"the rule {name} leads to itself from the left: such a grammar cannot be lazy"
            )
        self._within.add(name)
        found = self._ways_of(self._part(self._rules[name]))
        self._within.remove(name)
        return found

    def _of_items(self, items: Sequence[int]) -> tuple[Iterable[Way], bool]:
        rests = [BOTTOM]
        for item in reversed(items):
            rests.append(self._push(item, rests[-1]))
        found: list[Way] = []
        for item, rest in zip(items, rests[-2::-1], strict=True):
            ways, may_be_empty = self._ways_of(item)
            self._work.spend(len(ways))
            found += [(leaf, self._onto(tail, rest)) for leaf, tail in ways]
            if not may_be_empty:
                return found, False
        return found, True

    # --- parts --------------------------------------------------------------------------------------

    def _part(self, node: Node) -> int:
        """The number of a part of the grammar."""
        match node:
            case Seq(items):
                own = tuple(map(self._part, items))
                return self._number(("seq", *own), node, own)
            case Either(options):
                own = tuple(map(self._part, options))
                return self._number(("either", *own), node, own)
            case Repeat(item, least, most):
                return self._repeat(item, self._part(item), least, most)
            case Literal(text):
                return self._literal(text)
        return self._number(node, node)

    def _repeat(self, node: Node, item: int, least: int, most: int | None) -> int:
        return self._number(("repeat", item, least, most), Repeat(node, least, most), (item,))

    def _literal(self, text: str) -> int:
        return self._number(text, Literal(text))

    def _begun(self, begun: Begun) -> int:
        return self._number(begun, begun)

    def _number(self, made_of: Hashable, part: Part, items: tuple[int, ...] = ()) -> int:
        self._work.spend(1 + len(items))
        number = self._known.setdefault(made_of, len(self._parts))
        if number == len(self._parts):
            self._parts.append(part)
            self._items.append(items)
            self._sizes.append(1 + sum(self._sizes[item] for item in items))
        return number

    def _prefix(self, begun: Begun) -> oracle.Prefix:
        if begun not in self._prefixes:
            if begun.read:
                self._work.spend(_READ + _READ_AGAIN * len(begun.read))
                before = self._prefix(Begun(begun.terminal, begun.read[:-1]))
                self._prefixes[begun] = before.after(begun.read[-1])
            else:
                self._work.spend(_COMPILE + len(begun.terminal))
                self._prefixes[begun] = oracle.Prefix.of(begun.terminal)
        return self._prefixes[begun]
