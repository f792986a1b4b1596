"""Loading, as `segue serve` shows it."""

import asyncio
from io import StringIO

from rich.console import Console

from segue import config
from segue.engine.process.fleet import Fleet, Member
from segue.engine.seam import Engine
from segue.models.progress_bars import shown
from segue.serving import _load
from tests.support.fakes import ScriptedEngine, speak


def test_a_bar_is_shown_while_a_model_loads_and_no_longer() -> None:
    out = StringIO()
    meanwhile = ""

    async def start() -> Engine:
        nonlocal meanwhile
        meanwhile = out.getvalue()
        return ScriptedEngine(speak("one"))

    fleet = Fleet([Member("tiny", (), start)])
    with shown(Console(file=out, force_terminal=True, width=80)) as report:
        asyncio.run(_load(fleet, config.load({}), "http://127.0.0.1:1", report))
        assert "Loading tiny" in meanwhile
        drawn = out.getvalue()
    assert out.getvalue() == drawn  # nothing was left to take away
