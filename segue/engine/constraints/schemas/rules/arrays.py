"""Arrays as rules: items by position, and counted where `contains` or `uniqueItems` needs it."""

from collections.abc import Generator
from itertools import product
from typing import TypeVar

from segue.engine.constraints.grammar import EMPTY, Either, Node, Repeat, Seq, Terminal, seq
from segue.engine.constraints.schemas.facts import Writer
from segue.engine.constraints.schemas.keywords.assertions import ENDLESS, LENIENTLY, Unenforceable
from segue.engine.constraints.schemas.rules.distinct import Distinct
from segue.engine.constraints.schemas.shapes import Arrays

MAX_STATES = 2000
_OPEN, _CLOSE = Terminal('"["'), Terminal('"]"')

T = TypeVar("T")
Asking = Generator[tuple[int, tuple[int, ...]], Node, T]
"""Yields states whose nodes it needs, and is sent them."""


class Tuples:
    def __init__(self, writer: Writer, arrays: Arrays) -> None:
        self._writer = writer
        self._arrays = arrays
        self._states: dict[tuple[int, tuple[int, ...]], Node] = {}

    def options(self) -> list[Node]:
        arrays = self._arrays
        if arrays.most is not None and arrays.least > arrays.most:
            return []
        is_free = arrays.most is None or arrays.most > 1
        if arrays.unique is not None and is_free:
            distinct = Distinct(arrays, self._writer.reader).rule(self._writer)
            if distinct is not None:
                return [Seq((self._writer.spaces.after(_OPEN), distinct, _CLOSE))]
            if not self._writer.options.is_lenient:
                raise Unenforceable(
                    f"at {arrays.unique.part.path}: uniqueItems cannot be enforced but for items of a short list "
                    f"(enum); {LENIENTLY}"
                )
            self._writer.reader.ignore("uniqueItems", arrays.unique.part)
        if arrays.contains:
            return [Seq((self._writer.spaces.after(_OPEN), self._counted(), _CLOSE))]
        return [Seq((self._writer.spaces.after(_OPEN), self._plain(), _CLOSE))]

    def _plain(self) -> Node:
        """The rule if only the number of items is counted."""
        arrays, comma = self._arrays, self._writer.spaces.comma
        num = len(arrays.items) if arrays.most is None else min(len(arrays.items), arrays.most)
        most = None if arrays.most is None else min(arrays.most, ENDLESS) - num
        least = max(0, arrays.least - num)
        inner: Node = EMPTY
        rest = self._writer.value(arrays.rest)
        if most is None or most > 0:
            inner = Repeat(seq(comma, rest), least, most)
            if num == 0:  # the first has no comma
                inner = seq(
                    rest,
                    Repeat(seq(comma, rest), max(0, least - 1), None if most is None else most - 1),
                )
                return inner if least else Repeat(inner, 0, 1)
        for index in range(num - 1, -1, -1):
            item = self._writer.value(arrays.items[index])
            inner = seq(*(() if index == 0 else (comma,)), item, inner)
            if index >= arrays.least:
                inner = Repeat(inner, 0, 1)
            inner = self._writer.rule(inner) if index % 4 == 0 else inner
        return inner

    # --- counted ----------------------------------------------------------------------------------

    def _counted(self) -> Node:
        num = len(self._arrays.contains)
        if num > 3:
            raise Unenforceable("more than three kinds of items are counted at once")
        # States lead to states, as far as is counted: too far for calls within calls.
        open_states = [self._state(0, (0,) * num)]
        answer: Node | None = None
        while True:
            top = open_states[-1]
            try:
                index, hits = next(top) if answer is None else top.send(answer)
            except StopIteration as done:
                open_states.pop()
                node: Node = done.value
                if not open_states:
                    return node
                answer = node
            else:
                open_states.append(self._state(index, hits))
                answer = None

    def _state(self, index: int, hits: tuple[int, ...]) -> Asking[Node]:
        """What may follow after so many items, of which so many were counted."""
        arrays = self._arrays
        starts = [c.start for c in arrays.contains]
        last = (
            max([len(arrays.items), arrays.least, *starts]) if arrays.most is None else arrays.most
        )
        index = min(index, max(last, 1))
        if (index, hits) in self._states:
            return self._states[index, hits]
        if len(self._states) > MAX_STATES:
            raise Unenforceable("contains counts too many items")
        self._states[index, hits] = place = self._writer.rule(EMPTY)
        options: list[Node] = []
        if index >= arrays.least and all(
            n >= c.least for n, c in zip(hits, arrays.contains, strict=True)
        ):
            options.append(EMPTY)
        if arrays.most is None or index < arrays.most:
            options += yield from self._steps(index, hits)
        self._writer.define(place, Either(tuple(options)))
        return place

    def _steps(self, index: int, hits: tuple[int, ...]) -> Asking[list[Node]]:
        """One more item, for each way in which it may be counted."""
        arrays = self._arrays
        found: list[Node] = []
        for counted in product((True, False), repeat=len(hits)):
            goals = list(arrays.at(index))
            after = list(hits)
            for i, (contains, is_hit) in enumerate(zip(arrays.contains, counted, strict=True)):
                if index < contains.start:
                    is_possible = not is_hit
                elif is_hit:
                    goals.append(contains.goal)
                    cap = contains.least if contains.most is None else contains.most
                    is_possible = hits[i] < cap
                    after[i] += 1
                else:
                    is_possible = True
                    if contains.most is not None:  # then none may be missed
                        goals.append(contains.goal.opposite())
                if not is_possible:
                    break
            else:
                comma = () if index == 0 else (self._writer.spaces.comma,)
                item = self._writer.value(tuple(goals))
                following = yield index + 1, tuple(after)
                found.append(seq(*comma, item, following))
        return found
