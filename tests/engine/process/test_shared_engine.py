"""An engine of one process that server processes share, as vLLM's is: here one over the fake runner."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from segue.engine.process import shared_engine
from segue.engine.process.attached_engine import AttachedEngine
from segue.engine.process.shared_engine import SharedEngine
from segue.engine.process.supervisor import Supervisor
from segue.errors import InvalidField, Unavailable, Unsupported
from segue.runners.fake import LISTS, FakeLoader
from segue.types import Delta, SlotAction
from tests.engine.harness import Bench, ask
from tests.engine.process.asking import ENDLESS, fold, next_failed, until_all_are_over
from tests.support.sockets import needs_unix_sockets, place
from tests.support.waiting import PATIENCE_S

pytestmark = needs_unix_sockets


@contextlib.asynccontextmanager
async def running(
    loader: FakeLoader | None = None,
) -> AsyncIterator[tuple[Supervisor, SharedEngine, list[AttachedEngine]]]:
    with place() as path, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        engine = Supervisor(loader or FakeLoader(), chunk_rows=64)
        await engine.start()
        host = SharedEngine(engine, listener)
        await host.start()
        attached = [AttachedEngine(path), AttachedEngine(path)]
        try:
            await asyncio.gather(*(each.start() for each in attached))
            yield engine, host, attached
        finally:
            for each in attached:
                await each.close()
            await host.close()
        assert Path(path).exists()  # for the next engine of the model


def test_every_process_gets_the_engines_own_answers() -> None:
    async def main() -> None:
        asked = [ask(f"prompt {i}", n=2, max_tokens=8, logprobs=2) for i in range(12)]
        async with running() as (engine, host, attached):
            stories = await asyncio.gather(
                *(fold(attached[i % 2], request) for i, request in enumerate(asked))
            )
            assert await attached[1].tokenize("ab", True, True) == [97, 98]
            assert await attached[0].pieces([97, 256]) == [b"a", b"<|endoftext|>"]
            assert await attached[1].lists() == LISTS
            with pytest.raises(InvalidField):
                await attached[0].pieces([264])
            with pytest.raises(Unsupported, match="--slot-save-path"):
                await attached[0].act_on_slot(SlotAction(verb="erase", slot=0))
            refused = await fold(attached[0], ask([9999]))
            assert refused.failed is not None
            assert (refused.failed.code, refused.failed.param) == ("invalid_value", "prompt")
            assert attached[0].info == engine.info == host.info
            async with asyncio.timeout(PATIENCE_S):
                for each in attached:
                    while (await each.stats()).finished < len(asked):
                        await asyncio.sleep(0.001)
        for request, story in zip(asked, stories, strict=True):
            assert story.essence == Bench().run(request)[0].essence

    asyncio.run(main())


def test_a_lost_process_and_a_cancelled_request_end_in_the_engine() -> None:
    async def main() -> None:
        async with running(ENDLESS) as (engine, host, (leaver, stayer)):
            gone = [leaver.submit(ask(f"{i}", max_tokens=None)) for i in range(3)]
            kept = stayer.submit(ask("kept", max_tokens=None))
            for stream in (*gone, kept):
                await anext(stream)
            assert not host.is_idle
            await leaver.close()
            async with asyncio.timeout(PATIENCE_S):
                while (await engine.stats()).cancelled < 3:
                    assert isinstance(await anext(kept), Delta)
            await kept.aclose()
            await until_all_are_over(stayer, 4)
            assert host.is_idle

    asyncio.run(main())


def test_an_engine_that_died_is_told_to_all_and_comes_back_for_all() -> None:
    async def main() -> None:
        async with running(ENDLESS) as (engine, _, attached):
            streams = [
                each.submit(ask(f"{i}", max_tokens=None)) for each in attached for i in range(3)
            ]
            for stream in streams:
                await anext(stream)
            assert engine.pid is not None
            os.kill(engine.pid, signal.SIGKILL)
            for stream in streams:
                assert (await next_failed(stream)).code == "engine_died"
            async with asyncio.timeout(PATIENCE_S):
                for each in attached:  # by then they know
                    while each.is_ready and (await each.stats()).restarts == 0:
                        await asyncio.sleep(0.001)
                    while not each.is_ready:
                        with pytest.raises(Unavailable):
                            await each.stats()
                        await asyncio.sleep(0.001)
                    assert (await fold(each, ask("again", max_tokens=3))).done is not None
                    assert (await each.stats()).restarts == 1

    asyncio.run(main())


def test_one_that_does_not_read_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_engine, "MOST_BEHIND", 100_000)

    async def main() -> None:
        async with running(ENDLESS) as (engine, _, (lazy, other)):
            stream = lazy.submit(ask("x", max_tokens=None, n=32, logprobs=5))
            await anext(stream)
            assert lazy._writer is not None
            lazy._writer.transport.pause_reading()  # type: ignore[attr-defined]
            async with asyncio.timeout(PATIENCE_S):
                while (await engine.stats()).cancelled == 0:
                    await asyncio.sleep(0.001)
            assert (await fold(other, ask("y", max_tokens=3))).done is not None
            lazy._writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert (await next_failed(stream)).code == "engine_died"

    asyncio.run(main())
