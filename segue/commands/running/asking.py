"""One completion, from an engine in this process or from a server: both give chunks of the root dialect."""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from threading import Event, Thread

import msgspec
from rich.console import Console

from segue import __version__
from segue.commands.folding import Chunk
from segue.commands.running.engine import running
from segue.commands.running.remote import ask_server
from segue.config import Settings
from segue.dialects.base import Call, Stamp
from segue.dialects.openai import OPENAI
from segue.dialects.rendering.text_completion import TextCompletion
from segue.engine.process.new_worker import NewWorker
from segue.engine.seam import Engine, error_of
from segue.types import Failed, Prompted

OPERATION = OPENAI.operations[0]


def parsed(body: Chunk, fingerprint: str = f"segue-{__version__}") -> Call:
    """The request, with a random seed if it has none. Raises InvalidField."""
    stamp = Stamp(
        request_id="command",
        public_id="command",
        created=int(time.time()),
        seed=secrets.randbits(53),
        fingerprint=fingerprint,
    )
    return OPERATION.parse(body, stamp)


async def ask_engine(engine: Engine, body: Chunk) -> AsyncIterator[Chunk]:
    """The chunks that a server would send, after one that holds the seed and begins the computation."""
    call = parsed({"model": engine.info.name, **body}, engine.info.fingerprint)
    renderer = TextCompletion(call)
    yield {"seed": call.request.sampling.seed, "begins": True}
    request = msgspec.structs.replace(call.request, model="")
    async with aclosing(engine.submit(request)) as events:
        async for event in events:
            if isinstance(event, Failed):
                raise error_of(event)
            if isinstance(event, Prompted) and event.ignored:
                yield {"ignored": ", ".join(event.ignored)}
            for chunk in renderer.push(event):
                yield msgspec.json.decode(msgspec.json.encode(chunk))


def chunks(
    body: Chunk, url: str | None, settings: Settings | None, ahead: NewWorker | None
) -> AsyncGenerator[Chunk, None]:
    """Of the model of these settings; without any, of the server at this address."""
    if settings is None:
        return from_server(body, url or "")
    return from_model(body, settings, ahead)


async def from_model(
    body: Chunk, settings: Settings, ahead: NewWorker | None
) -> AsyncGenerator[Chunk, None]:
    """The chunks of the model of these settings, which runs for as long as they come."""
    async with running(settings, Console(stderr=True), ahead) as engine:
        async for chunk in ask_engine(engine, body):
            yield chunk


async def from_server(body: Chunk, url: str) -> AsyncGenerator[Chunk, None]:
    """The chunks of a server, whose key is in the environment. A thread waits for them: Ctrl-C ends a task of the event
    loop, which must be there to end it."""
    loop, arrived = asyncio.get_running_loop(), asyncio.Queue[Chunk | Exception | None]()
    is_left = Event()

    def put(what: Chunk | Exception | None) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(arrived.put_nowait, what)

    def read() -> None:
        try:
            for chunk in ask_server(url, body, os.environ.get("SEGUE_API_KEY", "")):
                put(chunk)
                if is_left.is_set():
                    return
            put(None)
        except Exception as error:
            put(error)

    Thread(target=read, name="segue-answer", daemon=True).start()
    try:
        while (found := await arrived.get()) is not None:
            if isinstance(found, Exception):
                raise found
            yield found
    finally:
        is_left.set()
