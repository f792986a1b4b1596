"""The progress of downloads and loading as bars on the command line."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock

from rich.console import Console, RenderableType
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.progress import TransferSpeedColumn as SpeedColumn
from rich.text import Text

from segue.models.progress import Report


def has_bars(console: Console) -> bool:
    """A dumb terminal, such as an editor's, is drawn none: what would be a bar was an empty line."""
    return console.is_terminal and not console.is_dumb_terminal


@contextmanager
def shown(console: Console) -> Iterator[Report]:
    """A bar for what began last, while it lasts; where there are none, one line for each thing."""
    if not has_bars(console):
        yield as_lines(lambda line: console.print(line, highlight=False))
        return
    bars = _Bars(console)
    try:
        yield bars.report
    finally:
        bars.stop()


class _Bars:
    """Nothing is drawn while no bar is open: a server runs for days."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), _Amount())
        self._progress = _Newest(*columns, console=console, transient=True)
        self._open: dict[str, TaskID] = {}
        self._lock = Lock()  # models are fetched and loaded by several threads

    def report(self, what: str, done: int, total: int) -> None:
        with self._lock:
            if total and done >= total:
                self._close(what)
                return
            if not self._open:
                self._progress.start()
            if what not in self._open:
                self._open[what] = self._progress.add_task(what, total=total or None)
            self._progress.update(self._open[what], completed=done, total=total or None)

    def _close(self, what: str) -> None:
        if what in self._open:
            self._progress.remove_task(self._open.pop(what))
            if not self._open:
                self._progress.stop()

    def stop(self) -> None:
        self._progress.stop()


class _Newest(Progress):
    """One bar, however many are open: a line of the log, of any process, takes the place of one line (logs.py)."""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks[-1:])


class _Amount(ProgressColumn):
    """Bytes and speed of a download; the seconds of what has no size."""

    def __init__(self) -> None:
        super().__init__()
        self._columns = (DownloadColumn(), SpeedColumn())

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text(f"{task.elapsed or 0:.0f} s")
        return Text(" ").join(column.render(task) for column in self._columns)


def as_lines(write: Callable[[str], object]) -> Report:
    """A Report that writes one line for each thing, as it begins."""
    seen = set()

    def report(what: str, done: int, total: int) -> None:
        if what not in seen:
            seen.add(what)
            write(f"{what} ({decimal(total)})" if total else what)

    return report
