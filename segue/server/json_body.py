"""Decodes a request's body as JSON; large bodies, and work on them, in a thread beside the event loop."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from starlette.types import Receive

from segue.bounds import LARGE_BODY_BYTES
from segue.errors import MalformedBody
from segue.server.feed import Disconnected
from segue.server.json_size import check_size

T = TypeVar("T")


async def read_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def is_large(body: bytes) -> bool:
    return len(body) > LARGE_BODY_BYTES


def decode(body: bytes) -> Any:
    """Raises RequestError."""
    if is_large(body):
        check_size(body)
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise MalformedBody("The body is nested too deeply.") from None
    except ValueError as error:  # msgspec's own errors, and bytes that are not UTF-8
        raise MalformedBody(f"The body is not valid JSON: {error}.") from None


async def beside_the_loop(is_long: bool, work: Callable[[], T]) -> T:
    """Run `work`, in a thread if `is_long`: other streams then wait a few milliseconds at a time, not for all of it."""
    return await asyncio.to_thread(work) if is_long else work()
