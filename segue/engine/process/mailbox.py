"""The events of one open request: given to a sink at once, or kept until the request's task reads them."""

import asyncio

from segue.engine.seam import Sink
from segue.types import LAST, Event


class Mailbox:
    def __init__(self, sink: Sink | None = None) -> None:
        self._sink = sink
        self._events: list[Event] = []
        self._wakeup: asyncio.Future[None] | None = None

    def put(self, events: list[Event]) -> None:
        """Deliver at least one event. The last event of a request is never given to the sink: its task reads it."""
        if self._sink is not None:
            if not isinstance(events[-1], LAST):
                return self._sink(events)
            if len(events) > 1:
                self._sink(events[:-1])
            events = events[-1:]
        self._events += events
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def take(self) -> list[Event]:
        if not self._events:
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup
        events, self._events = self._events, []
        return events
