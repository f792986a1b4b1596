"""Chunks of a streamed answer, written to the client's connection without waking a task.

ASGI's `send` is a coroutine, so a token of each stream would cost a task switch. Connections offer this as an
extension of their scope; where there is none, `send` does the same.
"""

import weakref

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_EXTENSION = "segue.chunks"


class ChunkWriter:
    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = weakref.ref(cycle)  # the cycle holds the scope, which holds this

    @property
    def is_open(self) -> bool:
        """Not before the headers, nor after the end, nor while the client is behind, nor to an HTTP/1.0 client."""
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
