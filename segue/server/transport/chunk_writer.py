"""Writes chunks of a streamed answer to the client's connection without waking a task.

ASGI's `send` is a coroutine, so every token of every stream would cost a task switch. Connections offer this writer as
an extension of their scope; without it, `send` is used.
"""

import weakref

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_EXTENSION = "segue.chunks"


class ChunkWriter:
    def __init__(self, cycle: RequestResponseCycle) -> None:
        # Weak: the cycle refers to the scope, and the scope to this.
        self._cycle = weakref.ref(cycle)

    @property
    def is_open(self) -> bool:
        """Whether a chunk can be written now: headers sent, answer not ended, no backpressure, and HTTP/1.1."""
        cycle = self._cycle()
        return (
            cycle is not None
            and bool(cycle.chunked_encoding)
            and not (cycle.flow.write_paused or cycle.disconnected or cycle.response_complete)
        )

    def write(self, body: bytes) -> None:
        """Only while `is_open`; an empty chunk would end the answer."""
        cycle = self._cycle()
        if cycle is not None and body:
            cycle.transport.write(b"%x\r\n%b\r\n" % (len(body), body))


def offer_chunks(cycle: RequestResponseCycle) -> None:
    extensions = cycle.scope.setdefault("extensions", {})
    if extensions is not None:
        extensions[_EXTENSION] = ChunkWriter(cycle)  # type: ignore[assignment]


def chunk_writer(scope: Scope) -> ChunkWriter | None:
    writer: ChunkWriter | None = (scope.get("extensions") or {}).get(_EXTENSION)
    return writer
