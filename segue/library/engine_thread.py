"""An engine on an event loop in its own thread, for callers without an event loop or with another one."""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec

from segue.assembly.fleet import build_fleet
from segue.config import Settings
from segue.engine.process.fleet import Fleet
from segue.engine.process.new_worker import NewWorker
from segue.engine.seam import Engine, error_of
from segue.errors import EngineFault
from segue.models.progress import silent
from segue.types import CompletionRequest, Event, Failed

T = TypeVar("T")
_CLOSE_S = 30.0


class EngineThread:
    """Load the model, and return when it is ready. Raises the error of a failed load."""

    def __init__(self, settings: Settings, ahead: NewWorker | None = None) -> None:
        """`ahead`: the model's worker, if it was started already."""
        self._loop = asyncio.new_event_loop()
        self._fleet: Fleet | None = None
        self._process = os.getpid()
        self._is_closed = False
        # No work comes after the one that ends the thread. RLock: a handler of signals may close what is being used.
        self._posting = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="segue-engine", daemon=True)
        self._thread.start()
        try:
            self.engine: Engine = self.result(self._open(settings, ahead))
        except BaseException:
            self.close()
            if ahead is not None:
                ahead.close()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _open(self, settings: Settings, ahead: NewWorker | None) -> Engine:
        self._fleet = build_fleet(settings, silent, ahead=ahead)
        return await self._fleet.open(self._fleet.members[0])

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if os.getpid() != self._process:
            work.close()
            raise EngineFault(
                "this LLM is of the process that forked this one, which needs its own"
            )
        with self._posting:
            if not self._is_closed and self._thread.is_alive():
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise EngineFault("this LLM is closed")

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
        """End the model's process, and wait for it. May be called several times, and by any thread: garbage is
        collected by whichever has made much of it, so it may be the engine's own, which cannot wait for itself."""
        if os.getpid() != self._process or not self._thread.is_alive():
            return
        with self._posting:
            if not self._is_closed:
                self._is_closed = True
                asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * _CLOSE_S)

    async def _end(self) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSE_S):
                if self._fleet is not None:
                    await self._fleet.close()
        self._loop.stop()
