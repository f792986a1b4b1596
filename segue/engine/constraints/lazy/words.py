"""Looks out for many texts at once, as Aho and Corasick do: as large as the texts together, however they overlap.

A state is the longest beginning of a text that what was read ends with.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

START = 0


class Hit(NamedTuple):
    """A text is complete."""

    number: int  # its number
    end: int  # how much was read until then


class Words:
    """Of bytes. The text that is complete first counts; of several that end together the one of the lowest number."""

    def __init__(self, texts: Mapping[int, bytes]) -> None:
        """`texts`: by their numbers, none of them empty."""
        self._onward: list[dict[int, int]] = [{}]
        self._complete: list[int | None] = [None]
        for number in sorted(texts):
            self._add(number, texts[number])
        # Of each state: the longest other beginning that it ends with.
        self._shorter = [START] * len(self._onward)
        self._link()

    def __len__(self) -> int:
        return len(self._onward)

    def read(self, state: int, data: bytes) -> int | Hit:
        """The state after these bytes, or the first text that is complete in them."""
        onward, shorter, complete = self._onward, self._shorter, self._complete
        for end, byte in enumerate(data, 1):
            while (to := onward[state].get(byte)) is None and state:
                state = shorter[state]
            state = START if to is None else to
            if (number := complete[state]) is not None:
                return Hit(number, end)
        return state

    def begun(self, state: int) -> Iterator[int]:
        """The states of all beginnings that this one ends with, itself among them, but not of the empty one."""
        while state:
            yield state
            state = self._shorter[state]

    def onward(self, state: int) -> Mapping[int, int]:
        """The states of the beginnings that are longer by one byte, by that byte."""
        return self._onward[state]

    def is_complete(self, state: int) -> bool:
        """Whether a text ends there."""
        return self._complete[state] is not None

    def _add(self, number: int, text: bytes) -> None:
        at = START
        for byte in text:
            to = self._onward[at].setdefault(byte, len(self._onward))
            if to == len(self._onward):
                self._onward.append({})
                self._complete.append(None)
            at = to
        if self._complete[at] is None:
            self._complete[at] = number

    def _link(self) -> None:
        waiting = deque(self._onward[START].values())
        while waiting:
            at = waiting.popleft()
            for byte, to in self._onward[at].items():
                self._shorter[to] = self._after(self._shorter[at], byte)
                waiting.append(to)
            ends = (self._complete[at], self._complete[self._shorter[at]])
            self._complete[at] = min((end for end in ends if end is not None), default=None)

    def _after(self, state: int, byte: int) -> int:
        while byte not in self._onward[state] and state:
            state = self._shorter[state]
        return self._onward[state].get(byte, START)
