"""Server processes beside the one that supervises the worker: here, several in one program."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator

import pytest

from segue.engine.process.attached_engine import AttachedEngine
from segue.engine.process.supervisor import Supervisor
from segue.errors import Unavailable
from segue.runners.fake import FakeLoader
from segue.types import Delta
from tests.engine.harness import Bench, ask
from tests.engine.process.asking import ENDLESS, fold, next_failed, until_all_are_over
from tests.support.sockets import needs_unix_sockets, place
from tests.support.waiting import PATIENCE_S

pytestmark = needs_unix_sockets


@contextlib.asynccontextmanager
async def running(
    num_attached: int, loader: FakeLoader | None = None
) -> AsyncIterator[tuple[Supervisor, list[AttachedEngine]]]:
    with place() as path, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        supervisor = Supervisor(loader or FakeLoader(), chunk_rows=64, listener=listener)
        await supervisor.start()
        attached = [AttachedEngine(path) for _ in range(num_attached)]
        try:
            await asyncio.gather(*(each.start() for each in attached))
            yield supervisor, attached
        finally:
            for each in attached:
                await each.close()
            await supervisor.close()


def test_every_process_gets_the_schedulers_own_answers() -> None:
    async def main() -> None:
        asked = [ask(f"prompt {i}", n=2, max_tokens=8, logprobs=2) for i in range(12)]
        async with running(3) as (supervisor, attached):
            stories = await asyncio.gather(
                *(fold(attached[i % 3], request) for i, request in enumerate(asked))
            )
            tokens = await asyncio.gather(
                *(each.tokenize(f"{i}", True, True) for i, each in enumerate(attached))
            )
            async with asyncio.timeout(PATIENCE_S):
                for engine in (supervisor, *attached):  # all are told the same
                    while (await engine.stats()).finished < len(asked):
                        await asyncio.sleep(0.001)
            assert attached[0].info == supervisor.info
        assert tokens == [[48], [49], [50]]
        for request, story in zip(asked, stories, strict=True):
            assert story.essence == Bench().run(request)[0].essence

    asyncio.run(main())


def test_a_process_that_leaves_takes_its_requests_with_it_and_no_others() -> None:
    async def main() -> None:
        async with running(2, ENDLESS) as (supervisor, (leaver, stayer)):
            gone = [leaver.submit(ask(f"{i}", max_tokens=None)) for i in range(3)]
            kept = stayer.submit(ask("kept", max_tokens=None))
            for stream in (*gone, kept):
                await anext(stream)
            await leaver.close()
            for stream in gone:
                assert (await next_failed(stream)).code == "unavailable"
            async with asyncio.timeout(PATIENCE_S):
                while (await supervisor.stats()).cancelled < 3:
                    assert isinstance(await anext(kept), Delta)
            assert isinstance(await anext(kept), Delta)
            await kept.aclose()
            await until_all_are_over(stayer, 4)

    asyncio.run(main())


def test_a_killed_worker_is_told_to_every_process_and_comes_back_for_all() -> None:
    async def main() -> None:
        async with running(2, ENDLESS) as (supervisor, attached):
            streams = [
                each.submit(ask(f"{i}", max_tokens=None)) for each in attached for i in range(4)
            ]
            for stream in streams:
                await anext(stream)
            assert supervisor.pid is not None
            os.kill(supervisor.pid, signal.SIGKILL)
            for stream in streams:
                assert (await next_failed(stream)).code == "engine_died"
            for each in attached:
                with pytest.raises(Unavailable):
                    await anext(each.submit(ask("too soon")))
            async with asyncio.timeout(PATIENCE_S):
                while not all(each.is_ready for each in attached):
                    await asyncio.sleep(0.01)
            for each in attached:
                assert (await fold(each, ask("again", max_tokens=3))).done is not None
                assert (await each.stats()).restarts == 1

    asyncio.run(main())


def test_closing_waits_for_open_requests() -> None:
    async def main() -> None:
        async with running(1) as (_, (engine,)):
            reading = asyncio.create_task(fold(engine, ask("x", max_tokens=200)))
            while engine.is_idle:
                await asyncio.sleep(0)
            await engine.close(drain_s=30)
            assert (await reading).done is not None
            with pytest.raises(Unavailable, match="shutting down"):
                await anext(engine.submit(ask("late")))

    asyncio.run(main())


def test_closing_waits_for_open_calls() -> None:
    async def main() -> None:
        async with running(1) as (_, (engine,)):
            tokenizing = asyncio.create_task(engine.tokenize("0", True, True))
            while engine.is_idle:
                await asyncio.sleep(0)
            await engine.close(drain_s=30)
            assert await tokenizing == [48]

    asyncio.run(main())
