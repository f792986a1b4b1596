"""A grammar after some text: what may still come, as the parser of llama.cpp keeps it in mind.

That is a set of stacks, each of the parts that are still to come. Sets have numbers.
"""

from collections import defaultdict
from collections.abc import Iterable

from segue.engine.constraints.automaton import Work
from segue.engine.constraints.grammar import (
    Chars,
    GrammarError,
    Literal,
    Node,
    Range,
    Ref,
    Rules,
    Tokens,
    either,
)
from segue.engine.constraints.lazy.stacks import Begun, Stacks, Way

MAX_SETS = 2000
MAX_STACKS = 200  # in one set
_WAY = 4  # of the steps that are allowed, for each way to go on from a set


class _Next:
    """What may come next of a set of stacks."""

    def __init__(self, ways: Iterable[Way], stacks: Stacks) -> None:
        self._by_char: dict[str, list[Way]] = defaultdict(list)
        self._others: list[Way] = []  # that more than one character may begin
        self.tokens: list[tuple[Tokens, int]] = []  # each with the stack after it
        self.ranges: list[Range] = []
        self.has_terminals = False
        for way in ways:
            self._add(way, stacks)

    def _add(self, way: Way, stacks: Stacks) -> None:
        match leaf := stacks.leaf(way):
            case Literal(text):
                self._by_char[text[0]].append(way)
                self.ranges.append((ord(text[0]), ord(text[0])))
            case Chars(ranges):
                self._others.append(way)
                self.ranges.extend(ranges)
            case Tokens():
                self.tokens.append((leaf, way[1]))
            case Begun():
                self._others.append(way)
                self.has_terminals = True

    def ways(self, c: str) -> list[Way]:
        """Those that this character may begin."""
        return [*self._by_char.get(c, ()), *self._others]


class Followed:
    """Raises GrammarError where too much of the grammar would have to be kept in mind, and Undecided as its stacks."""

    def __init__(self, rules: Rules, work: Work) -> None:
        self._stacks = Stacks(rules, work)
        self._work = work
        self._has_tokens = any(isinstance(body, Tokens) for body in rules.values())
        self._sets: list[frozenset[int]] = []
        self._numbers: dict[frozenset[int], int] = {}
        self._after: dict[tuple[int, str], int] = {}
        self._next: dict[int, _Next] = {}
        self.lost = self._number(())  # where the text fits no more
        self.start = self._number([self._stacks.of(Ref("root"))])

    def ranges(self, number: int) -> list[Range]:
        """What decides which character leads where: all characters of a range lead to the same."""
        ranges = self._come(number).ranges
        self._work.spend(len(ranges))
        return ranges

    def has_terminals(self, number: int) -> bool:
        """Whether each character may lead elsewhere."""
        return self._come(number).has_terminals

    def tokens(self, number: int) -> list[Range]:
        """Those that may be meant by themselves."""
        tokens = self._come(number).tokens if self._has_tokens else ()
        found = [ids for each, _ in tokens for ids in each.ids]
        self._work.spend(len(found))
        return found

    def after(self, number: int, c: str) -> int:
        """After one more character of a text, of which it is not known what tokens it is."""
        if any(tokens.is_any for tokens, _ in self._come(number).tokens):
            raise GrammarError("a trigger reads on where the grammar means any token")
        return self.spelled(number, c)

    def spelled(self, number: int, c: str) -> int:
        """The same within a token that is known."""
        if (number, c) not in self._after:
            ways = self._come(number).ways(c)
            self._work.spend(1 + len(ways))
            found = {stack for way in ways for stack in self._stacks.after(way, c)}
            self._after[number, c] = self._number(found)
        return self._after[number, c]

    def after_token(self, number: int, token: int, text: str | None) -> int:
        """After one that may be meant by itself, or by its text if it is any."""
        tokens = self._come(number).tokens
        self._work.spend(1 + sum(len(each.ids) for each, _ in tokens))
        named = {after for each, after in tokens if _is_among(each, token)}
        spelled = number if text else self.lost
        for c in text or "":
            spelled = self.spelled(spelled, c)
        return self._number(self._sets[spelled] | named)

    def rest(self, number: int) -> Node:
        """What may still come."""
        return either(*map(self._stacks.node, sorted(self._sets[number])))

    def _number(self, found: Iterable[int]) -> int:
        stacks = frozenset(found)
        if stacks not in self._numbers:
            if len(stacks) > MAX_STACKS or len(self._sets) >= MAX_SETS:
                raise GrammarError("the grammar has too many ways to go on where the trigger ends")
            self._numbers[stacks] = len(self._sets)
            self._sets.append(stacks)
        return self._numbers[stacks]

    def _come(self, number: int) -> _Next:
        if number not in self._next:
            ways = dict.fromkeys(
                way for stack in sorted(self._sets[number]) for way in self._stacks.ways(stack)
            )
            self._work.spend(_WAY * len(ways))
            self._next[number] = _Next(ways, self._stacks)
        return self._next[number]


def _is_among(tokens: Tokens, token: int) -> bool:
    return any(low <= token <= high for low, high in tokens.ids)
