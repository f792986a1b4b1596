"""The endpoint of all companion operations: what a dialect serves besides completions."""

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from segue.dialects.base import Companion, ErrorShape, Flow, Service
from segue.dialects.fields.table import Draft, show
from segue.errors import MalformedBody, SegueError, UnknownPath
from segue.server.admission.request_record import RequestRecord
from segue.server.feed import while_connected
from segue.server.framing import (
    EVENTS,
    STREAM_HEADERS,
    Header,
    error_headers,
    reply_messages,
)
from segue.server.json_body import beside_the_loop, decode, is_large, read_body
from segue.server.report_headers import ignored


@dataclass(frozen=True)
class Companions:
    """A raw ASGI application for one companion of one dialect."""

    companion: Companion
    error: ErrorShape
    service: Service
    timeout_s: float  # of the whole request; 0 is no bound

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: list[Header] = []
        try:
            if "" in scope["path_params"].values():
                raise _nameless(scope["path"])
            is_long, draft = await self._read(scope, receive)
            headers += ignored(draft.ignored)
            values = {**scope["path_params"], **draft.values}
            if self.companion.knows_key:
                values["tenant"] = RequestRecord.of(scope).tenant
            answering = self.companion.answer(self.service, values)
            # One with a body has a place in the queue, and may wait for a model to be loaded.
            if self.companion.has_body:
                answering = while_connected(receive, answering, self.timeout_s)
            reply = await answering
            if isinstance(flow := reply.body, Flow):
                async with aclosing(flow.source):
                    is_head = scope["method"] == "HEAD"
                    flowing = _begin(send, headers) if is_head else _pass_on(flow, send, headers)
                    return await while_connected(receive, flowing, 0.0)
            messages = await beside_the_loop(is_long, lambda: reply_messages(reply, headers))
        except SegueError as error:
            RequestRecord.of(scope).refuse(error)
            messages = reply_messages(self.error(error), [*headers, *error_headers(error)])
        for message in messages:
            await send(message)

    async def _read(self, scope: Scope, receive: Receive) -> tuple[bool, Draft]:
        """The body, and whether it is so large that the answer may be long too."""
        companion = self.companion
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        query = dict(reversed(pairs) if companion.first_value_counts else pairs)
        if not companion.has_body or (companion.query_first and companion.is_asked_by(query)):
            return False, companion.table.read(query)
        body = await read_body(receive)
        has_query = companion.query_first or companion.adds_query
        read = partial(_read_companion, companion, body, query if has_query else {})
        draft = await beside_the_loop(is_large(body), read)
        return is_large(body), draft


async def _begin(send: Send, headers: list[Header], more: bool = False) -> None:
    """The beginning of an answer that goes on; for HEAD all of it."""
    own = [(b"content-type", EVENTS), *STREAM_HEADERS, *headers]
    await send({"type": "http.response.start", "status": 200, "headers": own})
    await send({"type": "http.response.body", "body": b"", "more_body": more})


async def _pass_on(flow: Flow, send: Send, headers: list[Header]) -> None:
    await _begin(send, headers, more=True)
    async for piece in flow.source:
        if body := flow.render(piece):
            await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _nameless(path: str) -> UnknownPath:
    """Of "/v1/models/", where a name was to follow."""
    error = UnknownPath(f"There is nothing at {path!a}. Is {path.rstrip('/')} meant?")
    error.hint = f"Is {path.rstrip('/')} meant?"
    return error


def _read_companion(companion: Companion, body: bytes, query: Mapping[str, str]) -> Draft:
    value = decode(body) if body or not companion.adds_query else {}
    name = companion.list_field
    if name and type(value) is list:
        value = {name: value}
    elif name and not (type(value) is dict and name in value):
        raise MalformedBody(f"The body must be a list: the value of {name}, not {show(value)}.")
    if query and type(value) is dict:
        first = {name: query[name] for name in companion.of_query if name in query}
        value = {**query, **value, **first}
    return companion.table.read(value)
