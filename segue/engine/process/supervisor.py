"""The parent's side of a worker process: an Engine that starts it, watches it and starts it again.

When the worker dies, every open request ends with EngineDied at once, and new ones are refused with Unavailable
until the next worker is ready. Requests are never replayed: how far they got is unknown.

A worker that hangs is killed: pings ask for the age of the work its threads do, and a limit bounds that age.
"""

import asyncio
import contextlib
import itertools
import logging
import multiprocessing
import signal
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from multiprocessing.process import BaseProcess

import msgspec

from segue.engine.process import messages, worker
from segue.engine.process.mailbox import Mailbox
from segue.engine.process.spawning import beside, start_apart
from segue.engine.process.stats_report import LastStats
from segue.engine.process.suspects import Suspects
from segue.engine.seam import Loader, Sink
from segue.errors import BY_CODE, EngineDied, EngineFault, ModelUnavailable, Unavailable
from segue.types import CompletionRequest, Done, Event, Failed, ModelInfo, Stats

log = logging.getLogger("segue.supervisor")

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 4.0  # between workers that load the model and die later
LONGEST_LOADING_PAUSE_S = 60.0  # between workers that die while loading
_STEADY_S = 30.0  # a worker that ran this long is not part of a crash loop
_DIED_RETRY_S = 1.0
DEFAULT_STEP_TIMEOUT_S = 120.0


class _Open(Mailbox):
    """One open request."""

    def __init__(self, request: CompletionRequest, sink: Sink | None) -> None:
        super().__init__(sink)
        self.request = request


