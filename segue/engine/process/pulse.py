"""The time since a thread began its current piece of work, read from another thread to detect a hang."""

from collections.abc import Callable


class Pulse:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None

    def beat(self) -> None:
        """A piece of work begins."""
        self._since = self._clock()

    def rest(self) -> None:
        """The thread waits for work."""
        self._since = None

    @property
    def age_s(self) -> float:
        since = self._since
        return 0.0 if since is None else self._clock() - since
