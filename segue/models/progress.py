"""Progress of a download: what the sources report, and the bar on the command line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn
from rich.progress import TransferSpeedColumn as SpeedColumn

Report = Callable[
    [str, int, int], None
]  # what is being done, bytes so far, bytes in all (0: unknown)


def silent(what: str, done: int, total: int) -> None:
    """A Report that shows nothing."""


@contextmanager
def shown(console: Console) -> Iterator[Report]:
    """One bar per download; without a terminal, one line per download."""
    if not console.is_terminal:
        yield _lines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), SpeedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total or None)
            # A complete bar is removed: a server runs for days.
            is_whole = bool(total) and done >= total
            bars.update(tasks[what], completed=done, total=total or None, visible=not is_whole)

        yield report


def _lines(console: Console) -> Report:
    seen = set()

    def report(what: str, done: int, total: int) -> None:
        if what not in seen:
            seen.add(what)
            console.print(f"{what} ({decimal(total)})" if total else what, highlight=False)

    return report
