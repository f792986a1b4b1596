from io import StringIO

from rich.console import Console

from segue.models.progress import shown


def test_a_log_gets_one_line_for_each_thing() -> None:
    out = StringIO()
    with shown(Console(file=out)) as report:
        for done in (0, 50, 93_000_000):
            report("Fetching x", done, 93_000_000)
        report("Waiting", 0, 0)
    assert out.getvalue() == "Fetching x (93.0 MB)\nWaiting\n"


def test_a_terminal_gets_a_bar() -> None:
    out = StringIO()
    with shown(Console(file=out, force_terminal=True, width=80)) as report:
        report("Fetching x", 0, 100)
        report("Fetching x", 50_000_000, 100_000_000)
    assert "50.0/100.0 MB" in out.getvalue()
