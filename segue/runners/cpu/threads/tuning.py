"""How many threads a step takes: measured when a model is loaded.

It is tuned further while steps run, since other processes may use the processors at some times. Answers do not depend
on it: bits do not depend on threads.
"""

from collections.abc import Callable
from dataclasses import dataclass

ROWS = (1, 2, 4, 8, 32, 128)  # numbers of rows to measure; the last is used for all larger numbers
# While steps run, fewer threads must be 3 % faster, and more threads 1 %: less is noise.
_FEWER, _MORE = 0.97, 0.99
_NEAR = 1.1  # up to 10 % slower: go on and try still fewer threads
# Steps that would take longer are not measured, since that would delay the start: large models use all threads.
_LONGEST_S = 0.08

Measure = Callable[[int, int], float]  # (rows, threads) → seconds per step


@dataclass(frozen=True)
class Tuning:
    threads: tuple[tuple[int, int], ...]  # (up to so many rows, threads)

    def threads_for(self, rows: int, most: int) -> int:
        """The number of threads for a step; `most` for more rows than were measured."""
        for limit, threads in self.threads:
            if rows <= limit or limit == ROWS[-1]:
                return threads
        return most


def tuned(measure: Measure, team: int, most_rows: int) -> Tuning:
    """Measure a team of `team` threads. Small models get slower with too many threads.

    If fewer threads are as fast, fewer are used: other processes may need the processors.
    One thread leaves nothing to choose, so nothing is measured; nor are more rows than those at which all threads are
    clearly the fastest: the more rows, the more work there is for each of them.
    """
    most_rows = 0 if team == 1 else most_rows
    threads: list[tuple[int, int]] = []
    seconds: dict[int, float] = {}
    for rows in ROWS:
        last = max(seconds, default=0)
        if rows > most_rows or (last and seconds[last] * rows / last > _LONGEST_S):
            break
        best, seconds[rows] = team, measure(rows, team)
        for candidate in _fewer(team):
            took = measure(rows, candidate)
            if took <= seconds[rows]:
                best, seconds[rows] = candidate, took
            elif took > _NEAR * seconds[rows]:
                if best == team:
                    return Tuning((*threads, (rows, team)))
                break
        threads.append((rows, best))
    return Tuning(tuple(threads))


def _fewer(team: int) -> list[int]:
    """Smaller numbers of threads to try: one less than all, a half, a fourth and so on."""
    halves = [team >> shift for shift in range(1, team.bit_length())]
    return [team - 1, *halves] if team > 3 else halves


_TRIAL = 8  # steps
# A trial ends after so few steps if they were so much slower: half of the threads would take twice as long.
_SHORT_TRIAL, _HOPELESS = 3, 1.15
_SOON, _LATE = 16, 256  # steps between trials: the longer the choice has held, the rarer they are
# What is tried in turn. One thread less leaves a processor to the server and its clients: a thread that loses its
# processor to them in the middle of a piece holds all the others at the end of the phase.
_OTHERS: tuple[Callable[[int], int], ...] = (
    lambda threads: threads - 1,
    lambda threads: threads // 2,
    lambda threads: threads + 1,
    lambda threads: threads * 2,
)


class Threads:
    """The number of threads for a step: first as tuned, then adjusted by the times of the steps themselves."""

    def __init__(self, tuning: Tuning, team: int):
        self._classes = [(rows, _Class(tuning.threads_for(rows, team), team)) for rows in ROWS]

    def choose(self, rows: int) -> int:
        return self._of(rows).next()

    def learn(self, rows: int, seconds: float, threads: int) -> None:
        """Report how long a step of `rows` rows took with the number of threads chosen for it.

        Of several steps that are open, some may still have a number that is not used any more: they do not count.
        """
        choice = self._of(rows)
        if threads == choice.next():
            choice.learn(seconds / rows)

    def _of(self, rows: int) -> "_Class":
        return next(
            (choice for limit, choice in self._classes if rows <= limit), self._classes[-1][1]
        )


class _Class:
    """Steps with a similar number of rows. From time to time some of them try another number of threads."""

    def __init__(self, threads: int, team: int):
        self._current, self._team = threads, team
        self._tried = 0  # number of threads on trial; 0: no trial
        # What was used before the last change, if it is to be tried next: the steps that it was judged by may have been
        # disturbed, as those after the start of many requests are.
        self._before = 0
        self._turn = 0
        self._pause = _SOON
        self._times: list[float] = []
        self._usual = 0.0  # seconds per step before the trial

    def next(self) -> int:
        return self._tried or self._current

    def learn(self, seconds: float) -> None:
        self._times.append(seconds)
        count = len(self._times)
        if not self._tried:
            if count >= self._pause:
                self._begin_trial()
        elif count >= _TRIAL or (
            count >= _SHORT_TRIAL and _typical(self._times) > _HOPELESS * self._usual
        ):
            self._judge()

    def _begin_trial(self) -> None:
        self._usual = _typical(self._times[-_TRIAL:])
        self._times = []
        self._tried, self._before = self._before, 0
        for _ in _OTHERS:
            if self._tried:
                return
            other = min(_OTHERS[self._turn % len(_OTHERS)](self._current), self._team)
            self._turn += 1
            if 1 <= other != self._current:
                self._tried = other

    def _judge(self) -> None:
        worth = _MORE if self._tried > self._current else _FEWER
        if _typical(self._times) < worth * self._usual:
            self._before, self._current, self._pause = self._current, self._tried, _SOON
        else:
            self._pause = min(2 * self._pause, _LATE)
        self._tried, self._times = 0, []


def _typical(times: list[float]) -> float:
    """The mean without the slowest. Not the fastest: steps held up by other processes count."""
    return (sum(times) - max(times)) / (len(times) - 1)
