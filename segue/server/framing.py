"""Objects as bytes: server-sent events, lines of JSON, or one JSON document. Compact, LF only."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.types import Message

from segue.dialects.base import Framing, Reply
from segue.errors import BodyTooLarge, BodyTooSlow, SegueError, Unauthorized, UnsupportedMedia

Header = tuple[bytes, bytes]

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Frame:
    """The format of a stream: how objects become writes."""

    content_type: bytes
    before: bytes
    after: bytes
    end: bytes
    has_comments: bool  # whether the format has lines that clients ignore
    is_joined: bool  # whether objects may share a write; some NDJSON clients stall on two

    def wrap(self, objects: Iterable[Any], is_over: bool) -> list[bytes]:
        """The writes that carry these objects, and the end of the stream if it is over."""
        frames = [self.before + encode(each) + self.after for each in objects]
        if is_over:
            frames.append(self.end)
        return [b"".join(frames)] if self.is_joined and len(frames) > 1 else frames

    def note(self, text: str) -> list[bytes]:
        """The text as a comment, not part of the answer; no write if the format has no comments."""
        return [b": %b\n\n" % text.encode()] if text and self.has_comments else []


EVENTS = b"text/event-stream; charset=utf-8"

_SSE = Frame(
    content_type=EVENTS,
    before=b"data: ",
    after=b"\n\n",
    end=b"data: [DONE]\n\n",
    has_comments=True,
    is_joined=True,
)

FRAMES: dict[Framing, Frame] = {
    "sse": _SSE,
    "sse_open": Frame(_SSE.content_type, _SSE.before, _SSE.after, b"", True, True),
    "ndjson": Frame(b"application/x-ndjson", b"", b"\n", b"", False, False),
}

TEXT = "text/plain; charset=utf-8"
_NO_CONTENT = 204  # such an answer has no length either (RFC 9110, 8.6)

# Against buffering by proxies, which would delay the stream.
STREAM_HEADERS: tuple[Header, ...] = (
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


def reply_messages(reply: Reply, headers: Iterable[Header] = ()) -> list[Message]:
    """The ASGI messages of a whole answer."""
    is_text = isinstance(reply.body, str)
    body = reply.body.encode() if is_text else encode(reply.body)
    usual = {"content-type": TEXT if is_text else "application/json"}
    length = {} if reply.status == _NO_CONTENT else {"content-length": f"{len(body)}"}
    own = {**usual, **dict(reply.headers), **length}
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in own.items()]
    return [
        {
            "type": "http.response.start",
            "status": reply.status,
            "headers": [*encoded, *headers],
        },
        {"type": "http.response.body", "body": body},
    ]


def error_headers(error: SegueError) -> list[Header]:
    headers: list[Header] = []
    if error.retry_after_s is not None:
        milliseconds = max(1, round(error.retry_after_s * 1000))
        headers.append((b"retry-after", b"%d" % -(-milliseconds // 1000)))
        headers.append((b"retry-after-ms", b"%d" % milliseconds))
    if isinstance(error, Unauthorized):
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, BodyTooLarge | BodyTooSlow | UnsupportedMedia):
        # The body stays unread, so the connection cannot be used again.
        headers.append((b"connection", b"close"))
    return headers
