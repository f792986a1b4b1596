"""An engine of this process, shared with server processes: they talk to it as to a worker, over the same messages.

For vLLM, whose client belongs to one process: its own way of several clients knows no client that comes again.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator, Coroutine, Sequence
from typing import Any

from segue.engine.process import messages
from segue.engine.process.client import READ_LIMIT
from segue.engine.process.connections import MOST_BEHIND
from segue.engine.seam import Engine, Sink, failed_of
from segue.errors import EngineFault, SegueError
from segue.types import CompletionRequest, Event, ModelInfo, SlotAction, SlotResult, Stats

log = logging.getLogger("segue.shared_engine")

_STATS_S = 0.25


class SharedEngine:
    """Implements Engine, over another one."""

    def __init__(self, engine: Engine, listener: socket.socket) -> None:
        """`listener`: a listening socket; it stays open when this is closed."""
        self._engine = engine
        self._listener = listener.dup()
        self._listener.setblocking(False)
        self._processes: set[_ServerProcess] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_up = asyncio.Event()
        self._stats = Stats()

    async def start(self) -> None:
        await self._look()
        for body in (self._tell(), self._accept()):
            self._begin(body)

    def _begin(self, body: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(body)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def info(self) -> ModelInfo:
        return self._engine.info

    @property
    def is_idle(self) -> bool:
        return self._engine.is_idle

    def submit(
        self, request: CompletionRequest, sink: Sink | None = None
    ) -> AsyncGenerator[Event, None]:
        return self._engine.submit(request, sink)

    async def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        return await self._engine.tokenize(text, add_special, parse_special)

    async def pieces(self, tokens: Sequence[int]) -> list[bytes]:
        return await self._engine.pieces(tokens)

    async def lists(self) -> dict[str, bytes]:
        return await self._engine.lists()

    async def act_on_slot(self, action: SlotAction) -> SlotResult:
        return await self._engine.act_on_slot(action)

    async def stats(self) -> Stats:
        return await self._engine.stats()

    async def close(self, drain_s: float = 0.0) -> None:
        """As the engine closes; then server processes are sent away."""
        await self._engine.close(drain_s)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    # --- server processes -------------------------------------------------------------------------

    async def _accept(self) -> None:
        # Not asyncio's server: closing it would remove the socket from its folder.
        loop = asyncio.get_running_loop()
        while True:
            sock, _ = await loop.sock_accept(self._listener)
            self._begin(self._serve(sock))

    async def _serve(self, sock: socket.socket) -> None:
        """One server process, until it or the engine is gone; then its requests are cancelled."""
        reader, writer = await asyncio.open_connection(sock=sock, limit=READ_LIMIT)
        process = _ServerProcess(self._engine, writer)
        self._processes.add(process)
        try:
            await self._is_up.wait()
            process.send(messages.Ready(self._engine.info, self._stats.restarts))
            process.send(messages.StepEvents({}, self._stats))
            while (message := await messages.read(reader, messages.worker_messages)) is not None:
                process.take(message)
        finally:
            self._processes.discard(process)
            process.leave()

    async def _tell(self) -> None:
        """Statistics to all, at intervals. While the engine is down, server processes are sent away, and come again."""
        while True:
            await asyncio.sleep(_STATS_S)
            before = self._stats
            await self._look()
            for process in list(self._processes):
                if not self._is_up.is_set():
                    process.leave()
                elif self._stats != before:
                    process.send(messages.StepEvents({}, self._stats))

    async def _look(self) -> None:
        try:
            self._stats = await self._engine.stats()
        except SegueError:
            self._is_up.clear()
        else:
            self._is_up.set()


class _ServerProcess:
    """One server process: its requests, each a task, and what is to be sent to it."""

    def __init__(self, engine: Engine, writer: asyncio.StreamWriter) -> None:
        self._engine = engine
        self._writer = writer
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._events: dict[str, list[Event]] = {}  # of this step, not sent yet
        self._loop = asyncio.get_running_loop()

    def take(self, message: messages.WorkerMessage) -> None:
        match message:
            case messages.Submit(request):
                task = asyncio.create_task(self._run(request))
                self._tasks[request.request_id] = task
                task.add_done_callback(lambda _: self._tasks.pop(request.request_id, None))
            case messages.Cancel(request_id):
                if running := self._tasks.get(request_id):
                    running.cancel()
            case messages.Ping():
                self.send(messages.Pong(0.0, 0.0))
            case _:
                call = asyncio.create_task(self._answer(message))
                self._calls.add(call)
                call.add_done_callback(self._calls.discard)

    async def _run(self, request: CompletionRequest) -> None:
        request_id = request.request_id

        def sink(events: Sequence[Event]) -> None:
            self._tell(request_id, events)

        try:
            async with contextlib.aclosing(self._engine.submit(request, sink)) as events:
                async for event in events:
                    self._tell(request_id, [event])
        except SegueError as error:
            self._tell(request_id, [failed_of(error)])
        except Exception:
            log.exception("request %s failed", request_id)
            self._tell(request_id, [failed_of(EngineFault("the engine failed on this request"))])

    def _tell(self, request_id: str, events: Sequence[Event]) -> None:
        """Sent with all other events of this turn of the event loop: those of a step are one message."""
        if not self._events:
            self._loop.call_soon(self._flush)
        self._events.setdefault(request_id, []).extend(events)

    def _flush(self) -> None:
        events, self._events = self._events, {}
        self.send(messages.StepEvents(events))

    async def _answer(self, message: messages.Call) -> None:
        try:
            answer = await self._answered(message)
        except Exception as error:
            answer = messages.failed_call(message.call, error)
        self.send(answer)

    async def _answered(self, message: messages.Call) -> messages.Answer:
        match message:
            case messages.Tokenize(call, text, add_special, parse_special):
                tokens = await self._engine.tokenize(text, add_special, parse_special)
                return messages.Answer(call, tokens=tokens)
            case messages.GetPieces(call, tokens):
                return messages.Answer(call, pieces=await self._engine.pieces(tokens))
            case messages.GetLists(call):
                return messages.Answer(call, lists=await self._engine.lists())
            case messages.ActOnSlot(call, action):
                return messages.Answer(call, slot=await self._engine.act_on_slot(action))

    def send(self, report: messages.Report) -> None:
        if self._writer.is_closing():
            return
        self._writer.write(messages.frame(report))
        if self._writer.transport.get_write_buffer_size() > MOST_BEHIND:
            log.error("a server process does not read: its connection is closed")
            self._writer.transport.abort()

    def leave(self) -> None:
        """Cancel what it asked for, and close the connection once what was told is sent."""
        for task in (*self._tasks.values(), *self._calls):
            task.cancel()
        if self._events:
            self._flush()
        self._writer.close()
