"""The engine over a stand-in for vLLM, and what it tells of a request."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from segue.distributed.launch import Launched
from segue.distributed.vllm import VllmEngine
from segue.types import CompletionRequest, Sampling
from tests.distributed.stand_in import StandIn
from tests.engine.harness import RequestEvents
from tests.support.waiting import PATIENCE_S

GREEDY = Sampling(seed=7, temperature=0.0)


@asynccontextmanager
async def started(llm: StandIn) -> AsyncIterator[VllmEngine]:
    async def launch() -> Launched:
        return llm.launched()

    engine = VllmEngine(launch)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()
    assert llm.open == set()


async def told(engine: VllmEngine, request: CompletionRequest) -> RequestEvents:
    story = RequestEvents()
    async for event in engine.submit(request):
        story.push(event)
    return story


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, PATIENCE_S))


def rounded(value: Any) -> Any:
    """Scores of both are floats; the stand-in adds up in double precision."""
    if isinstance(value, float):
        return pytest.approx(value, abs=1e-4)
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [rounded(each) for each in value]
    if hasattr(value, "__struct_fields__"):
        return [rounded(getattr(value, name)) for name in value.__struct_fields__]
    return value
