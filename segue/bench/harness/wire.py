"""An HTTP client for load generators: raw bytes over asyncio, with as little work as possible."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, NamedTuple, Self, TypeVar

T = TypeVar("T")

_END = b"0\r\n\r\n"  # of a stream: its last chunk


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run on the fastest event loop: load generator and server share the processor."""
    try:
        import uvloop
    except ImportError:  # not available for this platform
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


class Answer(NamedTuple):
    status: int
    head: bytes
    body: bytes


def request(body: dict[str, Any] | bytes, path: str = "/v1/completions") -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(content) + content


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


class Wire:
    """One connection, kept alive from request to request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, host: str, port: int) -> Self:
        return cls(*await asyncio.open_connection(host, port))

    async def ask(self, sent: bytes) -> Answer:
        """Send, and read a whole answer that is not a stream. Raises OSError or EOFError."""
        self._writer.write(sent)
        status, head = await self._head()
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        return Answer(status, head, await self._reader.readexactly(int(length or 0)))

    async def events(self, sent: bytes) -> AsyncGenerator[tuple[int, bytes], None]:
        """How many events came with each piece of a stream, and the piece. Raises like ask."""
        self._writer.write(sent)
        status, _ = await self._head()
        if status != 200:
            raise EOFError(f"{status} instead of a stream")
        last = b""
        while last != _END:
            piece = await self._reader.read(1 << 16)
            if not piece:
                raise EOFError("the stream broke off")
            last = (last + piece[-len(_END) :])[-len(_END) :]  # it may come in two pieces
            yield piece.count(b"data: "), piece

    async def _head(self) -> tuple[int, bytes]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), head

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        """Close the connection with a reset."""
        self._writer.transport.abort()


class Streamed(NamedTuple):
    """A whole answer that came as a stream, and when its first and last events came (time.perf_counter)."""

    first_s: float
    last_s: float
    data: bytes


class _Collector(asyncio.Protocol):
    """Keeps what comes until the server closes the connection. No task is woken for a piece of it."""

    def __init__(self) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.pieces: list[bytes] = []
        self.first_s = self.last_s = 0.0

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        if b"data:" in data:
            self.last_s = time.perf_counter()
            self.first_s = self.first_s or self.last_s

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


async def collect(host: str, port: int, sent: bytes) -> Streamed:
    """Send a request that ends its connection, and read the whole answer."""
    loop = asyncio.get_running_loop()
    transport, collector = await loop.create_connection(_Collector, host, port)
    transport.write(sent)
    try:
        await collector.closed
    finally:
        transport.close()
    return Streamed(collector.first_s, collector.last_s, b"".join(collector.pieces))
