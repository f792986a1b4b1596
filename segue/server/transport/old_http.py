"""Answers to HTTP/1.0, which has no chunked encoding: an answer without a length ends with the connection."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle


def without_chunks(app: ASGIApp, cycle: RequestResponseCycle) -> ASGIApp:
    """The same application; an answer of unknown length is written until the connection closes."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_open_ended = False

        async def send_plainly(message: Message) -> None:
            nonlocal is_open_ended
            if message["type"] == "http.response.start":
                is_open_ended = _has_no_length(message)
            if is_open_ended:
                await _write(cycle, message)
            else:
                await send(message)

        await app(scope, receive, send_plainly)

    return answer


def _has_no_length(start: Message) -> bool:
    return not any(name.lower() == b"content-length" for name, _ in start["headers"])


async def _write(cycle: RequestResponseCycle, message: Message) -> None:
    if cycle.flow.write_paused and not cycle.disconnected:
        await cycle.flow.drain()
    if cycle.disconnected:
        return
    if message["type"] == "http.response.start":
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        headers = [*cycle.default_headers, *message["headers"], (b"connection", b"close")]
        lines = [b"%b: %b\r\n" % header for header in headers]
        cycle.transport.write(b"".join((STATUS_LINE[message["status"]], *lines, b"\r\n")))
        return
    if cycle.scope["method"] != "HEAD":
        cycle.transport.write(message.get("body", b""))
    if not message.get("more_body", False):
        cycle.response_complete = True
        cycle.message_event.set()
        cycle.transport.close()
        cycle.on_response()
