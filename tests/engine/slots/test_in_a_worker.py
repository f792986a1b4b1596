"""Slots of a model that has a process of its own: across processes, across restarts, beside streams that never end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from segue.engine.process.supervisor import Supervisor
from segue.engine.slots.folder import SlotFolder
from segue.errors import InvalidField, Unsupported
from segue.runners.fake import FakeLoader
from segue.types import SlotAction, SlotResult, SlotVerb
from tests.engine.harness import Bench, ask
from tests.engine.process.asking import fold
from tests.engine.slots.acting import PROMPT, labelled
from tests.support.waiting import PATIENCE_S

# Its texts do not end, nor repeat themselves: steps are begun ahead, one after the other.
ENDLESS = FakeLoader(end_bias=-60.0, context_length=1_000_000, num_cells=8_000_000)


@contextlib.asynccontextmanager
async def running(
    folder: Path | None, loader: FakeLoader | None = None
) -> AsyncIterator[Supervisor]:
    where = None if folder is None else SlotFolder(str(folder), most_bytes=None)
    supervisor = Supervisor(loader or FakeLoader(), chunk_rows=64, slot_folder=where)
    await supervisor.start()
    try:
        yield supervisor
    finally:
        await supervisor.close()


def action(verb: SlotVerb, slot: int = 0, filename: str = "a.bin") -> SlotAction:
    return SlotAction(verb=verb, slot=slot, filename=filename)


def test_what_one_process_saved_another_goes_on_with(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as supervisor:
            first = await fold(supervisor, labelled())
            saved = await supervisor.act_on_slot(action("save"))
        longer = PROMPT + first.texts[0] + " and"
        async with running(tmp_path) as supervisor:
            restored = await supervisor.act_on_slot(action("restore", 7))
            assert restored.num_tokens == saved.num_tokens > len(PROMPT)
            again = await fold(supervisor, labelled(longer))
            assert again.prompted[0].num_cached == saved.num_tokens
            with pytest.raises(InvalidField, match="no saved slot of that name"):
                await supervisor.act_on_slot(action("restore", filename="none"))
            with pytest.raises(InvalidField, match="plain name"):
                await supervisor.act_on_slot(action("save", filename="../a"))
            assert supervisor.is_idle
            assert (await supervisor.stats()).restarts == 0
        assert again.essence == Bench().run(labelled(longer))[0].essence

    asyncio.run(main())


def test_without_a_folder_it_says_so() -> None:
    async def main() -> None:
        async with running(None) as supervisor:
            with pytest.raises(Unsupported, match="--slot-save-path"):
                await supervisor.act_on_slot(action("erase"))

    asyncio.run(main())


def test_an_action_gets_its_turn_beside_a_stream_that_never_ends(tmp_path: Path) -> None:
    """It waits for the requests of its slot, and for nobody else's: whether these end or are cancelled."""
    most = 1500

    async def main(is_cancelled: bool) -> SlotResult:
        async with running(tmp_path, ENDLESS) as supervisor:
            forever = supervisor.submit(ask("of others", max_tokens=None))
            mine = supervisor.submit(labelled(max_tokens=most))
            async with contextlib.aclosing(forever), contextlib.aclosing(mine):
                await anext(forever)
                await anext(mine)
                saving = asyncio.create_task(supervisor.act_on_slot(action("save")))
                await asyncio.sleep(0)
                if is_cancelled:
                    await mine.aclose()
                return await saving

    for is_cancelled in (False, True):
        saved = asyncio.run(asyncio.wait_for(main(is_cancelled), PATIENCE_S))
        assert len(PROMPT) <= saved.num_tokens <= len(PROMPT) + most - 1
        assert is_cancelled or saved.num_tokens == len(PROMPT) + most - 1
        assert saved.num_bytes == (tmp_path / "a.bin").stat().st_size
