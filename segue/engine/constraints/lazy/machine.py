"""The search for triggers as an automaton: its states, and where characters and tokens lead from each.

A trigger after which nothing of the grammar fits leads nowhere: what would complete it cannot come.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from segue.engine.constraints.automaton import Work
from segue.engine.constraints.grammar import LAST, GrammarError, Range, char_set, merged
from segue.engine.constraints.lazy.followed import Followed
from segue.engine.constraints.lazy.watch import NOT_MARKED, Attempts, Fired, State, Watch

MAX_STATES = 1000
MAX_EACH = 128  # characters that are looked at one by one

Where = int | Fired | None  # a state, a trigger that is complete, or nowhere


class Arc(NamedTuple):
    ranges: tuple[Range, ...]
    to: int | Fired


class _Moved(NamedTuple):
    """A pattern after a character."""

    attempts: int  # their number
    fired: Fired | None


_State = tuple[int, ...]  # of each pattern the number of its attempts


class Machine:
    """States are numbers, and the text begins in the first. Raises GrammarError if it is too large, or Undecided."""

    def __init__(self, watch: Watch, followed: Followed, work: Work) -> None:
        self._watch = watch
        self._followed = followed
        self._work = work
        self._attempts: list[Attempts] = []
        self._known: dict[Attempts, int] = {}
        # Where the text begins no trigger is complete, though its pattern may look at the end.
        is_usual = watch.fired_at_end(watch.start) is None
        start = self._told(watch.start)
        self._states = [start]
        self._numbers: dict[_State, int] = {start: 0} if is_usual else {}
        self._arcs: dict[int, list[Arc]] = {}
        self._steps: dict[tuple[int, str], Where] = {}
        self._moves: dict[tuple[int, int, str], _Moved] = {}
        self._cuts: dict[tuple[int, int], set[int]] = {}
        self._end_of: dict[tuple[int, int], Fired | None] = {}
        self._ends: dict[int, Fired | None] = {0: None}
        self.fits: dict[int, bool] = {}  # by trigger: whether the grammar goes on after it

    def __len__(self) -> int:
        return len(self._states)

    def explore(self) -> None:
        """Find all states to which characters lead."""
        number = len(self._arcs)
        while number < len(self._states):
            self.arcs(number)
            number += 1

    def arcs(self, number: int) -> list[Arc]:
        if number not in self._arcs:
            found: dict[int | Fired, list[Range]] = defaultdict(list)
            for low, high in self._classes(self._states[number]):
                to = self._after(self._states[number], chr(low))
                if to is not None:
                    found[to].append((low, high))
            self._arcs[number] = [Arc(char_set(ranges), to) for to, ranges in found.items()]
        return self._arcs[number]

    def ends(self, number: int) -> Fired | None:
        """The trigger that is complete if a token ends here. None where the text begins."""
        if number not in self._ends:
            found = (self._ended(*each) for each in enumerate(self._states[number]))
            fired = next(filter(None, found), None)
            self._ends[number] = fired if fired is not None and self._goes_on(fired) else None
        return self._ends[number]

    def after(self, number: int, text: str) -> Where:
        """After a text. A trigger in it takes what follows it in the text too."""
        at: Where = number
        for place, c in enumerate(text):
            if not isinstance(at, int):
                break
            at = self.step(at, c)
            if isinstance(at, Fired):
                return self.fired(at, text[place + 1 :])
        return at

    def fired(self, fired: Fired, text: str) -> Fired | None:
        """The same after this text behind it, within the token that completes it."""
        return self._fired(fired.trigger, fired.left, text)

    def meant(self, number: int) -> list[Range]:
        """Tokens that the grammar may mean by themselves, in an attempt that goes on or one that begins."""
        state = [self._attempts[each] for each in self._states[number]]
        marks = (m for attempts in state for each in attempts for m in each.marks)
        lefts = {mark // 2 for mark in marks if mark != NOT_MARKED} | {self._followed.start}
        return merged(ids for left in lefts for ids in self._followed.tokens(left))

    def after_token(self, number: int, token: int, text: str | None) -> Where:
        """After a token, which the grammar may mean by itself or by its text, and triggers mean by their text."""
        if text is None:  # no text
            return number
        run = _Run(self._followed, token, text)
        watch = Watch(self._watch.programs, run, self._work)
        state = run.begun(tuple(self._attempts[each] for each in self._states[number]))
        for run.place, c in enumerate(text, 1):
            state = watch.after(state, c)
            if (fired := watch.fired(state)) is not None:
                return self._fired(fired.trigger, run.ended(fired.left), "")
        return self._numbered(self._told(run.over(state)))

    def triggered(self, trigger: int, token: int, text: str | None) -> Fired | None:
        """After a token that is a trigger itself."""
        left = self._followed.after_token(self._followed.start, token, text)
        return self._fired(trigger, left, "")

    def step(self, number: int, c: str) -> Where:
        """After one character."""
        if (number, c) not in self._steps:
            arcs = self.arcs(number)
            self._work.spend(len(arcs))
            self._steps[number, c] = next((arc.to for arc in arcs if _holds(arc.ranges, c)), None)
        return self._steps[number, c]

    # --- one step -----------------------------------------------------------------------------------

    def _after(self, state: _State, c: str) -> Where:
        self._work.spend(2 + len(state))
        after = [self._moved(place, attempts, c) for place, attempts in enumerate(state)]
        fired = next((each.fired for each in after if each.fired is not None), None)
        if fired is not None:
            return self._fired(*fired, "")
        return self._numbered(tuple(each.attempts for each in after))

    def _moved(self, place: int, attempts: int, c: str) -> _Moved:
        """Patterns are mostly where they were in another state."""
        key = place, attempts, c
        if key not in self._moves:
            after = self._watch.of_one(place, self._attempts[attempts], c)
            self._moves[key] = _Moved(self._number(after), self._watch.fired_of(place, after))
        return self._moves[key]

    def _ended(self, place: int, attempts: int) -> Fired | None:
        key = place, attempts
        if key not in self._end_of:
            self._end_of[key] = self._watch.fired_at_end_of(place, self._attempts[attempts])
        return self._end_of[key]

    def _fired(self, trigger: int, left: int, text: str) -> Fired | None:
        for c in text:
            left = self._followed.spelled(left, c)
        fired = Fired(trigger, left)
        return fired if self._goes_on(fired) else None

    def _goes_on(self, fired: Fired) -> bool:
        fits = fired.left != self._followed.lost
        self.fits[fired.trigger] = self.fits.get(fired.trigger, False) or fits
        return fits

    # --- numbers ------------------------------------------------------------------------------------

    def _told(self, state: State) -> _State:
        return tuple(map(self._number, state))

    def _number(self, attempts: Attempts) -> int:
        number = self._known.setdefault(attempts, len(self._attempts))
        if number == len(self._attempts):
            self._attempts.append(attempts)
        return number

    def _numbered(self, state: _State) -> int:
        if state not in self._numbers:
            if len(self._states) >= MAX_STATES:
                raise GrammarError(f"the triggers need more than {MAX_STATES} states")
            self._numbers[state] = len(self._states)
            self._states.append(state)
        return self._numbers[state]

    # --- which characters lead to the same ----------------------------------------------------------

    def _classes(self, state: _State) -> Iterator[Range]:
        """Ranges of characters; those of one lead to the same."""
        cuts = {0, LAST + 1}.union(*(self._cuts_of(*each) for each in enumerate(state)))
        for low, after in pairwise(sorted(cuts)):
            yield from char_set([(low, after - 1)])

    def _cuts_of(self, place: int, attempts: int) -> set[int]:
        key = place, attempts
        if key not in self._cuts:
            cuts = self._cuts[key] = set()
            for ranges, left in self._watch.reads(place, self._attempts[attempts]):
                self._work.spend(len(ranges) + len(left))
                _cut(cuts, ranges)
                for number in left:
                    _cut(cuts, self._followed.ranges(number))
                if any(map(self._followed.has_terminals, left)):
                    _cut(cuts, _each(ranges))
        self._work.spend(1 + len(self._cuts[key]) // 16)
        return self._cuts[key]


class _Run:
    """The grammar while a token is read: how much was left of it, and from where in the token on."""

    def __init__(self, followed: Followed, token: int, text: str) -> None:
        self._followed = followed
        self._token = token
        self._text = text
        self.place = 0
        self._pairs: list[tuple[int, int]] = []
        self._numbers: dict[tuple[int, int], int] = {}

    @property
    def start(self) -> int:
        return self._number(self._followed.start)

    def after(self, number: int, c: str) -> int:
        return number

    def begun(self, state: State) -> State:
        return _marked(state, self._number)

    def over(self, state: State) -> State:
        return _marked(state, self.ended)

    def ended(self, number: int) -> int:
        left, place = self._pairs[number]
        if place == len(self._text):
            return left
        return self._followed.after_token(left, self._token, self._text[place:])

    def _number(self, left: int) -> int:
        pair = left, self.place
        if pair not in self._numbers:
            self._numbers[pair] = len(self._pairs)
            self._pairs.append(pair)
        return self._numbers[pair]


def _holds(ranges: Iterable[Range], c: str) -> bool:
    return any(low <= ord(c) <= high for low, high in ranges)


def _marked(state: State, renumbered: Callable[[int], int]) -> State:
    def marked(mark: int) -> int:
        return mark if mark == NOT_MARKED else renumbered(mark // 2) * 2 + mark % 2

    return tuple(
        tuple(each._replace(marks=tuple(map(marked, each.marks))) for each in attempts)
        for attempts in state
    )


def _each(ranges: Sequence[Range]) -> Iterator[Range]:
    """Each character by itself."""
    if sum(high - low + 1 for low, high in ranges) > MAX_EACH:
        raise GrammarError(
            f"a trigger reads any of more than {MAX_EACH} characters within the schema"
        )
    for low, high in ranges:
        yield from ((c, c) for c in range(low, high + 1))


def _cut(cuts: set[int], ranges: Iterable[Range]) -> None:
    for low, high in ranges:
        cuts |= {low, high + 1}
