"""Request bodies: JSON, not compressed, not too large, not too slow, and not too many at once."""

import asyncio

from starlette.types import Message, Receive, Scope

from segue.dialects.base import Dialect
from segue.errors import BodyTooLarge, BodyTooSlow, Unavailable, UnsupportedMedia
from segue.server.admission.request_record import header_values
from segue.server.feed import Disconnected

DEFAULT_MAX_BODY_BYTES = 16 << 20
DEFAULT_BODY_TIMEOUT_S = 60.0
_MANY = 16  # bodies of the largest size that may be held at once


class Bodies:
    def __init__(self, max_bytes: int, timeout_s: float) -> None:
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._num_held = 0  # bytes, over all requests

    def check(self, scope: Scope, dialect: Dialect) -> None:
        """What the head alone tells, so that nothing need be read."""
        lengths = header_values(scope, b"content-length")
        if any(length.isdigit() and int(length) > self._max_bytes for length in lengths):
            raise self._too_large()
        encodings = header_values(scope, b"content-encoding")
        if any(encoding.strip().lower() not in (b"", b"identity") for encoding in encodings):
            raise UnsupportedMedia("The body must not be compressed: send it without encoding.")
        media = header_values(scope, b"content-type") or [b"application/json"]
        # A web page can post text or forms anywhere unasked, but not JSON.
        is_json = all(
            each.partition(b";")[0].strip().lower() == b"application/json" for each in media
        )
        if not is_json and (dialect.json_only or header_values(scope, b"origin")):
            raise UnsupportedMedia("The body must be sent with content-type: application/json.")

    async def read(self, receive: Receive) -> bytes:
        """The whole body. Whoever reads one gives it back with `release`."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._timeout_s):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Disconnected
                    part = message.get("body", b"")
                    more = message.get("more_body", False)
                    parts.append(part)
                    size += len(part)
                    self._hold(len(part))
                    if size > self._max_bytes:
                        raise self._too_large()
        except TimeoutError:
            self.release(size)
            late = f"The body did not arrive within {self._timeout_s:g} seconds."
            raise BodyTooSlow(late) from None
        except BaseException:
            self.release(size)
            raise
        return b"".join(parts)

    def release(self, size: int) -> None:
        self._num_held -= size

    def _hold(self, size: int) -> None:
        self._num_held += size
        if self._num_held > _MANY * self._max_bytes:
            raise Unavailable("Too many large requests at once.", retry_after_s=1.0)

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"The body must be at most {self._max_bytes} bytes.")


def replayed(body: bytes, receive: Receive) -> Receive:
    """As if the body arrived in one piece; then whatever `receive` says."""
    is_sent = False

    async def replay() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
