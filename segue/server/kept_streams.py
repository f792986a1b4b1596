"""Streams that go on without their client, which may take them up again: by a name that its request gave, and only
with the same API key."""

import asyncio
import time
import weakref
from collections.abc import Awaitable, Callable

from starlette.types import Message, Receive, Send

from segue.bounds import (
    KEPT_STREAM_S,
    MAX_KEPT_BYTES,
    MAX_KEPT_NAME,
    MAX_KEPT_SHARE,
    MAX_KEPT_STREAMS,
)
from segue.dialects.base import StreamFacts
from segue.errors import InvalidField, UnknownPath
from segue.server.feed import Disconnected
from segue.server.framing import EVENTS

_PIECE_BYTES = 64 << 10
_Place = tuple[str, str]  # the key, and the name that its client gave


class KeptStream:
    """The last bytes of one stream, and what its endpoint has instead of a client."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.started, self.completed = int(time.time()), 0
        self.has_begun = False
        self._held = bytearray()
        self.num_dropped = 0  # bytes that were before these
        self._more = asyncio.Event()  # another one for each time that there is more
        self._stopped = asyncio.Event()

    @property
    def is_done(self) -> bool:
        return self.completed != 0

    @property
    def total(self) -> int:
        return self.num_dropped + len(self._held)

    async def carry(self, answer: Callable[[Receive, Send], Awaitable[None]], send: Send) -> None:
        """Have the answer written here and to the client, as long as there is one."""

        async def both(message: Message) -> None:
            self.has_begun = True
            self._append(message.get("body", b""))
            await send(message)

        try:
            await answer(self._receive, both)
        except Disconnected:  # it was stopped
            if not self.has_begun:
                own = [(b"content-type", EVENTS)]
                await send({"type": "http.response.start", "status": 200, "headers": own})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._end()

    async def _receive(self) -> Message:
        """Its client is gone only once it is stopped."""
        await self._stopped.wait()
        return {"type": "http.disconnect"}

    def stop(self) -> None:
        self._stopped.set()
        self._end()

    def _append(self, data: bytes) -> None:
        self._held += data
        if (excess := len(self._held) - MAX_KEPT_BYTES) > 0:
            del self._held[:excess]
            self.num_dropped += excess
        self._wake()

    def _end(self) -> None:
        self.completed = self.completed or int(time.time())
        self._wake()

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()

    def after(self, start: int) -> bytes:
        """What it holds from there on, or a piece of that."""
        at = start - self.num_dropped
        return bytes(self._held[at : at + _PIECE_BYTES])

    async def more(self) -> None:
        await self._more.wait()

    @property
    def facts(self) -> StreamFacts:
        return StreamFacts(self.name, self.is_done, self.total, self.started, self.completed)


class Reader:
    """A stream from one of its bytes on, to its end. What was dropped before it was read ends it too."""

    def __init__(self, stream: KeptStream, start: int) -> None:
        self._stream, self._at = stream, start

    def __aiter__(self) -> "Reader":
        return self

    async def __anext__(self) -> bytes:
        while self._at >= self._stream.num_dropped:
            if piece := self._stream.after(self._at):
                self._at += len(piece)
                return piece
            if self._stream.is_done:
                break
            await self._stream.more()
        raise StopAsyncIteration

    async def aclose(self) -> None: ...


class KeptStreams:
    def __init__(self, *, is_alone: bool = True) -> None:
        """`is_alone`: no other process may get the request that takes a stream up. Else none is kept."""
        self._is_alone = is_alone
        self._streams: dict[_Place, KeptStream] = {}

    def open(self, tenant: str, name: str) -> KeptStream | None:
        """A new one, in the place of the one that had the name, which is stopped. None: it cannot be kept."""
        place = (tenant, name)
        if not self._is_alone or not 0 < len(name) <= MAX_KEPT_NAME:
            return None
        if place not in self._streams and not self._make_room(tenant):
            return None
        if (before := self._streams.pop(place, None)) is not None:
            before.stop()
        stream = self._streams[place] = KeptStream(name)
        return stream

    def _make_room(self, tenant: str) -> bool:
        """By forgetting the streams that ended longest ago, of this key where it has its share."""
        own = {place: each for place, each in self._streams.items() if place[0] == tenant}
        for among, most in ((own, MAX_KEPT_SHARE), (self._streams, MAX_KEPT_STREAMS)):
            if len(among) >= most:
                ended = [place for place, each in among.items() if each.is_done]
                if not ended:
                    return False
                del self._streams[min(ended, key=lambda place: among[place].completed)]
        return True

    async def carry(
        self,
        tenant: str,
        stream: KeptStream,
        answer: Callable[[Receive, Send], Awaitable[None]],
        send: Send,
    ) -> None:
        """An answer that was refused before it began leaves nothing; one that ended is forgotten after a while."""
        try:
            await stream.carry(answer, send)
        finally:
            place, known = (tenant, stream.name), weakref.ref(stream)
            if stream.has_begun:
                asyncio.get_running_loop().call_later(KEPT_STREAM_S, self._forget, place, known)
            else:
                self._forget(place, known)

    def _forget(self, place: _Place, known: weakref.ref[KeptStream]) -> None:
        """`known`: a timer must not hold the bytes of one that is gone from its place already."""
        if self._streams.get(place) is known():
            self._streams.pop(place, None)

    def read(self, tenant: str, name: str, start: int) -> Reader:
        stream = self._streams.get((tenant, name))
        if stream is None:
            raise UnknownPath("Stream not found or expired")
        if start < stream.num_dropped:
            raise InvalidField("Stream offset lost, please restart", "from")
        return Reader(stream, start)

    def facts(self, tenant: str) -> list[StreamFacts]:
        return [each.facts for place, each in self._streams.items() if place[0] == tenant]

    def stop(self, tenant: str, name: str) -> None:
        stream = self._streams.pop((tenant, name), None)
        if stream is not None:
            stream.stop()
