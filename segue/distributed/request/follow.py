"""Runs one request in vLLM without a task switch per token.

vLLM's own `generate` wakes a coroutine for every output of every request. Its output handler reads a whole step at once
and puts each output into a collector. `take` replaces that collector's queue, so all outputs of a step are handled in
one pass.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol

from segue.distributed.request.events import Output


class Collector(Protocol):
    """The part of vLLM's RequestOutputCollector that is used here."""

    request_id: str
    put: Callable[[Any], None]

    def get_nowait(self) -> Any: ...

    def close(self) -> None: ...


class Llm(Protocol):
    """The part of vLLM's AsyncLLM that is used here."""

    @property
    def errored(self) -> bool: ...

    async def add_request(
        self,
        request_id: str,
        prompt: Any,
        params: Any,
        *,
        lora_request: Any = None,
        priority: int = 0,
    ) -> Any: ...

    async def add_lora(self, lora_request: Any) -> Any: ...

    async def get_supported_tasks(self) -> Any: ...

    async def is_paused(self) -> bool: ...

    async def abort(self, request_id: str, internal: bool = False) -> None: ...

    def shutdown(self, timeout: float | None = None) -> None: ...


class Refused(Exception):
    """vLLM did not take a request, for an error of Python's own: some of its checks raise no other.

    The same errors are faults where they come later, from vLLM's outputs or what is made of them.
    """


class Ask:
    """A request to vLLM."""

    def __init__(
        self,
        request_id: str,
        prompt: Any,
        parameters: Any,
        *,
        adapter: Any = None,
        priority: int = 0,
    ) -> None:
        self.request_id = request_id
        self.prompt = prompt
        self.parameters = parameters
        self.adapter = adapter  # vLLM's LoRARequest
        self.priority = priority


async def follow(llm: Llm, ask: Ask, take: Callable[[Output], bool]) -> None:
    """Give each output to `take` until it returns True or vLLM has finished. Raises what either raises.

    Guaranteed: afterwards, also after a cancellation, vLLM does no more work for this request.
    """
    collector = await _added(llm, ask)
    is_done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def put(output: Any) -> None:
        if is_done.done():
            return
        try:
            if isinstance(output, Exception):
                raise output
            if take(output) or output.finished:
                is_done.set_result(output.finished)
        except Exception as error:
            is_done.set_exception(error)

    has_ended = False
    try:
        collector.put = put
        while (
            early := collector.get_nowait()
        ) is not None:  # outputs from before `take` was installed
            put(early)
        has_ended = await is_done
    finally:
        if not has_ended and not llm.errored:
            await llm.abort(collector.request_id, internal=True)
        collector.close()


async def _added(llm: Llm, ask: Ask) -> Collector:
    """Add the request to vLLM. If cancelled meanwhile, the request is aborted once it is added. Raises Refused."""
    adding = asyncio.ensure_future(
        llm.add_request(
            ask.request_id,
            ask.prompt,
            ask.parameters,
            lora_request=ask.adapter,
            priority=ask.priority,
        )
    )
    try:
        collector: Collector = await asyncio.shield(adding)
    except asyncio.CancelledError:
        with contextlib.suppress(Exception):
            await llm.abort((await adding).request_id, internal=True)
        raise
    except (ValueError, OverflowError) as error:
        raise Refused(str(error)) from error
    return collector
