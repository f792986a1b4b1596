"""How many threads a step takes, and how many rows cost little more than one: measured when a model is loaded.

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
