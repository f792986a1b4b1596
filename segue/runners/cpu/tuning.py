"""How many threads a step takes, and how many rows cost little more than one: measured when a model is loaded.

The number of threads is tried again while steps run, since the processors may be busy with something else at one time
and free at another.

Nothing of it shows in the answers: bits do not depend on threads, and a draft is kept only if the sampler draws it.
"""

from collections.abc import Callable
from dataclasses import dataclass

ROWS = (1, 2, 4, 8)
_WORTH = 0.97  # fewer threads must be so much faster: others may want to use the processor, but noise is noise
_FREE = 1.35  # times a step of one row: what a draft's rows may cost

Measure = Callable[[int, int], float]  # (rows, threads) → seconds a step


@dataclass(frozen=True)
class Tuning:
    threads: tuple[tuple[int, int], ...]  # (up to so many rows, threads); beyond: all
    free_rows: int

    def threads_for(self, rows: int, most: int) -> int:
        for limit, threads in self.threads:
            if rows <= limit:
                return threads
        return most


def tuned(measure: Measure, team: int, most_rows: int) -> Tuning:
    """For a team of so many threads. Small models are slower with more threads than they can feed."""
    threads: list[tuple[int, int]] = []
    seconds: dict[int, float] = {}
    is_full = False  # from here on all threads are the best choice
    for rows in ROWS:
        if rows > most_rows:
            break
        best, seconds[rows] = team, measure(rows, team)
        candidate = team // 2
        while not is_full and candidate:
            took = measure(rows, candidate)
            if took > _WORTH * seconds[rows]:
                break
            best, seconds[rows] = candidate, took
            candidate //= 2
        is_full = is_full or best == team
        if not is_full:
            threads.append((rows, best))
    free = [rows for rows, took in seconds.items() if took <= _FREE * seconds[1]]
    return Tuning(tuple(threads), max(free, default=1))


_BETWEEN_TRIALS = 64  # steps
_TRIAL = 3


class Threads:
    """The number of threads for steps of a few rows: as tuned, and then as the steps themselves tell."""

    def __init__(self, tuning: Tuning, team: int):
        self._team = team
        self._classes = {
            rows: _Class(tuning.threads_for(rows, team), team) for rows in ROWS if team > 1
        }

    def choose(self, rows: int) -> int:
        for limit, choice in self._classes.items():
            if rows <= limit:
                return choice.next()
        return self._team

    def learn(self, rows: int, seconds: float) -> None:
        """What a step took with the threads that were chosen for it."""
        for limit, choice in self._classes.items():
            if rows <= limit:
                choice.learn(seconds / rows)
                return


class _Class:
    """Steps of about as many rows: now and then a few of them take half or twice the threads."""

    def __init__(self, threads: int, team: int):
        self._current, self._team = threads, team
        self._tried = 0  # 0: no trial
        self._is_up = False
        self._times: list[float] = []
        self._usual = 0.0  # before the trial

    def next(self) -> int:
        return self._tried or self._current

    def learn(self, seconds: float) -> None:
        self._times.append(seconds)
        if not self._tried and len(self._times) >= _BETWEEN_TRIALS:
            self._is_up = not self._is_up
            other = self._current * 2 if self._is_up else self._current // 2
            self._usual = min(self._times[-_TRIAL:])
            self._times = []
            if 1 <= min(other, self._team) != self._current:
                self._tried = min(other, self._team)
        elif self._tried and len(self._times) >= _TRIAL:
            if min(self._times) < _WORTH * self._usual:
                self._current = self._tried
            self._tried, self._times = 0, []
