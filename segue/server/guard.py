"""What is refused before any endpoint sees it: bodies too large, encoded, or not JSON."""

from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from segue.dialects.base import Dialect
from segue.errors import BodyTooLarge, RequestError, UnsupportedMedia
from segue.server.framing import error_headers, reply_messages

DEFAULT_MAX_BODY_BYTES = 16 * 2**20
METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Guard:
    def __init__(
        self, app: ASGIApp, dialect_at: Callable[[str], Dialect], max_body_bytes: int
    ) -> None:
        self._app = app
        self._dialect_at = dialect_at
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in METHODS_WITH_BODY:
            return await self._app(scope, receive, send)
        dialect = self._dialect_at(scope["path"])
        try:
            self._check_headers(dict(scope["headers"]), dialect)
        except RequestError as error:
            for message in reply_messages(dialect.error(error), error_headers(error)):
                await send(message)
            return
        await self._app(scope, self._limited(receive), send)

    def _check_headers(self, headers: dict[bytes, bytes], dialect: Dialect) -> None:
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._max_body_bytes:
            raise self._too_large()
        if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            raise UnsupportedMedia("The body must not be compressed: send it without encoding.")
        media = headers.get(b"content-type", b"application/json").partition(b";")[0]
        # A web page can post text or forms anywhere unasked, but not JSON.
        is_json = media.strip().lower() == b"application/json"
        if not is_json and (dialect.json_only or b"origin" in headers):
            raise UnsupportedMedia("The body must be sent with content-type: application/json.")

    def _limited(self, receive: Receive) -> Receive:
        num_bytes = 0

        async def limited() -> Message:
            nonlocal num_bytes
            message = await receive()
            num_bytes += len(message.get("body", b""))
            if num_bytes > self._max_body_bytes:
                raise self._too_large()
            return message

        return limited

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"The body must be at most {self._max_body_bytes} bytes.")
