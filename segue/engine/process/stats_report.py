"""Which steps report statistics: those that change what runs or waits, and otherwise one per interval."""

from collections.abc import Callable

from segue.types import Stats

_INTERVAL_S = 0.25


class StatsReport:
    """The worker's side. Statistics are pushed, not requested, so a long step delays no reader of them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told_at = float("-inf")
        self._told: tuple[int, ...] = ()

    def is_due(self, changing: tuple[int, ...]) -> bool:
        """Whether statistics should be reported now: they must be whenever one of `changing` is another number."""
        now = self._clock()
        if changing == self._told and now - self._told_at < _INTERVAL_S:
            return False
        self._told, self._told_at = changing, now
        return True


class LastStats:
    """The parent's side: the last statistics reported, and their age."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._stats = Stats()
        self._at = clock()

    def take(self, stats: Stats | None) -> None:
        if stats is not None:
            self._stats = stats
            self.confirm()

    def confirm(self) -> None:
        """The worker is idle, so the last statistics still hold: their age is 0 again."""
        self._at = self._clock()

    @property
    def stats(self) -> Stats:
        return self._stats

    @property
    def age_s(self) -> float:
        return self._clock() - self._at
