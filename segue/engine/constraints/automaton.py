"""A simulation of a lexer with several regular expressions: its states, and the positions that may follow.

Counted repetitions are taken as unlimited: the answers may then err on the side of more matches, never of fewer.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from segue.engine.constraints.free_text import steps
from segue.engine.constraints.grammar import (
    ANY,
    LAST,
    Chars,
    Edge,
    Either,
    Free,
    Lexeme,
    Literal,
    Node,
    Range,
    Ref,
    Repeat,
    Rules,
    Seq,
    Step,
    Tokens,
    Watched,
)

State = frozenset[int]  # positions: the characters that may be read next
Ranges = tuple[Range, ...]


class Undecided(Exception):
    """The grammar is too large to be analysed."""


class Work:
    """The work allowed for one grammar, in steps of about half a microsecond."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise Undecided


class _Part(NamedTuple):
    is_nullable: bool
    first: tuple[int, ...]
    last: tuple[int, ...]


class Automaton:
    """Positions are the characters of all lexemes; each occurrence is its own position.

    Tokens are characters beyond the last one. Of one that is not named the text may be meant too.
    """

    def __init__(self, lexemes: list[Lexeme], rules: Rules, work: Work) -> None:
        """Raises Undecided, and RecursionError if chains of rules are too long."""
        self._rules = rules
        self._work = work
        self.ranges: list[Ranges] = []
        self.owner: list[Lexeme] = []
        self._next: list[set[int]] = []
        self._parts: dict[Lexeme, _Part] = {}
        self._ends: dict[int, Lexeme] = {}
        for lexeme in lexemes:
            part = self._build(lexeme.node, lexeme)
            self._parts[lexeme] = part
            self._ends.update(dict.fromkeys(part.last, lexeme))

    def is_nullable(self, lexeme: Lexeme) -> bool:
        return self._parts[lexeme].is_nullable

    def first(self, lexeme: Lexeme) -> State:
        return frozenset(self._parts[lexeme].first)

    def steps(self, state: State) -> Iterator[tuple[State, frozenset[Lexeme]]]:
        """The states after one more character, with the lexemes that are complete there."""
        for read in self._read(state):
            ended = frozenset(self._ends[p] for p in read if p in self._ends)
            yield frozenset().union(*(self._next[p] for p in read)), ended

    def text_of(self, state: State) -> State:
        """Without tokens that are named or one of many."""
        self._work.spend(len(state))
        return frozenset(p for p in state if not isinstance(self.owner[p].node, Tokens))

    def after(self, state: State, c: str) -> tuple[State, frozenset[Lexeme]]:
        """The same after this character, which is part of no token that is named or one of many."""
        self._work.spend(1 + len(state))
        found = ((ord(c), ord(c)),)
        read = {p for p in self.text_of(state) if overlap(self.ranges[p], found)}
        ended = frozenset(self._ends[p] for p in read if p in self._ends)
        return frozenset().union(*(self._next[p] for p in read)), ended

    def _read(self, state: State) -> set[State]:
        """The sets of positions that one character can match together."""
        self._work.spend(sum(len(self.ranges[position]) for position in state))
        edges: dict[int, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
        for position in state:
            for low, high in self.ranges[position]:
                edges[low][0].add(position)
                edges[high + 1][1].add(position)
        found: set[State] = set()
        current: set[int] = set()
        for edge in sorted(edges):
            begin, end = edges[edge]
            current = (current - end) | begin
            found.add(frozenset(current))
        found.discard(frozenset())
        return found

    # --- building ---------------------------------------------------------------------------------

    def _build(self, node: Node, owner: Lexeme) -> _Part:
        match node:
            case Chars(ranges):
                return self._chars(ranges, owner)
            case Literal(text):
                return self._chain([self._chars(((ord(c), ord(c)),), owner) for c in text])
            case Seq(items):
                return self._chain([self._build(item, owner) for item in items])
            case Either(options):
                parts = [self._build(option, owner) for option in options]
                return _Part(
                    any(p.is_nullable for p in parts),
                    sum((p.first for p in parts), ()),
                    sum((p.last for p in parts), ()),
                )
            case Repeat(item, least, most):
                part = self._build(item, owner)
                if most == 0:
                    return _Part(True, (), ())
                if most != 1:
                    self._join(part.last, part.first)
                return _Part(part.is_nullable or least == 0, part.first, part.last)
            case Ref(name):
                return self._build(self._rules[name], owner)
            case Lexeme(inner):
                return self._build(inner, owner)
            case Free(until=until):
                return self._states(steps(node), until is None, owner, until is not None)
            case Watched(states, may_be_empty):
                return self._states(states, may_be_empty, owner, False)
            case Tokens(ids, is_any):
                meant: Ranges = ((0, LAST),) if is_any else ()
                return self._chars((*meant, *((LAST + 1 + a, LAST + 1 + b) for a, b in ids)), owner)
            case Edge(nested, is_end):
                if not is_end:
                    return self._chars(nested.begins, owner)
                return self._build(Seq((ANY, Repeat(Chars(nested.goes_on), 0, None))), owner)
        raise TypeError(f"not a node: {node}")

    def _chars(self, ranges: Ranges, owner: Lexeme) -> _Part:
        position = len(self.ranges)
        self._work.spend(10)
        self.ranges.append(ranges)
        self.owner.append(owner)
        self._next.append(set())
        return _Part(False, (position,), (position,))

    def _states(
        self,
        states: Sequence[Sequence[Step]],
        may_be_empty: bool,
        owner: Lexeme,
        ends_for_good: bool,
    ) -> _Part:
        """A position for each step from one state of the text to another."""
        out = [
            tuple(self._chars(step.ranges, owner).first[0] for step in state) for state in states
        ]
        last: list[int] = []
        for state, positions in zip(states, out, strict=True):
            for step, position in zip(state, positions, strict=True):
                is_last = step.is_end and ends_for_good
                self._join((position,), () if is_last else out[step.target])
                if step.is_end:
                    last.append(position)
        return _Part(may_be_empty, out[0], tuple(last))

    def _chain(self, parts: list[_Part]) -> _Part:
        whole = _Part(True, (), ())
        for part in parts:
            self._join(whole.last, part.first)
            whole = _Part(
                whole.is_nullable and part.is_nullable,
                whole.first + part.first if whole.is_nullable else whole.first,
                whole.last + part.last if part.is_nullable else part.last,
            )
        return whole

    def _join(self, last: tuple[int, ...], first: tuple[int, ...]) -> None:
        self._work.spend(len(last) * len(first))
        for position in last:
            self._next[position].update(first)


def overlap(one: Ranges, other: Ranges) -> bool:
    return any(a[0] <= b[1] and b[0] <= a[1] for a in one for b in other)
