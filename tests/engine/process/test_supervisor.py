import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from segue.engine.process.supervisor import Supervisor
from segue.engine.seam import Loaded
from segue.errors import Incompatible, InvalidField, Unavailable
from segue.runners.fake import LISTS, FakeLoader
from segue.types import Delta
from tests.engine.harness import Bench, ask
from tests.engine.process.asking import ENDLESS, fold, next_failed
from tests.support.waiting import PATIENCE_S


@contextlib.asynccontextmanager
async def running(loader: FakeLoader | None = None) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(loader or FakeLoader(), chunk_rows=64)
    await supervisor.start()
    try:
        yield supervisor
    finally:
        await supervisor.close()


def test_the_answer_is_the_schedulers_own() -> None:
    """What crosses the process boundary is what the engine said, for many requests at once."""

    async def main() -> None:
        asked = [ask(f"prompt {i}", n=2, max_tokens=8, logprobs=2) for i in range(8)]
        async with running() as supervisor:
            stories = await asyncio.gather(*(fold(supervisor, r) for r in asked))
            stats = await supervisor.stats()
        for request, story in zip(asked, stories, strict=True):
            assert story.essence == Bench().run(request)[0].essence
        assert (stats.running, stats.waiting, stats.finished) == (0, 0, 8)

    asyncio.run(main())


def test_bad_requests_fail_alone() -> None:
    async def main() -> None:
        async with running(FakeLoader(context_length=50)) as supervisor:
            story = await fold(supervisor, ask("x" * 60))
            assert story.failed is not None
            assert story.failed.code == "context_length_exceeded"
            story = await fold(supervisor, ask([9999]))
            assert story.failed is not None
            assert (story.failed.code, story.failed.param) == ("invalid_value", "prompt")
            assert await supervisor.tokenize("ab", True, True) == [97, 98]
            assert await supervisor.pieces([97, 256]) == [b"a", b"<|endoftext|>"]
            assert await supervisor.lists() == LISTS
            with pytest.raises(InvalidField):
                await supervisor.pieces([264])

    asyncio.run(main())


def test_a_call_counts_as_use() -> None:
    """A model that was unloaded meanwhile answered it with: the server is shutting down."""

    async def main() -> None:
        async with running() as supervisor:
            call = asyncio.create_task(supervisor.tokenize("ab", True, True))
            await asyncio.sleep(0)  # until it has been asked
            assert not supervisor.is_idle
            assert await call == [97, 98]
            assert supervisor.is_idle

    asyncio.run(main())


def test_closing_the_generator_cancels() -> None:
    async def main() -> None:
        async with running(ENDLESS) as supervisor:
            events = supervisor.submit(ask("hello", max_tokens=None))
            async for event in events:
                if isinstance(event, Delta):
                    break
            await events.aclose()
            async with asyncio.timeout(PATIENCE_S):
                while not (stats := await supervisor.stats()).cancelled:
                    await asyncio.sleep(0.001)
            assert (stats.running, stats.cancelled) == (0, 1)

    asyncio.run(main())


def test_a_killed_worker_ends_streams_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running(ENDLESS) as supervisor:
            streams = [supervisor.submit(ask(f"{i}", max_tokens=None)) for i in range(4)]
            for stream in streams:
                await anext(stream)
            assert supervisor.pid is not None
            os.kill(supervisor.pid, signal.SIGKILL)
            for stream in streams:
                assert (await next_failed(stream)).code == "engine_died"
            with pytest.raises(Unavailable):
                await anext(supervisor.submit(ask("too soon")))
            async with asyncio.timeout(PATIENCE_S):
                while not supervisor.is_ready:
                    await asyncio.sleep(0.01)
            story = await fold(supervisor, ask("again", max_tokens=3))
            assert story.done is not None
            assert (await supervisor.stats()).restarts == 1

    asyncio.run(main())
    assert "the worker was ended by SIGKILL" in caplog.messages


@dataclass(frozen=True)
class BrokenLoader:
    def __call__(self) -> Loaded:
        raise Incompatible("this machine will not do")


def test_what_kept_the_model_from_loading_is_raised_and_nothing_else_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`the worker ended with exit code 0` came first, as if it had crashed."""

    async def main() -> None:
        supervisor = Supervisor(BrokenLoader(), chunk_rows=64)
        with pytest.raises(Incompatible, match="this machine will not do"):
            await supervisor.start()
        await supervisor.close()

    asyncio.run(main())
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_it_closes_while_the_socket_of_its_worker_is_being_opened() -> None:
    """The worker was started all the same, and close() waited for it without end."""

    async def main() -> None:
        supervisor = Supervisor(FakeLoader(), chunk_rows=64)
        starting = asyncio.create_task(supervisor.start())
        while supervisor._process is None:
            await asyncio.sleep(0)
        assert supervisor._writer is None
        starting.cancel()
        await asyncio.wait([starting], timeout=PATIENCE_S)
        assert starting.cancelled()
        assert not supervisor._process.is_alive()

    asyncio.run(main())


def test_the_worker_dies_with_its_parent() -> None:
    program = (
        "import asyncio\n"
        "from segue.engine.process.supervisor import Supervisor\n"
        "from segue.runners.fake import FakeLoader\n"
        "async def main():\n"
        "    s = Supervisor(FakeLoader(), 64)\n"
        "    await s.start()\n"
        "    print(s.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "if __name__ == '__main__': asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) > 0
        parent.kill()
        parent.wait()
        # The worker holds the write end of the parent's stdout: its end is the end of the file.
        assert parent.stdout.read() == b""
