"""Whose mask is found next, when more are wanted than there are threads: the order alone, without any thread.

A lexer has one turn at a time: llguidance would make a second thread wait anyway. Among the lexers that wait, the next
is the one whose turns have taken the least time (start-time fair queueing): masks that take seconds come as rarely as
they are long, whoever asks for many gets no more than whoever asks for few, and nobody saves up time by waiting.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Any


@dataclass(eq=False)
class Lexer:
    """What is known of the lexer that the guides of a grammar share."""

    is_slow: bool = False  # to read a token, or to find a mask, may take long
    is_lost: bool = False  # a thread has been at one of its masks for too long
    is_busy: bool = False  # it has a turn
    had_s: float = 0.0  # the time of its turns, counted from that of others when it came
    # Held by whoever uses it. llguidance has a lock too, but keeps Python's while it waits for that: no thread goes on.
    in_use: Lock = field(default_factory=Lock)


@dataclass(eq=False)
class MaskJob:
    """A mask that somebody waits for."""

    lexer: Lexer
    find: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)
    # What is to be run in its place by a thread for slow lexers.
    slowly: Callable[[], Any] | None = None
    start_s: float = 0.0  # when its turn comes, on the clock of turns


class FairQueue:
    def __init__(self) -> None:
        self._waiting: list[MaskJob] = []
        self._now_s = 0.0  # the clock of turns: what the last one to have a turn had had before

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def put(self, wanted: MaskJob) -> None:
        self._waiting.append(wanted)

    def withdraw(self, wanted: MaskJob) -> None:
        self._waiting.remove(wanted)

    def has(self, is_slow: bool) -> bool:
        """Whether a lexer of this kind waits for a turn that it may have now."""
        return self._next(is_slow) is not None

    def take(self, is_slow: bool) -> MaskJob | None:
        """The next turn of a slow lexer, or of one that is not."""
        wanted = self._next(is_slow)
        if wanted is None:
            return None
        self._waiting.remove(wanted)
        wanted.lexer.is_busy = True
        wanted.start_s = self._now_s = max(self._now_s, wanted.lexer.had_s)
        return wanted

    def end(self, wanted: MaskJob, took_s: float) -> None:
        wanted.lexer.is_busy = False
        wanted.lexer.had_s = wanted.start_s + took_s

    def drop(self, lexer: Lexer) -> list[MaskJob]:
        """Take out all that waits for this lexer."""
        dropped = [wanted for wanted in self._waiting if wanted.lexer is lexer]
        self._waiting = [wanted for wanted in self._waiting if wanted.lexer is not lexer]
        return dropped

    def _next(self, is_slow: bool) -> MaskJob | None:
        found: MaskJob | None = None
        for wanted in self._waiting:
            lexer = wanted.lexer
            if lexer.is_slow != is_slow or lexer.is_busy:
                continue
            if lexer.had_s <= self._now_s:
                return wanted  # its turn has come: of all such the first that came
            if found is None or lexer.had_s < found.lexer.had_s:
                found = wanted
        return found
