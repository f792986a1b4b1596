"""A pattern as a program for a search that tries everything at once, in the order in which a backtracking one would."""

from typing import NamedTuple

from segue.engine.constraints.grammar import (
    Chars,
    Either,
    GrammarError,
    Literal,
    Node,
    Range,
    Ref,
    Repeat,
    Seq,
    children,
)
from segue.engine.constraints.lazy.patterns import Ahead, Group, Shortest, sure_groups
from segue.engine.constraints.scalars.pattern import BEGIN, END

MAX_STEPS = 2000


class Read(NamedTuple):
    """One character."""

    ranges: tuple[Range, ...]
    then: int


class Split(NamedTuple):
    """Any of these, the better ones first."""

    then: tuple[int, ...]


class Mark(NamedTuple):
    """A group begins or ends."""

    slot: int
    is_begin: bool
    then: int


class Edge(NamedTuple):
    """Only where the output begins, or ends so far."""

    is_end: bool
    then: int


class Look(NamedTuple):
    """What follows must match from there, or must not."""

    is_wanted: bool
    start: int
    then: int


class Match(NamedTuple):
    """Also the end of what is looked ahead for."""


Step = Read | Split | Mark | Edge | Look | Match
MATCH = 0


class Program(NamedTuple):
    steps: tuple[Step, ...]
    start: int
    # Of groups: the first with text says where the grammar begins. The match itself is slot 0, if it may count.
    num_slots: int
    has_whole: bool
    looks_on: bool  # whether a match hangs on what follows, or that nothing does

    @property
    def order(self) -> tuple[int, ...]:
        """Slots, those that count before others first."""
        return (*range(1, self.num_slots), *([0] if self.has_whole else []))


def program(pattern: Node) -> Program:
    """Raises GrammarError."""
    sure = sure_groups(pattern)
    groups = sorted(_groups(pattern))
    counting = groups[: groups.index(min(sure)) + 1] if sure else groups
    made = _Maker({group: slot for slot, group in enumerate(counting, 1)})
    start = made.build(pattern, MATCH)
    looks_on = any(isinstance(s, Look) or (isinstance(s, Edge) and s.is_end) for s in made.steps)
    return Program(tuple(made.steps), start, len(counting) + 1, not sure, looks_on)


def _groups(node: Node) -> set[int]:
    inner: tuple[Node, ...] = ()
    match node:
        case Ahead():
            return set()
        case Seq(items) | Either(items):
            inner = items
        case Repeat(item):
            inner = (item,)
    own = {node.number} if isinstance(node, Group) else set()
    return own.union(*map(_groups, inner))


def _holds_edge(node: Node) -> bool:
    return isinstance(node, Ahead) or node == END or any(map(_holds_edge, children(node)))


class _Maker:
    """Builds from behind: each part knows what comes after it."""

    def __init__(self, slots: dict[int, int]) -> None:
        self._slots = slots
        self.steps: list[Step] = [Match()]

    def build(self, node: Node, then: int) -> int:
        match node:
            case Chars(ranges):
                return self._add(Read(ranges, then))
            case Literal(text):
                for c in reversed(text):
                    then = self._add(Read(((ord(c), ord(c)),), then))
                return then
            case Ref():
                return self._add(Edge(node == END, then)) if node in (BEGIN, END) else then
            case Ahead((body,), is_wanted=is_wanted):
                if _holds_edge(body):
                    raise GrammarError("look-ahead may hold neither $ nor another look-ahead")
                return self._add(Look(is_wanted, self.build(body, MATCH), then))
            case Group((body,), number=number) if number in self._slots:
                slot = self._slots[number]
                inner = self.build(body, self._add(Mark(slot, False, then)))
                return self._add(Mark(slot, True, inner))
            case Seq(items):
                for item in reversed(items):
                    then = self.build(item, then)
                return then
            case Either(options):
                return self._add(Split(tuple(self.build(option, then) for option in options)))
            case Repeat(item, least, most):
                return self._repeated(item, least, most, isinstance(node, Shortest), then)
        raise TypeError(f"not a part of a pattern: {node}")

    def _repeated(
        self, item: Node, least: int, most: int | None, is_shortest: bool, then: int
    ) -> int:
        after = then
        if most is None:
            loop = self._add(Split(()))
            again = self.build(item, loop)
            self.steps[loop] = Split((then, again) if is_shortest else (again, then))
            after = loop
        else:
            for _ in range(most - least):
                again = self.build(item, after)
                after = self._add(Split((then, again) if is_shortest else (again, then)))
        for _ in range(least):
            after = self.build(item, after)
        return after

    def _add(self, step: Step) -> int:
        if len(self.steps) >= MAX_STEPS:
            raise GrammarError(f"the pattern has more than {MAX_STEPS} parts, repetitions counted")
        self.steps.append(step)
        return len(self.steps) - 1