class Supervisor:
    def __init__(
        self, loader: Loader, chunk_rows: int, step_timeout_s: float = DEFAULT_STEP_TIMEOUT_S
    ) -> None:
        self._loader = loader
        self._chunk_rows = chunk_rows
        self._step_timeout_s = step_timeout_s
        self._process: BaseProcess | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._living: asyncio.Task[None] | None = None
        self._info: ModelInfo | None = None
        self._is_ready = False
        self._has_loaded = False  # the current worker, even if it has died since
        self._is_closing = False
        self._is_closed = asyncio.Event()
        self._open: dict[str, _Open] = {}
        self._nothing_open = asyncio.Event()
        self._nothing_open.set()
        self._suspects = Suspects()
        self._num_unanswered = 0  # pings since the last message of the worker
        self._last_stats = LastStats(time.monotonic)
        self._calls: dict[int, asyncio.Future[messages.Answer]] = {}
        self._call_ids = itertools.count()
        self._num_restarts = 0
        self._retry_at = 0.0

    async def start(self) -> None:
        """Start the worker and wait until its model is loaded. Raises the error of a failed load."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._living = asyncio.create_task(self._live(ready))
        try:
            await ready
        except BaseException:
            await self.close()
            raise

    @property
    def info(self) -> ModelInfo:
        if self._info is None:
            raise Unavailable("the model is still loading", retry_after_s=1.0)
        return self._info

    @property
    def is_idle(self) -> bool:
        return not self._open

    @property
    def is_ready(self) -> bool:
        return self._is_ready

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    # --- Engine -----------------------------------------------------------------------------------

    async def submit(
        self, request: CompletionRequest, sink: Sink | None = None
    ) -> AsyncGenerator[Event, None]:
        self._check_ready()
        data = messages.frame(messages.Submit(request))
        mailbox = self._open[request.request_id] = _Open(request, sink)
        self._nothing_open.clear()
        self._write(data)
        is_over = False
        try:
            while not is_over:
                for event in await mailbox.take():
                    is_over = isinstance(event, Done | Failed)
                    if is_over:
                        self._forget(mailbox)
                    yield event
        finally:
            if self._forget(mailbox) and self._is_ready:
                self._send(messages.Cancel(request.request_id))

    async def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        answer = await self._call(
            lambda call: messages.Tokenize(call, text, add_special, parse_special),
        )
        return answer.tokens or []

    async def pieces(self, tokens: Sequence[int]) -> list[bytes]:
        answer = await self._call(lambda call: messages.GetPieces(call, list(tokens)))
        return answer.pieces or []

    async def stats(self) -> Stats:
        """The last statistics reported, with their age: a long step does not delay this call."""
        self._check_ready()
        last = self._last_stats
        return msgspec.structs.replace(
            last.stats, restarts=self._num_restarts, age_s=round(last.age_s, 3)
        )

    async def close(self, drain_s: float = 0.0) -> None:
        """End the worker, after at most `drain_s` for open requests. A second call may shorten the drain."""
        self._is_closing = True
        if drain_s > 0 and self._is_ready:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._nothing_open.wait(), drain_s)
        self._end_all(Failed(Unavailable.code, "the server is shutting down"))
        self._is_closed.set()
        if self._writer is not None:
            self._writer.close()  # the worker ends when its socket closes
        if self._living is not None:
            await asyncio.wait([self._living])

    # --- one worker after another -----------------------------------------------------------------

    async def _live(self, ready: asyncio.Future[None]) -> None:
        pause_s = 0.0
        while not self._is_closed.is_set():
            begun, self._has_loaded = time.monotonic(), False
            try:
                await self._one_life(ready)
            except Exception as error:
                if not ready.done():  # the first start failed: the caller of start() gets the error
                    ready.set_exception(error)
                    return
                log.error("the worker could not be started: %s", error)
            if self._is_closed.is_set():
                return
            pause_s = next_pause(pause_s, time.monotonic() - begun, self._has_loaded)
            self._num_restarts += 1
            self._retry_at = time.monotonic() + pause_s
            log.info("starting the worker again in %.1f s", pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_closed.wait(), pause_s)

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
        watching = asyncio.create_task(self._watch(process))
        try:
            await beside(lambda: start_apart(process, self._loader))
            theirs.close()
            while (report := await _read_report(reader)) is not None:
                self._num_unanswered = 0
                self._take(report, ready)
            if not ready.done():
                await beside(lambda: _reap(process))
                how = _ending(process.exitcode)
                raise ModelUnavailable(f"loading the model {how}")
        finally:
            watching.cancel()
            theirs.close()
            self._is_ready = False
            self._writer.close()
            self._end_open_requests()
            await beside(lambda: _reap(process))
            if not self._is_closing:
                log.error("the worker %s", _ending(process.exitcode))

    async def _watch(self, process: BaseProcess) -> None:
        """Ping the worker, and kill it if it does not answer in time. Loading has no time limit."""
        interval_s = min(max(self._step_timeout_s / 4, 0.05), 1.0)
        while True:
            await asyncio.sleep(interval_s)
            if not self._is_ready:
                continue
            # Counted, not timed: if our own event loop was blocked, only one ping is missing.
            if self._num_unanswered * interval_s > self._step_timeout_s:
                log.error("the worker does not answer for %.1f s: ended", self._step_timeout_s)
                process.kill()
                return
            self._num_unanswered += 1
            self._send(messages.Ping())

    def _check_pulse(self, pong: messages.Pong) -> None:
        busy_s = max(pong.step_s, pong.inbox_s)
        if busy_s > self._step_timeout_s and self._is_ready and self._process is not None:
            what = "a step" if pong.step_s >= pong.inbox_s else "passing on a request"
            log.error("%s has taken %.1f s: the worker is ended", what, busy_s)
            self._is_ready = False
            self._process.kill()

    def _end_open_requests(self) -> None:
        """End every open request of a worker that is gone, and log the ids of requests that may have killed it."""
        if self._is_closing:
            message = "the server is shutting down"
            self._end_all(Failed(Unavailable.code, message))
            return
        for request_id in self._suspects.crashed(box.request for box in self._open.values()):
            log.error("request %s was running at two crashes in a row", request_id)
        message = "the model process ended unexpectedly; it is being started again"
        self._end_all(Failed(EngineDied.code, message, retry_after_s=_DIED_RETRY_S))

    def _take(self, report: messages.Report, ready: asyncio.Future[None]) -> None:
        match report:
            case messages.StepEvents(events, stats):
                self._last_stats.take(stats)
                for request_id, together in _by_request(events).items():
                    mailbox = self._open.get(request_id)
                    if mailbox is not None:
                        mailbox.put(together)
            case messages.Pong(step_s):
                if step_s == 0:
                    self._last_stats.confirm()
                self._check_pulse(report)
            case messages.Answer(call):
                future = self._calls.pop(call, None)
                if future is not None and not future.done():
                    future.set_result(report)
            case messages.Ready(info):
                self._info, self._is_ready, self._has_loaded = info, True, True
                if not ready.done():
                    ready.set_result(None)
            case messages.LoadFailed(code, message):
                raise BY_CODE.get(code, ModelUnavailable)(message)

    def _end_all(self, failed: Failed) -> None:
        for mailbox in self._open.values():
            mailbox.put([failed])
        self._open.clear()
        self._nothing_open.set()
        for future in self._calls.values():
            if not future.done():
                future.set_exception(EngineDied(failed.message, retry_after_s=_DIED_RETRY_S))
        self._calls.clear()

    def _forget(self, mailbox: _Open) -> bool:
        """Remove the request; return whether it was still open."""
        request_id = mailbox.request.request_id
        if self._open.get(request_id) is not mailbox:
            return False
        del self._open[request_id]
        if not self._open:
            self._nothing_open.set()
        return True

    def _check_ready(self) -> None:
        if not self._is_ready or self._is_closing:
            wait_s = max(1.0, self._retry_at - time.monotonic())
            what = "shutting down" if self._is_closing else "starting the model"
            raise Unavailable(f"the server is {what}; try again soon", retry_after_s=wait_s)

    def _send(self, message: messages.WorkerMessage) -> None:
        self._write(messages.frame(message))

    def _write(self, data: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)

    async def _call(self, make_message: Callable[[int], messages.WorkerMessage]) -> messages.Answer:
        self._check_ready()
        call = next(self._call_ids)
        future = self._calls[call] = asyncio.get_running_loop().create_future()
        self._send(make_message(call))
        try:
            answer: messages.Answer = await future
        finally:
            self._calls.pop(call, None)
        if answer.error is not None:
            code, message, param = answer.error
            raise BY_CODE.get(code, EngineFault)(message, param)
        return answer


def next_pause(last_s: float, lived_s: float, has_loaded: bool) -> float:
    """Seconds to wait before the next worker: doubled each time, so that a crash loop uses little of the machine."""
    if lived_s > _STEADY_S:
        return FIRST_PAUSE_S
    longest = LONGEST_PAUSE_S if has_loaded else LONGEST_LOADING_PAUSE_S
    return min(max(last_s * 2, FIRST_PAUSE_S), longest)


def _by_request(events: Iterable[tuple[str, Event]]) -> dict[str, list[Event]]:
    together: dict[str, list[Event]] = {}
    for request_id, event in events:
        together.setdefault(request_id, []).append(event)
    return together


async def _read_report(reader: asyncio.StreamReader) -> messages.Report | None:
    try:
        header = await reader.readexactly(messages.HEADER_BYTES)
        body = await reader.readexactly(int.from_bytes(header, "little"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    report: messages.Report = messages.reports.decode(body)
    return report


def _reap(process: BaseProcess) -> None:
    """Wait for a process whose socket is closed; kill it after a second."""
    if process.pid is None:
        return
    process.join(1.0)
    if process.is_alive():
        process.kill()
        process.join()


def _ending(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"was ended by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code}"
