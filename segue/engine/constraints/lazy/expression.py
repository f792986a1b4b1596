"""An automaton as a regular expression: one state after the other is left out, and the ways through it are written out.

Parts that are written out several times are shared, so that the expression stays small.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from segue.engine.constraints.automaton import Work
from segue.engine.constraints.grammar import (
    EMPTY,
    Chars,
    Either,
    GrammarError,
    Node,
    Repeat,
    Seq,
    Shared,
    Step,
    char_set,
    children,
    either,
    parts,
    seq,
)

MAX_WAYS = 20_000  # that are written out
_WAY = 20  # of the steps that are allowed, for one


def expression(states: Sequence[Sequence[Step]], may_be_empty: bool, work: Work) -> Node:
    """Of what is read from the first state on. Raises GrammarError if it is too large, or Undecided."""
    return _Ways(states, may_be_empty, work).whole()


class _Ways:
    def __init__(self, states: Sequence[Sequence[Step]], may_be_empty: bool, work: Work) -> None:
        self._work = work
        self._ways: list[dict[int, Node]] = [{} for _ in states]  # from each state to others
        self._into: list[set[int]] = [set() for _ in states]
        ends = {step.target for state in states for step in state if step.is_end}
        self._ends: dict[int, Node] = dict.fromkeys(ends, EMPTY)  # from each state to the end
        if may_be_empty:
            self._ends[0] = EMPTY
        self._left = MAX_WAYS
        for number, state in enumerate(states):
            for step in state:
                self._add(number, step.target, Chars(step.ranges))

    def whole(self) -> Node:
        waiting = [(self._size(number), number) for number in range(1, len(self._ways))]
        heapify(waiting)
        while waiting:
            size, number = heappop(waiting)
            if (now := self._size(number)) > size:  # others that were left out have made it larger
                heappush(waiting, (now, number))
            else:
                self._leave_out(number)
        loop = self._ways[0].get(0)
        end = self._ends.get(0)
        if end is None:
            raise GrammarError("no text leads there")
        return end if loop is None else _joined(Repeat(loop, 0, None), end)

    def _size(self, number: int) -> int:
        """How many ways leaving it out would write."""
        return len(self._into[number]) * len(self._ways[number])

    def _leave_out(self, number: int) -> None:
        loop = self._ways[number].pop(number, None)
        self._into[number].discard(number)
        again = EMPTY if loop is None else Repeat(loop, 0, None)
        onward = [(target, _shared(way)) for target, way in self._ways[number].items()]
        end = self._ends.get(number)
        for before in self._into[number]:
            way = _shared(_joined(self._ways[before].pop(number), again))
            for target, rest in onward:
                self._add(before, target, _joined(way, rest))
            if end is not None:
                self._ends[before] = _either(self._ends.get(before), _joined(way, _shared(end)))
        for target, _ in onward:
            self._into[target].discard(number)

    def _add(self, number: int, target: int, way: Node) -> None:
        self._left -= 1
        if self._left < 0:
            raise GrammarError("it takes too much work to look out for the triggers")
        whole = self._ways[number][target] = _either(self._ways[number].get(target), way)
        self._work.spend(_WAY + len(children(whole)) // 4)
        self._into[target].add(number)


def _shared(node: Node) -> Node:
    return node if isinstance(node, Chars | Shared) or node == EMPTY else Shared(node)


def _joined(one: Node, other: Node) -> Node:
    return seq(*parts(Seq((one, other))))


def _either(one: Node | None, other: Node) -> Node:
    if one is None:
        return other
    if isinstance(one, Chars) and isinstance(other, Chars):
        return Chars(char_set([*one.ranges, *other.ranges]))
    options = one.options if isinstance(one, Either) else (one,)
    return either(*options, other)
