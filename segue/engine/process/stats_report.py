"""Which steps tell the figures of the engine: those that change who runs or waits, and one every so often."""

from collections.abc import Callable

from segue.types import Stats

_INTERVAL_S = 0.25


class StatsReport:
    """On the worker's side. Nobody asks for figures, so a long step keeps nobody waiting for them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told_at = float("-inf")
        self._told: tuple[int, ...] = ()

    def due(self, stats: Stats) -> Stats | None:
        """The same if they should be told now."""
        counts = (stats.running, stats.waiting, stats.finished, stats.cancelled, stats.failed)
        now = self._clock()
        if counts == self._told and now - self._told_at < _INTERVAL_S:
            return None
        self._told, self._told_at = counts, now
        return stats


class LastStats:
    """On the parent's side: what was told last, and how old it is."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._stats = Stats()
        self._at = clock()

    def take(self, stats: Stats | None) -> None:
        if stats is not None:
            self._stats = stats
            self.confirm()

    def confirm(self) -> None:
        """They are still true: the worker has nothing to do."""
        self._at = self._clock()

    @property
    def stats(self) -> Stats:
        return self._stats

    @property
    def age_s(self) -> float:
        return self._clock() - self._at
