"""Loading, as `segue serve` shows it."""

import asyncio
from io import StringIO

from rich.console import Console

from segue import config
from segue.assembly.server import _load
from segue.engine.process.fleet import Fleet, Member
from segue.engine.seam import Engine
from segue.models.progress import silent
from segue.models.progress_bars import shown
from segue.types import ModelInfo
from tests.support.fakes import INFO, ScriptedEngine, speak
from tests.support.waiting import PATIENCE_S


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


def test_models_are_known_while_the_first_one_loads() -> None:
    async def main() -> None:
        known: list[ModelInfo | None] = []

        async def start() -> Engine:
            async with asyncio.timeout(PATIENCE_S):
                while None in (found := [fleet.known(name) for name in fleet.names]):
                    await asyncio.sleep(0)
            known.extend(found)
            return ScriptedEngine(speak("one"))

        fleet = Fleet([Member(name, (), start, look=lambda: INFO) for name in ("one", "two")])
        await _load(fleet, config.load({}), "http://127.0.0.1:1", silent)
        assert known == [INFO, INFO]

    asyncio.run(main())
