"""Looks out for triggers in a text, character by character: which one is complete first, and where its grammar begins.

As llama.cpp does: of several patterns the first in the list, of several places the first in the text, of several ways
to match there the one that a backtracking search finds first. Each attempt follows the grammar from where that would
begin.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from segue.engine.constraints.automaton import Work
from segue.engine.constraints.grammar import ANY, Range
from segue.engine.constraints.lazy.program import (
    MATCH,
    Edge,
    Look,
    Mark,
    Match,
    Program,
    Read,
    Split,
)

NOT_MARKED = -1
_MOVE = 4  # of the steps that are allowed, for an attempt that reads a character


class Looking(NamedTuple):
    """A condition on what follows that is not decided yet."""

    is_wanted: bool
    at: frozenset[int]


class Attempt(NamedTuple):
    """One way to match, as far as it has come."""

    at: int  # a step that reads, the match, or the end of the output
    # Of each slot, twice the number of the grammar that is left since then; one more if anything was read.
    marks: tuple[int, ...]
    looking: frozenset[Looking] = frozenset()


Attempts = tuple[Attempt, ...]  # of a pattern, the better ones first
State = tuple[Attempts, ...]


class Fired(NamedTuple):
    """A trigger is complete."""

    trigger: int  # its number
    left: int  # of the grammar, as its number


class Left(Protocol):
    """What is left of a grammar, by numbers."""

    @property
    def start(self) -> int: ...

    def after(self, number: int, c: str) -> int: ...


class Watch:
    """States are values. Raises Undecided where there are too many attempts."""

    def __init__(self, programs: Mapping[int, Program], left: Left, work: Work) -> None:
        """`programs`: of triggers, by their numbers; the first counts before the others."""
        self.programs = programs
        self.work = work
        self._all = tuple(programs.items())
        self._left = left

    @property
    def start(self) -> State:
        """Where the text begins."""
        return tuple(
            self._closed(each, [self._attempt(each)], is_begin=True) for _, each in self._all
        )

    def after(self, state: State, c: str) -> State:
        """After one more character."""
        return tuple(self.of_one(place, attempts, c) for place, attempts in enumerate(state))

    def of_one(self, place: int, attempts: Attempts, c: str) -> Attempts:
        """The same of one pattern, by its place among them: it does not hang on the others."""
        program = self._all[place][1]
        costs = (_MOVE + len(each.marks) // 2 + len(each.looking) for each in attempts)
        self.work.spend(_MOVE + sum(costs))
        return self._closed(program, [*self._moved(program, attempts, c), self._attempt(program)])

    def fired(self, state: State) -> Fired | None:
        """The trigger that is complete, whatever comes next."""
        found = (self.fired_of(place, attempts) for place, attempts in enumerate(state))
        return next(filter(None, found), None)

    def fired_of(self, place: int, attempts: Attempts) -> Fired | None:
        """The same of one pattern. None too where a better match with another grammar hangs on what comes next."""
        number, program = self._all[place]
        waiting: set[int] = set()
        for each in attempts:
            if each.at == MATCH:
                slots = (slot for slot in program.order if each.marks[slot] != NOT_MARKED)
                left = each.marks[next(slots)] // 2
                if not each.looking:
                    return Fired(number, left) if waiting <= {left} else None
                waiting.add(left)
        return None

    def fired_at_end(self, state: State) -> Fired | None:
        """The trigger that is complete if a token ends here: its pattern looks at the end, or at what comes next."""
        found = (self.fired_at_end_of(place, attempts) for place, attempts in enumerate(state))
        return next(filter(None, found), None)

    def fired_at_end_of(self, place: int, attempts: Attempts) -> Fired | None:
        """The same of one pattern."""
        program = self._all[place][1]
        if not program.looks_on:
            return None
        ended = self._closed(program, attempts, is_end=True)
        left = (e for e in ended if not any(looking.is_wanted for looking in e.looking))
        return self.fired_of(place, tuple(e._replace(looking=frozenset()) for e in left))

    def reads(
        self, place: int, attempts: Attempts
    ) -> Iterator[tuple[Sequence[Range], frozenset[int]]]:
        """What each attempt of a pattern may read next, and what is left of its grammars."""
        for each in attempts:
            left = frozenset(mark // 2 for mark in each.marks if mark != NOT_MARKED)
            for at in (each.at, *(at for looking in each.looking for at in looking.at)):
                step = self._all[place][1].steps[at]
                if isinstance(step, Read):
                    yield step.ranges, left
                elif isinstance(step, Match):  # it waits for what follows, whatever that is
                    yield ANY.ranges, left

    # --- one attempt --------------------------------------------------------------------------------

    def _attempt(self, program: Program) -> Attempt:
        """One that begins here. Slot 0 is where the match begins, if that may count."""
        whole = self._left.start * 2 if program.has_whole else NOT_MARKED
        return Attempt(program.start, (whole, *[NOT_MARKED] * (program.num_slots - 1)))

    def _moved(self, program: Program, attempts: Iterable[Attempt], c: str) -> Iterator[Attempt]:
        for each in attempts:
            step = program.steps[each.at]
            looking = self._looked(program, each.looking, c)
            if looking is None:
                continue
            if isinstance(step, Read) and _holds(step.ranges, c):
                yield Attempt(step.then, self._read(each.marks, c), looking)
            elif isinstance(step, Match):  # it waits for what must follow, or must not
                yield Attempt(each.at, self._read(each.marks, c), looking)

    def _read(self, marks: tuple[int, ...], c: str) -> tuple[int, ...]:
        after = self._left.after
        return tuple(m if m == NOT_MARKED else after(m // 2, c) * 2 + 1 for m in marks)

    def _closed(
        self,
        program: Program,
        attempts: Iterable[Attempt],
        is_begin: bool = False,
        is_end: bool = False,
    ) -> tuple[Attempt, ...]:
        """The attempts up to where something must be read, or the output must end."""
        found: dict[_Place, Attempt] = {}
        seen: set[_Place] = set()
        waiting = [*attempts][::-1]
        while waiting:
            each = waiting.pop()
            place = each.at, each.looking
            if place in seen:
                continue
            seen.add(place)
            match step := program.steps[each.at]:
                case Split(then):
                    waiting += [each._replace(at=at) for at in reversed(then)]
                case Mark():
                    waiting.append(self._marked(each, step))
                case Edge(at_end, then) if is_end if at_end else is_begin:
                    waiting.append(each._replace(at=then))
                case Look():
                    waiting += self._begun(program, each, step, is_begin)
                case Edge(is_end=False):
                    pass
                case _:
                    found[place] = each
        self.work.spend(len(seen) * (2 + program.num_slots // 16))
        return tuple(found.values())

    def _marked(self, each: Attempt, step: Mark) -> Attempt:
        marks = [*each.marks]
        if step.is_begin:
            marks[step.slot] = self._left.start * 2
        elif marks[step.slot] % 2 == 0:  # a group without text does not count
            marks[step.slot] = NOT_MARKED
        return Attempt(step.then, tuple(marks), each.looking)

    # --- conditions on what follows -----------------------------------------------------------------

    def _begun(
        self, program: Program, each: Attempt, step: Look, is_begin: bool
    ) -> Iterator[Attempt]:
        at = self._reached(program, [step.start], is_begin)
        after = each._replace(at=step.then)
        if MATCH in at or not at:
            if step.is_wanted == (MATCH in at):
                yield after
        else:
            yield after._replace(looking=each.looking | {Looking(step.is_wanted, at)})

    def _looked(
        self, program: Program, looking: frozenset[Looking], c: str
    ) -> frozenset[Looking] | None:
        """What is not decided yet after one more character. None: it is not what must follow, or what must not."""
        left: set[Looking] = set()
        for is_wanted, ats in looking:
            steps = (program.steps[at] for at in ats)
            read = [s.then for s in steps if isinstance(s, Read) and _holds(s.ranges, c)]
            at = self._reached(program, read, is_begin=False)
            if MATCH in at or not at:
                if is_wanted != (MATCH in at):
                    return None
            else:
                left.add(Looking(is_wanted, at))
        return frozenset(left)

    def _reached(self, program: Program, starts: Iterable[int], is_begin: bool) -> frozenset[int]:
        """The steps that read, and the match, to which these lead."""
        found: set[int] = set()
        seen: set[int] = set()
        waiting = [*starts]
        while waiting:
            at = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            match program.steps[at]:
                case Split(then):
                    waiting += then
                case Edge(then=then) if is_begin:
                    waiting.append(then)
                case Read() | Match():
                    found.add(at)
        self.work.spend(2 * len(seen))
        return frozenset(found)


_Place = tuple[int, frozenset[Looking]]


def _holds(ranges: Sequence[Range], c: str) -> bool:
    return any(low <= ord(c) <= high for low, high in ranges)
