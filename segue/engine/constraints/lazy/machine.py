"""The search for triggers as an automaton: its states, and where characters and tokens lead from each.

A trigger after which nothing of the grammar fits leads nowhere: what would complete it cannot come.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from segue.engine.constraints.grammar import LAST, GrammarError, Range, char_set
from segue.engine.constraints.lazy.followed import Followed
from segue.engine.constraints.lazy.watch import NOT_MARKED, Attempts, Fired, State, Watch

MAX_STATES = 1000
MAX_WORK = 400_000  # attempts that read a character, each a few microseconds
MAX_EACH = 128  # characters that are looked at one by one

Where = int | Fired | None  # a state, a trigger that is complete, or nowhere


class Arc(NamedTuple):
    ranges: tuple[Range, ...]
    to: int | Fired


class Machine:
    """States are numbers, and the text begins in the first. Raises GrammarError if it is too large."""

    def __init__(self, watch: Watch, followed: Followed) -> None:
        self._watch = watch
        self._followed = followed
        self._states = [watch.start]
        # Where the text begins no trigger is complete, though its pattern may look at the end.
        is_usual = watch.fired_at_end(watch.start) is None
        self._numbers: dict[State, int] = {watch.start: 0} if is_usual else {}
        self._arcs: dict[int, list[Arc]] = {}
        self._steps: dict[tuple[int, str], Where] = {}
        self._moves: dict[tuple[int, Attempts, str], Attempts] = {}
        self._cuts: dict[tuple[int, Attempts], set[int]] = {}
        self._work = MAX_WORK
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
        fired = self._watch.fired_at_end(self._states[number]) if number else None
        return fired if fired is not None and self._goes_on(fired) else None

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
        marks = (m for attempts in self._states[number] for each in attempts for m in each.marks)
        lefts = {mark // 2 for mark in marks if mark != NOT_MARKED} | {self._followed.start}
        return [ids for left in lefts for ids in self._followed.tokens(left)]

    def after_token(self, number: int, token: int, text: str | None) -> Where:
        """After a token, which the grammar may mean by itself or by its text, and triggers mean by their text."""
        if text is None:  # no text
            return number
        run = _Run(self._followed, token, text)
        watch = Watch(self._watch.programs, run)
        state = run.begun(self._states[number])
        for run.place, c in enumerate(text, 1):
            for attempts in state:
                self._spend(attempts)
            state = watch.after(state, c)
            if (fired := watch.fired(state)) is not None:
                return self._fired(fired.trigger, run.ended(fired.left), "")
        return self._numbered(run.over(state))

    def triggered(self, trigger: int, token: int, text: str | None) -> Fired | None:
        """After a token that is a trigger itself."""
        left = self._followed.after_token(self._followed.start, token, text)
        return self._fired(trigger, left, "")

    def step(self, number: int, c: str) -> Where:
        """After one character."""
        if (number, c) not in self._steps:
            to = (arc.to for arc in self.arcs(number) if _holds(arc.ranges, c))
            self._steps[number, c] = next(to, None)
        return self._steps[number, c]

    # --- one step -----------------------------------------------------------------------------------

    def _after(self, state: State, c: str) -> Where:
        after = tuple(self._of_one(place, attempts, c) for place, attempts in enumerate(state))
        fired = self._watch.fired(after)
        return self._numbered(after) if fired is None else self._fired(*fired, "")

    def _of_one(self, place: int, attempts: Attempts, c: str) -> Attempts:
        """Patterns are mostly where they were in another state."""
        key = place, attempts, c
        if key not in self._moves:
            self._spend(attempts)
            self._moves[key] = self._watch.of_one(place, attempts, c)
        return self._moves[key]

    def _fired(self, trigger: int, left: int, text: str) -> Fired | None:
        for c in text:
            left = self._followed.spelled(left, c)
        fired = Fired(trigger, left)
        return fired if self._goes_on(fired) else None

    def _goes_on(self, fired: Fired) -> bool:
        fits = fired.left != self._followed.lost
        self.fits[fired.trigger] = self.fits.get(fired.trigger, False) or fits
        return fits

    def _numbered(self, state: State) -> int:
        if state not in self._numbers:
            if len(self._states) >= MAX_STATES:
                raise GrammarError(f"the triggers need more than {MAX_STATES} states")
            self._numbers[state] = len(self._states)
            self._states.append(state)
        return self._numbers[state]

    def _spend(self, attempts: Attempts) -> None:
        self._work -= 1 + sum(1 + len(each.looking) for each in attempts)
        if self._work < 0:
            raise GrammarError("the triggers take too much work")

    def _classes(self, state: State) -> Iterator[Range]:
        """Ranges of characters; those of one lead to the same."""
        cuts = {0, LAST + 1}.union(*(self._cuts_of(*each) for each in enumerate(state)))
        for low, after in pairwise(sorted(cuts)):
            yield from char_set([(low, after - 1)])

    def _cuts_of(self, place: int, attempts: Attempts) -> set[int]:
        key = place, attempts
        if key not in self._cuts:
            cuts = self._cuts[key] = set()
            for ranges, left in self._watch.reads(place, attempts):
                _cut(cuts, ranges)
                for number in left:
                    _cut(cuts, self._followed.ranges(number))
                if any(map(self._followed.has_terminals, left)):
                    _cut(cuts, _each(ranges))
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
