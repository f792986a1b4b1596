"""Steps that run without the caller: up to two are open, one running and the next one ready to follow it."""

import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from segue.engine.seam import Draw, Span, Step
from segue.runners.cpu.frame import Frame
from segue.runners.cpu.threads.team import MOST_OPEN, Team
from segue.runners.cpu.threads.tuning import Threads


class _Open(NamedTuple):
    frame: Frame
    threads: int
    begun_s: float


class StepsAhead:
    """The steps take turns with the frames. None of a frame's memory is written to while its step is open."""

    def __init__(self, team: Team, frames: Sequence[Frame], threads: Threads):
        self._team, self._frames, self._threads = team, frames, threads
        self._open: deque[_Open] = deque()
        self._turn = 0  # frame of the next step
        self._ended_s = 0.0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def num_drawn(self) -> int:
        """How many tokens the next step can take from the one before."""
        return len(self._frames[1 - self._turn].draws) if self._open else 0

    def check(self) -> None:
        """Raise if no further step can be begun."""
        if self._team.num_open == MOST_OPEN:
            raise RuntimeError("two steps are open: one of them must end first")
        if self._team.num_open != len(self._open):
            raise RuntimeError("a step of another model is open: it must end first")

    def begin(self, spans: Sequence[Span], draws: Sequence[Draw]) -> None:
        """Begin a step with spans that were checked. Raises before anything is changed if a draw is out of bounds."""
        frame = self._frames[self._turn]
        self._team.await_left(frame.board)
        before = self._frames[1 - self._turn].draws if self._open else None
        frame.draws.write(draws, sum(span.num_logits for span in spans), before)
        frame.fill(spans)
        frame.set_program(0, frame.num_phases + (len(draws) > 0))
        threads = self._threads.choose(max(1, frame.num_rows))
        self._team.begin(frame.board, threads)
        self._open.append(_Open(frame, threads, time.perf_counter()))
        self._turn = 1 - self._turn

    def end(self) -> Step:
        """Wait for the step that was begun first."""
        self._team.end()
        frame, threads, begun_s = self._open.popleft()
        now = time.perf_counter()
        if frame.num_rows:
            self._threads.learn(frame.num_rows, now - max(begun_s, self._ended_s), threads)
        self._ended_s = now
        draws = frame.draws
        return Step(frame.logits[: frame.num_wanted], draws.read(), draws.read_feedback())

    def close(self) -> None:
        """End the steps that are open, and wait until no thread looks at a frame any more."""
        while self._open:
            self.end()
        for frame in self._frames:
            self._team.await_left(frame.board)
