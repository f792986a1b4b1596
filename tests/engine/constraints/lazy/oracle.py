"""A matcher of lazy grammars that knows nothing of ours: free until a trigger, then the grammar, as in llama.cpp."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.engine.constraints.stacks import Stacked, Stacks


class Pattern(NamedTuple):
    regex: str  # as Python has it

    def search(self, text: str) -> tuple[int, bool] | None:
        """Where the grammar begins, and whether that is so whatever comes next."""
        start = self._start(text)
        return (
            None if start is None else (start, all(self._start(text + c) == start for c in "abcx "))
        )

    def _start(self, text: str) -> int | None:
        found = re.search(self.regex, text)
        if found is None:
            return None
        groups = (number for number, group in enumerate(found.groups(), 1) if group)
        return found.start(next(groups, 0))


class Read(NamedTuple):
    """What was generated so far."""

    pieces: tuple[tuple[int, str], ...] = ()  # tokens before the trigger
    stacks: Stacks | None = None  # None: it has not come yet


class Lazy:
    """`controls`: tokens that are part of no text, though triggers and what they give to the grammar have theirs."""

    def __init__(
        self,
        grammar: Stacked,
        patterns: Sequence[Pattern],
        tokens: frozenset[int],
        controls: frozenset[int],
    ) -> None:
        self._grammar = grammar
        self._patterns = patterns
        self._tokens = tokens
        self._controls = controls

    def after(self, read: Read, token: int, text: str, by_token: bool = False) -> Read | None:
        """After one more token. None if the grammar has no place for it.

        A trigger counts from the character that completes it on; `by_token`: it is looked for after each token, as
        llama.cpp does.
        """
        if read.stacks is not None:
            stacks = self._grammar.named(read.stacks, token)
            if token not in self._controls:
                stacks |= self._grammar.spelled(read.stacks, text)
            return Read(read.pieces, stacks) if stacks else None
        if token in self._tokens:
            stacks = self._grammar.read(self._grammar.start, token, text)
            return Read(read.pieces, stacks) if stacks else None
        pieces = (*read.pieces, (token, text))
        found = self._start(pieces, by_token)
        if found is None:
            return Read(pieces)
        start, looks_on = found
        stacks = self._grammar.start
        for at, (each, piece) in zip(_places(pieces), pieces, strict=True):
            if at + len(piece) > start:
                stacks = self._grammar.read(stacks, each, piece[max(start - at, 0) :])
        if not stacks and looks_on and not by_token:
            return Read(pieces)
        return Read(pieces, stacks) if stacks else None

    def _start(self, pieces: Sequence[tuple[int, str]], by_token: bool) -> tuple[int, bool] | None:
        """Where the grammar begins, if the last token completes a trigger; and whether only because it ends there."""
        text = "".join(piece for _, piece in pieces)
        before = len(text) - len(pieces[-1][1])
        for end in range(before + 1, len(text) + 1):
            if by_token and end < len(text):
                continue
            found = [pattern.search(text[:end]) for pattern in self._patterns]
            for start, is_sure in filter(None, found):
                if is_sure or by_token:
                    return start, not is_sure
            for start, _ in filter(None, found):
                if end == len(text):
                    return start, True
        return None


def _places(pieces: Sequence[tuple[int, str]]) -> Iterator[int]:
    at = 0
    for _, piece in pieces:
        yield at
        at += len(piece)


def fitting(
    lazy: Lazy, read: Read, texts: Mapping[int, str], by_token: bool = False
) -> dict[int, Read]:
    """The tokens that may come next."""
    found = ((t, lazy.after(read, t, text, by_token)) for t, text in texts.items())
    return {token: after for token, after in found if after is not None}
