"""Progress of downloads and loading: what the sources report. The bars of it are in progress_bars.py."""

from collections.abc import Callable

# What is being done, bytes so far, bytes in all (0: unknown). It is over when both are the same.
Report = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """A Report that shows nothing."""
