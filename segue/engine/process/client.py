"""A server process's side of its connection to a worker: open requests, calls and statistics.

How the connection comes about is left to subclasses: supervisor.py starts the worker, attached_engine.py connects to
one that another process supervises.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec

from segue.engine.process import messages
from segue.engine.process.mailbox import Mailbox
from segue.engine.process.stats_report import LastStats
from segue.engine.process.suspects import Suspects, digests
from segue.engine.seam import Sink, error_of
from segue.errors import BY_CODE, EngineDied, EngineFault, InvalidField, Unavailable
from segue.types import (
    LAST,
    CompletionRequest,
    Event,
    Failed,
    ModelInfo,
    SlotAction,
    SlotResult,
    Stats,
)

READ_LIMIT = 2**20


class _Open(Mailbox):
    """One open request."""

    def __init__(self, request: CompletionRequest, sink: Sink | None) -> None:
        super().__init__(sink)
        self.request = request


OnCrash = Callable[[int, dict[str, bytes]], object]
"""Called when a worker crashed, with its number and the digests of open requests by their ids."""


class Client:
    def __init__(self, on_crash: OnCrash | None = None) -> None:
        self._writer: asyncio.StreamWriter | None = None
        self._info: ModelInfo | None = None
        self._is_ready = False
        self._is_closing = False
        self._open: dict[str, _Open] = {}
        self._nothing_open = asyncio.Event()
        self._nothing_open.set()
        self._on_crash = on_crash or Suspects().crashed
        self._last_stats = LastStats(time.monotonic)
        self._calls: dict[int, asyncio.Future[messages.Answer]] = {}
        self._call_ids = itertools.count()
        self._num_restarts = 0
        self._retry_at = 0.0

    @property
    def info(self) -> ModelInfo:
        if self._info is None:
            raise Unavailable("the model is still loading")
        return self._info

    @property
    def is_idle(self) -> bool:
        return not self._open and not self._calls

    @property
    def is_ready(self) -> bool:
        return self._is_ready

    # --- Engine, but for close --------------------------------------------------------------------

    async def submit(
        self, request: CompletionRequest, sink: Sink | None = None
    ) -> AsyncGenerator[Event, None]:
        self._check_ready()
        data = _framed(messages.Submit(request))
        mailbox = self._open[request.request_id] = _Open(request, sink)
        self._nothing_open.clear()
        self._write(data)
        is_over = False
        try:
            while not is_over:
                for event in await mailbox.take():
                    is_over = isinstance(event, LAST)
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

    async def lists(self) -> dict[str, bytes]:
        answer = await self._call(messages.GetLists)
        return answer.lists or {}

    async def act_on_slot(self, action: SlotAction) -> SlotResult:
        answer = await self._call(lambda call: messages.ActOnSlot(call, action))
        if answer.slot is None:
            raise EngineFault("the call failed")
        return answer.slot

    async def stats(self) -> Stats:
        """The last statistics reported, with their age: a long step does not delay this call."""
        self._check_ready()
        last = self._last_stats
        return msgspec.structs.replace(
            last.stats, restarts=self._num_restarts, age_s=round(last.age_s, 3)
        )

    # --- for subclasses ---------------------------------------------------------------------------

    async def _drain(self, drain_s: float) -> None:
        """Refuse new requests and calls, wait at most `drain_s` for open ones, and end the rest."""
        self._is_closing = True
        if drain_s > 0 and self._is_ready:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._nothing_open.wait(), drain_s)
        self._end_all(Failed(Unavailable.code, "the server is shutting down"))

    def _take(self, report: messages.Report) -> None:
        match report:
            case messages.StepEvents(events, stats):
                self._last_stats.take(stats)
                for request_id, told in events.items():
                    mailbox = self._open.get(request_id)
                    if mailbox is not None:
                        mailbox.put(told)
            case messages.Pong(step_s):
                if step_s == 0:
                    self._last_stats.confirm()
            case messages.Answer(call):
                future = self._calls.get(call)
                if future is not None and not future.done():
                    future.set_result(report)
            case messages.Ready(info, num_restarts):
                self._info, self._is_ready, self._num_restarts = info, True, num_restarts

    def _lost(self) -> None:
        """The worker is gone: end every open request, and report them, since one may have killed it."""
        self._is_ready = False
        if self._is_closing:
            self._end_all(Failed(Unavailable.code, "the server is shutting down"))
            return
        running = digests(box.request for box in self._open.values())
        self._on_crash(self._num_restarts, running)
        message = "the model process ended unexpectedly; it is being started again"
        self._end_all(Failed(EngineDied.code, message))

    def _end_all(self, failed: Failed) -> None:
        for mailbox in self._open.values():
            mailbox.put([failed])
        self._open.clear()
        for future in self._calls.values():
            if not future.done():
                future.set_exception(error_of(failed))
        self._calls.clear()
        self._settle()

    def _forget(self, mailbox: _Open) -> bool:
        """Remove the request; return whether it was still open."""
        request_id = mailbox.request.request_id
        if self._open.get(request_id) is not mailbox:
            return False
        del self._open[request_id]
        self._settle()
        return True

    def _settle(self) -> None:
        if self.is_idle:
            self._nothing_open.set()

    def _check_ready(self) -> None:
        if not self._is_ready or self._is_closing:
            wait_s = max(1.0, self._retry_at - time.monotonic())
            what = "shutting down" if self._is_closing else "starting the model"
            raise Unavailable(f"the server is {what}; try again soon", retry_after_s=wait_s)

    def _send(self, message: messages.WorkerMessage) -> None:
        self._write(_framed(message))

    def _write(self, data: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)

    async def _call(self, make_message: Callable[[int], messages.WorkerMessage]) -> messages.Answer:
        self._check_ready()
        call = next(self._call_ids)
        future = self._calls[call] = asyncio.get_running_loop().create_future()
        self._nothing_open.clear()
        try:
            self._send(make_message(call))
            answer: messages.Answer = await future
        finally:
            self._calls.pop(call, None)
            self._settle()
        if answer.error is not None:
            code, message, param = answer.error
            raise BY_CODE.get(code, EngineFault)(message, param)
        return answer


def _framed(message: messages.WorkerMessage) -> bytes:
    try:
        return messages.frame(message)
    except UnicodeEncodeError as error:
        raise InvalidField(
            f"a text has half a character, which UTF-8 cannot write, at its position {error.start}"
        ) from None
