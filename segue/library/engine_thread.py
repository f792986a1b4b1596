"""An engine on an event loop in its own thread, for callers without an event loop or with another one."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec

from segue.assembly.fleet import build_fleet
from segue.config import Settings
from segue.engine.process.fleet import Fleet
from segue.engine.seam import Engine, error_of
from segue.errors import EngineFault
from segue.models.progress import silent
from segue.types import CompletionRequest, Event, Failed

T = TypeVar("T")
_CLOSE_S = 30.0


class EngineThread:
    """Load the model, and return when it is ready. Raises the error of a failed load."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.new_event_loop()
        self._fleet: Fleet | None = None
        self._thread = threading.Thread(target=self._run, name="segue-engine", daemon=True)
        self._thread.start()
        try:
            self.engine: Engine = self.run(self._open(settings)).result()
        except BaseException:
            self.close()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    async def _open(self, settings: Settings) -> Engine:
        self._fleet = build_fleet(settings, silent)
        return await self._fleet.open(self._fleet.members[0])

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if not self._thread.is_alive():
            work.close()
            raise EngineFault("this LLM is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for it. If the caller is interrupted, as by Ctrl-C in a notebook that goes on, so is the work."""
        running = self.run(work)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    async def events(self, request: CompletionRequest) -> AsyncGenerator[Event, None]:
        """The events of a request; runs in the thread. Failed is raised as its exception."""
        if self._fleet is not None:
            adapters = self._fleet.settle_adapters(request.model, request.adapters)
            request = msgspec.structs.replace(request, adapters=adapters)
        async with contextlib.aclosing(self.engine.submit(request)) as events:
            async for event in events:
                if isinstance(event, Failed):
                    raise error_of(event)
                yield event

    def close(self) -> None:
        """End the model's process. May be called several times."""
        if not self._thread.is_alive():
            return
        if self._fleet is not None:
            with contextlib.suppress(Exception):
                self.run(self._fleet.close()).result(_CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_S)
