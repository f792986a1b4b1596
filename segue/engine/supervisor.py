"""The parent's side of a worker process: an Engine that starts it, watches it and starts it again.

When the worker dies, every open request ends with EngineDied at once, and new ones are refused with Unavailable
until the next worker is ready. Requests are never replayed: nobody knows how far they got.
"""

import asyncio
import contextlib
import itertools
import logging
import multiprocessing
import socket
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from multiprocessing.process import BaseProcess

from segue.engine import worker
from segue.engine.messages import (
    HEADER_BYTES,
    Answer,
    Cancel,
    GetPieces,
    GetStats,
    LoadFailed,
    Order,
    Ready,
    Report,
    Submit,
    Tokenize,
    Told,
    frame,
    reports,
)
from segue.engine.seam import Loader
from segue.errors import BY_CODE, EngineDied, EngineFault, ModelUnavailable, Unavailable
from segue.types import CompletionRequest, Done, Event, Failed, ModelInfo, Stats

log = logging.getLogger("segue.supervisor")

_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 30.0
_STEADY_S = 60.0  # a worker that lived this long is not part of a crash loop


class _Mailbox:
    """Events of one request that nobody has read yet."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._wakeup: asyncio.Future[None] | None = None

    def put(self, event: Event) -> None:
        self._events.append(event)
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def take(self) -> list[Event]:
        if not self._events:
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup
        events, self._events = self._events, []
        return events


class Supervisor:
    def __init__(self, loader: Loader, chunk_rows: int) -> None:
        self._loader = loader
        self._chunk_rows = chunk_rows
        self._process: BaseProcess | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._info: ModelInfo | None = None
        self._is_ready = False
        self._is_closing = False
        self._open: dict[str, _Mailbox] = {}
        self._calls: dict[int, asyncio.Future[Answer]] = {}
        self._call_ids = itertools.count()
        self._num_restarts = 0
        self._retry_at = 0.0

    async def start(self) -> None:
        """Start the worker and wait until its model is loaded. Raises what kept it from loading."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._live(ready))
        await ready

    @property
    def info(self) -> ModelInfo:
        if self._info is None:
            raise Unavailable("the model is still loading", retry_after_s=1.0)
        return self._info

    @property
    def is_ready(self) -> bool:
        return self._is_ready

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    # --- Engine -----------------------------------------------------------------------------------

    async def submit(self, request: CompletionRequest) -> AsyncGenerator[Event, None]:
        self._check_ready()
        mailbox = self._open[request.request_id] = _Mailbox()
        self._send(Submit(request))
        is_over = False
        try:
            while not is_over:
                for event in await mailbox.take():
                    is_over = isinstance(event, Done | Failed)
                    if is_over:
                        self._open.pop(request.request_id, None)
                    yield event
        finally:
            if self._open.get(request.request_id) is mailbox:
                del self._open[request.request_id]
                if self._is_ready:
                    self._send(Cancel(request.request_id))

    async def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        answer = await self._call(
            lambda call: Tokenize(call, text, add_special, parse_special),
        )
        return answer.tokens or []

    async def pieces(self, tokens: Sequence[int]) -> list[bytes]:
        answer = await self._call(lambda call: GetPieces(call, list(tokens)))
        return answer.pieces or []

    async def stats(self) -> Stats:
        answer = await self._call(GetStats)
        if answer.stats is None:
            raise EngineFault("the worker answered without figures")
        return _with_restarts(answer.stats, self._num_restarts)

    async def close(self, drain_s: float = 0.0) -> None:
        deadline = time.monotonic() + drain_s
        while self._open and self._is_ready and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        self._is_closing = True
        self._end_all(Failed(Unavailable.code, "the server is shutting down"))
        if self._writer is not None:
            self._writer.close()
        if self._process is not None:
            await asyncio.to_thread(_reap, self._process)
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    # --- one worker after another -----------------------------------------------------------------

    async def _live(self, ready: asyncio.Future[None]) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._is_closing:
            begun = time.monotonic()
            try:
                await self._one_life(ready)
            except Exception as error:
                if not ready.done():  # the first start failed: that is the caller's to tell
                    ready.set_exception(error)
                    return
                log.error("the worker could not be started: %s", error)
            if self._is_closing:
                return
            steady = time.monotonic() - begun > _STEADY_S
            pause_s = _FIRST_PAUSE_S if steady else min(pause_s * 2, _LONGEST_PAUSE_S)
            self._num_restarts += 1
            self._retry_at = time.monotonic() + pause_s
            log.error("the worker ended; starting it again in %.1f s", pause_s)
            await asyncio.sleep(pause_s)

    async def _one_life(self, ready: asyncio.Future[None]) -> None:
        ours, theirs = socket.socketpair()
        process = multiprocessing.get_context("spawn").Process(
            target=worker.main,
            args=(theirs, self._loader, self._chunk_rows, log.getEffectiveLevel()),
            name="segue-worker",
            daemon=True,
        )
        self._process = process
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=2**20)
        try:
            await asyncio.to_thread(process.start)
            theirs.close()
            while (report := await _read_report(reader)) is not None:
                self._take(report, ready)
            if not ready.done():
                raise EngineDied("the worker process ended while it was loading the model")
        finally:
            theirs.close()
            self._is_ready = False
            self._writer.close()
            self._end_all(Failed(EngineDied.code, "the model process ended unexpectedly"))
            await asyncio.to_thread(_reap, process)

    def _take(self, report: Report, ready: asyncio.Future[None]) -> None:
        match report:
            case Told(events):
                for request_id, event in events:
                    mailbox = self._open.get(request_id)
                    if mailbox is not None:
                        mailbox.put(event)
            case Answer(call):
                future = self._calls.pop(call, None)
                if future is not None and not future.done():
                    future.set_result(report)
            case Ready(info):
                self._info, self._is_ready = info, True
                if not ready.done():
                    ready.set_result(None)
            case LoadFailed(code, message):
                raise BY_CODE.get(code, ModelUnavailable)(message)

    def _end_all(self, failed: Failed) -> None:
        for mailbox in self._open.values():
            mailbox.put(failed)
        self._open.clear()
        for future in self._calls.values():
            if not future.done():
                future.set_exception(EngineDied(failed.message, retry_after_s=1.0))
        self._calls.clear()

    def _check_ready(self) -> None:
        if not self._is_ready or self._is_closing:
            wait_s = max(1.0, self._retry_at - time.monotonic())
            what = "shutting down" if self._is_closing else "starting the model"
            raise Unavailable(f"the server is {what}; try again soon", retry_after_s=wait_s)

    def _send(self, order: Order) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frame(order))

    async def _call(self, order: Callable[[int], Order]) -> Answer:
        self._check_ready()
        call = next(self._call_ids)
        future = self._calls[call] = asyncio.get_running_loop().create_future()
        self._send(order(call))
        answer: Answer = await future
        if answer.error is not None:
            code, message, param = answer.error
            raise BY_CODE.get(code, EngineFault)(message, param)
        return answer


async def _read_report(reader: asyncio.StreamReader) -> Report | None:
    try:
        header = await reader.readexactly(HEADER_BYTES)
        body = await reader.readexactly(int.from_bytes(header, "little"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    report: Report = reports.decode(body)
    return report


def _reap(process: BaseProcess) -> None:
    """Wait for a process whose socket is closed; it has a second to go by itself."""
    if process.pid is None:
        return
    process.join(1.0)
    if process.is_alive():
        process.kill()
        process.join()


def _with_restarts(stats: Stats, restarts: int) -> Stats:
    values = {name: getattr(stats, name) for name in stats.__struct_fields__}
    return Stats(**{**values, "restarts": restarts})
