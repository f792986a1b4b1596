"""Decodes a request's body as JSON; large bodies, and work on them, in a thread beside the event loop."""

import asyncio
import codecs
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from starlette.types import Receive

from segue.bounds import LARGE_BODY_BYTES
from segue.dialects.fields.table import show
from segue.errors import MalformedBody
from segue.server.feed import Disconnected
from segue.server.json_size import check_depth, check_size

T = TypeVar("T")


async def read_body(receive: Receive, count: Callable[[int], None] | None = None) -> bytes:
    """The whole body. `count` is called with the size of each part as it arrives. Raises Disconnected."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        parts.append(message.get("body", b""))
        if count is not None:
            count(len(parts[-1]))
        if not message.get("more_body", False):
            return b"".join(parts)


def is_large(body: bytes) -> bool:
    return len(body) > LARGE_BODY_BYTES


def decode(body: bytes) -> Any:
    """Raises RequestError. A byte order mark, which editors on Windows write, is no part of the JSON."""
    body = body.removeprefix(codecs.BOM_UTF8)
    if not body:
        raise MalformedBody("The body is empty: it must be a JSON object.")
    if is_large(body):
        check_size(body)
    check_depth(body)
    try:
        return msgspec.json.decode(body)
    except ValueError as error:  # msgspec's own errors, and bytes that are not UTF-8
        raise MalformedBody(f"The body is not valid JSON: {_reason(error, body)}.") from None


_WHERE = re.compile(r"^JSON is malformed: (?P<what>[^(]*+)\(byte (?P<at>\d+)\)$")
# Each run of digits is looked at once, from its start: a body of nothing but digits takes no longer than another.
_LARGE_NUMBER = re.compile(rb"(?<![0-9.])(?:[0-9]{300}|[0-9.]++[eE]\+?[0-9]{3})")
# The first half of a UTF-16 pair without the second. Near the end, the decoder takes the body for cut off there.
_HALF_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?=[^\\]|\\[^u])")
_PAIR_BYTES = 12
BYTES_BEFORE, BYTES_AFTER = 28, 10


def _reason(error: ValueError, body: bytes) -> str:
    """What is wrong, and the text where it is: offsets alone say little of a body that a program has made."""
    text = str(error)
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if text.startswith("Input data was truncated"):
        half = _HALF_PAIR.search(body, max(len(body) - _PAIR_BYTES, 0))
        return f"half of a UTF-16 pair{_near(body, half.start())}" if half else "it ends too early"
    if "out of range" in text:
        number = _LARGE_NUMBER.search(body)
        return f"a number is out of range{_near(body, number.start()) if number else ''}"
    if found := _WHERE.match(text):
        return f"{found['what']}(byte {found['at']}){_near(body, int(found['at']))}"
    return text


def _near(body: bytes, at: int) -> str:
    part = body[max(at - BYTES_BEFORE, 0) : at + BYTES_AFTER]
    return f", near {show(part.decode(errors='replace'))}"


async def beside_the_loop(is_long: bool, work: Callable[[], T]) -> T:
    """Run `work`, in a thread if `is_long`: other streams then wait a few milliseconds at a time, not for all of it."""
    return await asyncio.to_thread(work) if is_long else work()
