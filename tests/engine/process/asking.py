"""Asking an engine in a process of its own: whole answers, the error that ends a stream, a model that never ends."""

import asyncio
from collections.abc import AsyncIterator

from segue.engine.seam import Engine
from segue.runners.fake import FakeLoader
from segue.types import CompletionRequest, Event, Failed
from tests.engine.harness import RequestEvents
from tests.support.waiting import PATIENCE_S

# What it says goes on for minutes.
ENDLESS = FakeLoader(script=b"x", context_length=1_000_000, num_cells=8_000_000)


async def fold(engine: Engine, request: CompletionRequest) -> RequestEvents:
    story = RequestEvents()
    async for event in engine.submit(request):
        story.push(event)
    return story


async def next_failed(events: AsyncIterator[Event]) -> Failed:
    async for event in events:
        if isinstance(event, Failed):
            return event
    raise AssertionError("the stream ended without an error")


async def until_all_are_over(engine: Engine, num_cancelled: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (stats := await engine.stats()).cancelled < num_cancelled or stats.running:
            await asyncio.sleep(0.001)
    assert (stats.running, stats.waiting, stats.cancelled) == (0, 0, num_cancelled)
