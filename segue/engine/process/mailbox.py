"""The events of one open request on their way to whoever asked: to a sink at once, or kept until they are read."""

import asyncio

from segue.engine.seam import Sink
from segue.types import Done, Event, Failed


class Mailbox:
    def __init__(self, sink: Sink | None = None) -> None:
        self._sink = sink
        self._events: list[Event] = []
        self._wakeup: asyncio.Future[None] | None = None

    def put(self, events: list[Event]) -> None:
        """Some events, not none. The end of a request is always kept for its reader, whose task ends with it."""
        if self._sink is not None:
            num_before_end = len(events) - isinstance(events[-1], Done | Failed)
            if num_before_end:
                self._sink(events[:num_before_end])
            events = events[num_before_end:]
            if not events:
                return
        self._events += events
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def take(self) -> list[Event]:
        if not self._events:
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup
        events, self._events = self._events, []
        return events
