import threading
from io import StringIO

import pytest
from rich.console import Console
from rich.live import _RefreshThread

from segue.models.progress_bars import _Newest, shown
from tests.support.waiting import PATIENCE_S


def test_a_log_gets_one_line_for_each_thing() -> None:
    out = StringIO()
    with shown(Console(file=out)) as report:
        for done in (0, 50, 93_000_000):
            report("Fetching x", done, 93_000_000)
        report("Waiting", 0, 0)
    assert out.getvalue() == "Fetching x (93.0 MB)\nWaiting\n"


def test_a_dumb_terminal_gets_lines_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It got nothing while a model was fetched and loaded, and an empty line then."""
    monkeypatch.setenv("TERM", "dumb")
    out = StringIO()
    with shown(Console(file=out, force_terminal=True)) as report:
        report("Loading x", 0, 0)
        report("Loading x", 1, 1)
    assert out.getvalue() == "Loading x\n"


def test_a_terminal_gets_a_bar() -> None:
    out = StringIO()
    with shown(Console(file=out, force_terminal=True, width=80)) as report:
        report("Fetching x", 0, 100)
        report("Fetching x", 50_000_000, 100_000_000)
    assert "50.0/100.0 MB" in out.getvalue()


def test_what_has_no_size_gets_its_seconds() -> None:
    out = StringIO()
    console = Console(file=out, force_terminal=True, width=80, get_time=lambda: 0.0)
    with shown(console) as report:
        report("Loading x", 0, 0)
    assert "Loading x" in out.getvalue()
    assert "0 s" in out.getvalue()
    assert "bytes" not in out.getvalue()


def test_bars_that_are_over_are_gone_and_nothing_is_drawn_then() -> None:
    out = StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    others = set(threading.enumerate())  # that of the test before may not have ended
    with shown(console) as report:
        report("Fetching x", 0, 100)
        report("Loading y", 0, 0)
        report("Fetching x", 100, 100)
        begun = set(threading.enumerate()) - others
        [drawing] = [each for each in begun if isinstance(each, _RefreshThread)]
        report("Loading y", 1, 1)
        report("Loading y", 1, 1)  # told twice
        drawing.join(PATIENCE_S)
        assert not drawing.is_alive()
        report("Loading z", 0, 0)
        report("Loading z", 1, 1)
    assert "Loading z" in out.getvalue()


def test_of_several_things_the_newest_is_shown_on_one_line() -> None:
    """A line of the log takes the place of one: of two bars the other would stay for ever, and the line go."""
    out = StringIO()
    bars = _Newest(console=Console(file=out, force_terminal=True, width=80), auto_refresh=False)
    bars.add_task("Loading x", total=None)
    bars.add_task("Compiling", total=None)
    bars.console.print(bars)
    assert "Compiling" in out.getvalue()
    assert "Loading x" not in out.getvalue()
    assert out.getvalue().count("\n") == 1
