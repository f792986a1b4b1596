"""The events of one running request; the request ends as soon as its client disconnects.

Two tasks run beside the endpoint. One runs the engine's generator, so that the endpoint can take all events
that have arrived at once and can wait with a timeout. The other waits for the disconnect and cancels the first,
which closes the generator in any state: opening, queued or running.

Neither task is woken per token of a running stream: the engine gives the events of a step to `put`, and `direct`
writes them to the client in the same call. Only events that cannot be written at once wait for the endpoint.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import TypeVar

from starlette.types import Receive

from segue.bounds import CHARS_OF_ID, MAX_BACKLOG
from segue.engine.seam import Sink, failed_of
from segue.errors import SegueError, TimedOut
from segue.server.coalescing import Coalescer
from segue.types import LAST, CompletionRequest, Delta, Event, Failed, Prompted, PromptScores

log = logging.getLogger(__name__)

T = TypeVar("T")

FOREVER_S = 86_400.0
FAULT = Failed("engine_fault", "The server failed on this request.")


class Disconnected(Exception):
    """The client has disconnected, so no answer is sent."""


Source = Callable[[Sink], Awaitable[AsyncGenerator[Event, None]]]
Watch = Callable[[Event], None]


class Feed:
    """`watch` is called with every event. `timeout_s` bounds the whole request; 0 is no bound. `coalescer` joins events
    of tokens before they go on; None: they go on as they come."""

    def __init__(
        self,
        source: Source,
        receive: Receive,
        watch: Watch | None = None,
        timeout_s: float = 0.0,
        coalescer: Coalescer | None = None,
    ):
        self._source = source
        self._receive = receive
        self._watch_event = watch
        self._timeout_s = timeout_s
        self._coalescer = coalescer
        self._deadline: asyncio.TimerHandle | None = None
        self._backlog = 0
        self._is_reader_behind = False  # while a write may wait for it
        # Writes events to the client at once. Returns False if it could not: then they wait for `take`, as they do
        # while it is None.
        self.direct: Callable[[Sequence[Event]], bool] | None = None
        self._num_direct = 0
        self._arrived: list[Event] = []
        self._wake = asyncio.Event()
        self._is_gone = False

    async def __aenter__(self) -> "Feed":
        self._pump = asyncio.create_task(self._run())
        self._watch = asyncio.create_task(self._listen())
        if self._timeout_s:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self._timeout_s, self._expire)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        for task in (self._watch, self._pump):
            task.cancel()
        # The generator is closed before the endpoint returns, so that its slot is free for the next request.
        await asyncio.wait((self._watch, self._pump))
        # A cancelled task refers to its frame, and the frame to this object: break the cycle.
        del self._watch, self._pump

    async def take(self, patience_s: float = FOREVER_S) -> list[Event]:
        """Everything that arrived since the last call; empty if there was no event for `patience_s`."""
        while True:
            self._num_direct = 0
            # A plain timer: asyncio.timeout costs five times as much.
            alarm = asyncio.get_running_loop().call_later(patience_s, self._wake.set)
            await self._wake.wait()
            alarm.cancel()
            if self._is_gone:
                raise Disconnected
            self._wake.clear()
            if self._arrived or not self._num_direct:
                break
        taken, self._arrived = self._arrived, []
        self._backlog = 0
        return taken

    async def pass_on(self, write: Awaitable[None]) -> None:
        """Await a write to the client. What arrives meanwhile is bounded: the client may not be reading."""
        self._is_reader_behind = True
        await write
        self._is_reader_behind = False

    def put(self, events: Sequence[Event]) -> None:
        if self._watch_event is not None:
            for event in events:
                self._watch_event(event)
        if self._coalescer is not None:
            events = self._coalescer.push(events)
            if not events:
                return None
        if self.direct is not None and not self._arrived:
            try:
                if self.direct(events):
                    self._num_direct += len(events)
                    return None
            except Exception:
                log.exception("an answer could not be rendered")
                return self._end(FAULT)
        self._arrived += events
        self._wake.set()
        if self._is_reader_behind:
            self._backlog += sum(map(_weight, events))
            if self._backlog > MAX_BACKLOG:
                self._cut(TimedOut("The answer was not read fast enough."))
        return None

    def _expire(self) -> None:
        self._cut(_late(self._timeout_s))

    def _cut(self, error: SegueError) -> None:
        """End the request with an error: the engine stops, and the client gets the error."""
        self._end(failed_of(error))

    def _end(self, failed: Failed) -> None:
        if not self._pump.done():
            self._pump.cancel()
            self._is_reader_behind, self.direct = False, None
            self.put((failed,))

    async def _run(self) -> None:
        try:
            async with aclosing(await self._source(self.put)) as events:
                async for event in events:
                    if isinstance(event, LAST):
                        self.direct = None  # the endpoint ends the stream
                    self.put((event,))
                    if isinstance(event, LAST):
                        return
            raise RuntimeError("the engine's events ended without Done or Failed")
        except SegueError as error:
            self.direct = None
            self.put((failed_of(error),))
        except Exception:
            log.exception("a request failed")
            self.direct = None
            self.put((FAULT,))

    async def _listen(self) -> None:
        await left(self._receive)
        self._is_gone = True
        self._pump.cancel()
        self._wake.set()


def _late(timeout_s: float) -> TimedOut:
    return TimedOut(f"The request took longer than {timeout_s:g} seconds.")


async def left(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(receive: Receive, work: Awaitable[T], timeout_s: float) -> T:
    """The result of `work`. Raises Disconnected, and cancels it, once the client is gone; the same with TimedOut once
    it took too long. 0 is no bound."""
    working, leaving = asyncio.ensure_future(work), asyncio.create_task(left(receive))
    try:
        done, _ = await asyncio.wait(
            (working, leaving), timeout=timeout_s or None, return_when=asyncio.FIRST_COMPLETED
        )
        if not done:
            raise _late(timeout_s)
        if working not in done:
            raise Disconnected
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait((working, leaving))


def num_scores(event: Event) -> int:
    """Scored tokens and their alternatives."""
    match event:
        case Prompted(scores=PromptScores() as scores):
            return scores.num_scores
        case Delta(scores=tuple() as drawn):
            return sum([1 + len(score.top) for score in drawn])
    return 0


def num_repeated(event: Event, request: CompletionRequest) -> int:
    """Characters of a prompt that an answer has, once for each of its choices."""
    if not isinstance(event, Prompted):
        return 0
    size = CHARS_OF_ID * len(event.tokens) if request.tells_ids else 0
    return request.n * (size + (len(event.text or "") if request.echo else 0))


def _weight(event: Event) -> int:
    """About how much memory an event takes, in tokens and scores. Those of prompts were counted before they were
    computed, and one event of them may be more than a backlog."""
    scores = 0 if isinstance(event, Prompted) else num_scores(event)
    return 1 + len(getattr(event, "tokens", ())) + scores
