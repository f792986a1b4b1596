"""Request bodies: JSON, not compressed, not too large, not too slow, and not too many at once."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from starlette.types import Message, Receive, Scope

from segue.bounds import MAX_BODIES_HELD, MAX_BODIES_SHARE
from segue.dialects.base import Dialect
from segue.dialects.fields.table import show
from segue.errors import BodyTooLarge, BodyTooSlow, Overloaded, Unavailable, UnsupportedMedia
from segue.server.admission.request_record import RequestRecord, header_values
from segue.server.json_body import read_body

DEFAULT_MAX_BODY_BYTES = 16 << 20
DEFAULT_BODY_TIMEOUT_S = 60.0
_JSON = b"application/json"


@dataclass
class _Body:
    """One body in memory: its holder, and its size so far."""

    holder: str
    size: int = 0


class Bodies:
    def __init__(self, max_bytes: int, timeout_s: float, num_processes: int) -> None:
        """`num_processes`: server processes share the memory for bodies evenly; each may hold one of the largest."""
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._most_held = max(MAX_BODIES_HELD // num_processes, 1) * max_bytes
        self._most_shared = max(MAX_BODIES_SHARE // num_processes, 1) * max_bytes
        self._num_held = 0  # bytes, over all requests
        self._held: Counter[str] = Counter()  # bytes by holder

    def check(self, scope: Scope, dialect: Dialect) -> None:
        """Checks by the head alone, before the body is read. Raises RequestError."""
        lengths = header_values(scope, b"content-length")
        if any(length.isdigit() and int(length) > self._max_bytes for length in lengths):
            raise self._too_large()
        for encoding in header_values(scope, b"content-encoding"):
            if encoding.strip().lower() not in (b"", b"identity"):
                given = show(encoding.decode("latin-1"))
                raise UnsupportedMedia(
                    f"The body must not be compressed: send it without content-encoding {given}."
                )
        # Without a CORS preflight, a web page can post text or forms to any server, but not JSON.
        if dialect.json_only or header_values(scope, b"origin"):
            for media in header_values(scope, b"content-type"):
                if media.partition(b";")[0].strip().lower() != _JSON:
                    raise UnsupportedMedia(_not_json(media))

    @asynccontextmanager
    async def read(self, receive: Receive, holder: str) -> AsyncGenerator[bytes, None]:
        """The whole body; its bytes count for `holder` until the block is left."""
        body = _Body(holder)
        try:
            yield await self._receive_all(receive, body)
        finally:
            self._release(body)

    @property
    def is_full(self) -> bool:
        """Whether another body of the largest size might be refused."""
        return self._num_held > self._most_held - self._max_bytes

    async def _receive_all(self, receive: Receive, body: _Body) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await read_body(receive, partial(self._hold, body))
        except TimeoutError:
            late = f"The body did not arrive within {self._timeout_s:g} seconds."
            raise BodyTooSlow(late) from None

    def _hold(self, body: _Body, size: int) -> None:
        body.size += size
        self._num_held += size
        self._held[body.holder] += size
        if body.size > self._max_bytes:
            raise self._too_large()
        if self._held[body.holder] > self._most_shared:
            raise Overloaded("Too many large requests at once; wait for one.")
        if self._num_held > self._most_held:
            raise Unavailable("Too many large requests at once.")

    def _release(self, body: _Body) -> None:
        self._num_held -= body.size
        self._held[body.holder] -= body.size
        if not self._held[body.holder]:
            del self._held[body.holder]

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"The body must be at most {self._max_bytes} bytes.")


def holder(scope: Scope, record: RequestRecord) -> str:
    """Whose limit a body counts for: a key, or without keys an address."""
    client = scope.get("client")
    return f"key {record.tenant}" if record.tenant else f"address {client[0] if client else ''}"


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body in one piece, then what `receive` gives."""
    is_sent = False

    async def replay() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _not_json(media: bytes) -> str:
    """curl -d, which is behind most of these, sends the type of a form unless it is told another."""
    given = show(media.decode("latin-1"))
    return (
        f"The header content-type must be application/json, not {given}. "
        "With curl: -H 'content-type: application/json'."
    )
