"""What vLLM's engine is asked besides requests. vLLM leaves such a call open for ever if the engine dies of it."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from segue.distributed.request.follow import Llm
from segue.errors import EngineDied

T = TypeVar("T")

_LOOK_S = 0.5


async def answered(llm: Llm, call: Awaitable[T]) -> T:
    """The answer to this call of `llm`. Raises EngineDied if the engine dies first, and what the call raises."""
    asked = asyncio.ensure_future(call)
    try:
        while not asked.done():
            await asyncio.wait([asked], timeout=_LOOK_S)
            if not asked.done() and llm.errored:
                raise EngineDied("vLLM's engine ended unexpectedly")
        return asked.result()
    finally:
        asked.cancel()
