"""An engine that runs for the duration of one command."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console

from segue.assembly.fleet import build_fleet
from segue.config import Settings
from segue.engine.process.new_worker import NewWorker
from segue.engine.seam import Engine
from segue.models.progress_bars import shown


@asynccontextmanager
async def running(
    settings: Settings, console: Console, ahead: NewWorker | None
) -> AsyncIterator[Engine]:
    """The first model of the settings, loaded. A download is shown on the console. `ahead`: its worker, if that was
    started already."""
    with shown(console) as report:
        fleet = build_fleet(settings, report, ahead=ahead)
        try:
            engine = await fleet.open(fleet.members[0])
        except BaseException:
            await fleet.close()
            raise
    try:
        yield engine
    finally:
        await fleet.close()
