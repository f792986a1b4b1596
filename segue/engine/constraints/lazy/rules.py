"""A lazy grammar as rules: free text, which ends or leads to a trigger, and what is left of the grammar after that.

Free text is one lexeme as far as it is text. Control tokens and others that are more than their characters stand
between such lexemes, and the search for triggers goes on after each from the state that it leads to.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from segue.engine.constraints.automaton import Undecided, Work
from segue.engine.constraints.grammar import (
    EMPTY,
    GrammarError,
    Nested,
    Node,
    Ref,
    Rules,
    Step,
    Tokens,
    Watched,
    either,
    seq,
)
from segue.engine.constraints.lazy.exits import Exits, TokenExits
from segue.engine.constraints.lazy.expression import expression
from segue.engine.constraints.lazy.followed import Followed
from segue.engine.constraints.lazy.machine import Arc, Machine
from segue.engine.constraints.lazy.triggers import TriggerError, Wanted, never_fits, wanted
from segue.engine.constraints.lazy.watch import Fired, Watch
from segue.engine.constraints.tokens import KnownTokens, ranges
from segue.types import Constraint, Trigger

MAX_WORK = 2_000_000
_LETTERS = 8  # of a grammar within the grammar that are written, for one of these steps

Rest = Callable[[Node], Node]
"""What is left of the grammar, as a node of the rules that are made here."""


def lazy(rules: Rules, constraint: Constraint, known: KnownTokens, rest: Rest) -> Rules:
    """Rules whose names begin with "free", the whole among them. Raises GrammarError, of a trigger TriggerError."""
    triggers, preserved = constraint.triggers, constraint.preserved
    try:
        return _rules(rules, triggers, wanted(triggers, preserved, known), known, rest)
    except Undecided:
        raise GrammarError("it takes too much work to look out for the triggers") from None
    except RecursionError:
        raise GrammarError(
            "it is nested too deeply for one that begins to hold at a trigger"
        ) from None


def _rules(
    rules: Rules, triggers: Sequence[Trigger], read: Wanted, known: KnownTokens, rest: Rest
) -> Rules:
    work = Work(MAX_WORK)
    followed = Followed(rules, work)
    watch = Watch(read.programs, followed, work)
    if (at_once := watch.fired(watch.start)) is not None:
        raise TriggerError(
            "it matches the empty text, so that the grammar holds at once; ask for that without triggers",
            triggers[at_once.trigger].param,
        )
    machine = Machine(watch, followed, work)
    exits = TokenExits(machine, rules, known, read.tokens, work).of_all()
    for number, fits in sorted(machine.fits.items()):
        if not fits:
            raise never_fits(triggers[number].param)
    return _Writer(machine, exits, lambda left: rest(followed.rest(left)), work).rules()


class _Writer:
    def __init__(
        self, machine: Machine, exits: Sequence[Exits], rest: Callable[[int], Node], work: Work
    ) -> None:
        self._work = work
        self._reached_from: dict[int, frozenset[int | Fired]] = {}
        self._machine = machine
        self._exits = exits
        self._rest = rest
        self._found: Rules = {}
        # States where tokens may end, by where tokens lead from there.
        kinds: dict[frozenset[tuple[int | Fired, frozenset[int]]], set[int]] = defaultdict(set)
        for number, own in enumerate(exits):
            if machine.ends(number) is None:
                kinds[frozenset(own.items())].add(number)
        self._kinds = [(frozenset(states), exits[min(states)]) for states in kinds.values()]

    def rules(self) -> Rules:
        targets = (to for own in self._exits for to in own if isinstance(to, int))
        starts = sorted({0, *targets})
        ways: dict[int, list[Node]] = {start: [] for start in starts}  # to where it begins
        ways[0].append(EMPTY)
        whole: list[Node] = []
        for start in starts:
            before = Ref(f"free {start}")
            for kind, (states, own) in enumerate(self._kinds):
                free = self._free(start, states, f"{start} {kind}")
                if free is None:
                    continue
                whole.append(seq(before, free))
                for to, tokens in own.items():
                    token = self._token(tokens, f"{kind} {to}")
                    if isinstance(to, Fired):
                        whole.append(seq(before, free, token, self._left(to)))
                    else:
                        ways[to].append(seq(before, free, token))
            lefts = sorted({to.left for to in self._reached(start) if isinstance(to, Fired)})
            for left in lefts:
                found = self._triggered(start, left)
                whole.append(seq(before, found, self._left(Fired(0, left))))
        self._found |= {f"free {start}": either(*nodes) for start, nodes in ways.items()}
        return self._found | {"free": either(*whole)}

    def _token(self, tokens: frozenset[int], mark: str) -> Node:
        name = f"free token {mark}"
        place = "where a token is a trigger or no text"
        self._found[name] = Tokens(ranges(tokens), is_any=False, mark=mark, place=place)
        return Ref(name)

    def _left(self, fired: Fired) -> Node:
        name = f"free left {fired.left}"
        if name not in self._found:
            rest = self._found[name] = self._rest(fired.left)
            self._work.spend(len(rest.text) // _LETTERS if isinstance(rest, Nested) else 1)
        return Ref(name)

    # --- lexemes ------------------------------------------------------------------------------------

    def _free(self, start: int, ends: frozenset[int], mark: str) -> Node | None:
        """Text without a trigger, after which the search is in one of these states. None if there is none."""
        return self._watched(start, ends, start in ends, mark)

    def _triggered(self, start: int, left: int) -> Node:
        """Text that ends with a trigger."""
        fired = frozenset(
            to for to in self._reached(start) if isinstance(to, Fired) and to.left == left
        )
        found = self._watched(start, fired, False, f"{start} fired {left}")
        if found is None:
            raise GrammarError("no text leads to a trigger")
        return found

    def _watched(
        self, start: int, ends: frozenset[int | Fired], may_be_empty: bool, mark: str
    ) -> Node | None:
        kept = self._leading(start, ends)
        if not ends & kept and not may_be_empty:
            return None
        numbers = {
            to: number
            for number, to in enumerate(
                sorted(kept, key=lambda to: (to != start, isinstance(to, Fired), to))
            )
        }
        states = [
            tuple(
                Step(arc.ranges, numbers[arc.to], arc.to in ends)
                for arc in self._arcs(at)
                if arc.to in kept
            )
            for at in numbers
        ]
        body = expression(states, may_be_empty, self._work)
        if body == EMPTY:
            return body
        return Watched(tuple(states), may_be_empty, body, mark, place="where free text ends")

    def _reached(self, start: int) -> frozenset[int | Fired]:
        """By characters."""
        if start not in self._reached_from:
            found: set[int | Fired] = {start}
            waiting: list[int | Fired] = [start]
            while waiting:
                for arc in self._arcs(waiting.pop()):
                    if arc.to not in found:
                        found.add(arc.to)
                        waiting.append(arc.to)
            self._reached_from[start] = frozenset(found)
        return self._reached_from[start]

    def _leading(self, start: int, ends: frozenset[int | Fired]) -> frozenset[int | Fired]:
        """The states on the way from there to one of these ends."""
        reached = self._reached(start)
        into: dict[int | Fired, set[int | Fired]] = defaultdict(set)
        for at in reached:
            for arc in self._arcs(at):
                into[arc.to].add(at)
        found: set[int | Fired] = {*(ends & reached)}
        waiting = [*found]
        while waiting:
            for before in into[waiting.pop()] - found:
                found.add(before)
                waiting.append(before)
        return frozenset(found | {start})

    def _arcs(self, at: int | Fired) -> Sequence[Arc]:
        arcs = self._machine.arcs(at) if isinstance(at, int) else ()
        self._work.spend(1 + len(arcs))
        return arcs
