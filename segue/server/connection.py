"""One client's connection, with bounds on everything a client can make us keep or wait for.

uvicorn's protocol puts no limit on the size of a request's head, on the time it takes to arrive, or on how long a
reader may stand still; and it loses track of a running request when a second one is sent behind it.
"""

import asyncio
import contextlib
import logging
import socket
from typing import Any, cast

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from segue.bounds import HEAD_TIMEOUT_S, MAX_HEAD_BYTES, MAX_HEADERS, MAX_URL_BYTES
from segue.dialects.openai import error_reply
from segue.errors import HeadTooLarge, MalformedHttp, RequestError, UrlTooLong
from segue.server.admission.admission import Admission, Refusal
from segue.server.chunk_writer import offer_chunks
from segue.server.framing import Header, encode

log = logging.getLogger(__name__)

DEFAULT_WRITE_TIMEOUT_S = 30.0

_CLOSE: Header = (b"connection", b"close")

# A peer that vanished without a word is found out after idle + 3 × interval seconds.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


class Connection(HttpToolsProtocol):
    def __init__(
        self,
        *args: Any,
        admission: Admission,
        write_timeout_s: float,
        max_connections: int,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self._admission = admission
        self._write_timeout_s = write_timeout_s
        self._max_connections = max_connections
        self._head_alarm: asyncio.TimerHandle | None = None
        self._write_alarm: asyncio.TimerHandle | None = None
        self._num_head_bytes = 0
        self._num_framing_bytes = 0  # bytes received that are not part of a body
        self._num_body_bytes = 0
        self._is_deaf = False  # whatever else arrives is dropped, and the connection closes soon
        self._wrong: RequestError | None = None
        self._has_refused = False  # a request of what is being read now

    # --- the connection ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _watch_peer(transport)
        if len(self.connections) > self._max_connections:
            transport.abort()
            return
        self._head_alarm = self.loop.call_later(HEAD_TIMEOUT_S, self._give_up_on_head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_alarms()
        # uvicorn leaves it running where the client reset the connection, and it holds on to all of this.
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf or self.transport.is_closing():
            return
        self._num_framing_bytes += len(data)
        self._has_refused = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # nothing here can be upgraded; the request is served as it is
        except httptools.HttpParserError:
            self._stumble(self._wrong or MalformedHttp("This is not an HTTP/1.1 request."))
            return
        if self._num_framing_bytes > MAX_HEAD_BYTES + self._num_body_bytes:
            self._stumble(_too_large())

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_alarm is None:
            self._write_alarm = self.loop.call_later(self._write_timeout_s, self._drop_slow_reader)

    def resume_writing(self) -> None:
        if self._write_alarm is not None:
            self._write_alarm.cancel()
            self._write_alarm = None
        super().resume_writing()

    # --- what the parser tells --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._has_refused or (self.cycle is not None and not self.cycle.response_complete):
            # Sent behind a request that still runs. We answer one at a time, then close: also where
            # the first was refused, or one read of a thousand requests would hold up everybody.
            self._is_deaf = True
            self.cycle.keep_alive = False
            raise self._stop(MalformedHttp("Requests must not be pipelined."))
        self._unset_keepalive_if_required()
        super().on_message_begin()
        self._num_head_bytes = self._num_framing_bytes = self._num_body_bytes = 0
        if self._head_alarm is None:
            self._head_alarm = self.loop.call_later(HEAD_TIMEOUT_S, self._give_up_on_head)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > MAX_URL_BYTES:
            raise self._stop(UrlTooLong(f"The URL must be at most {MAX_URL_BYTES} bytes."))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers come here too, after the body."""
        super().on_header(name, value)
        self._num_head_bytes += len(name) + len(value) + 4
        if self._num_head_bytes > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
            raise self._stop(_too_large())

    def on_headers_complete(self) -> None:
        if self._head_alarm is not None:
            self._head_alarm.cancel()
            self._head_alarm = None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._num_framing_bytes -= len(body)
        self._num_body_bytes += len(body)
        super().on_body(body)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """A crowd is refused here, at a third of the price. Whoever does not read his answers gets no more of them."""
        scope = cast("Scope", cycle.scope)
        refusal = None if self.flow.write_paused else self._admission.refusal(scope)
        if refusal is None:
            offer_chunks(cycle)
            super()._start_asgi_task(cycle, app)
        else:
            self._refuse(cycle, refusal)

    def _refuse(self, cycle: RequestResponseCycle, refusal: Refusal) -> None:
        """The rest of the body is passed over as it comes, as it is behind every answer that was early."""
        status, headers, body = refusal
        is_last = not cycle.keep_alive or _CLOSE in headers
        if is_last and _CLOSE not in headers:
            headers.append(_CLOSE)
        lines = [b"%b: %b\r\n" % header for header in (*cycle.default_headers, *headers)]
        self.transport.write(b"".join((STATUS_LINE[status], *lines, b"\r\n", body)))
        self._has_refused = True
        cycle.response_started = cycle.response_complete = True
        cycle.keep_alive = not is_last
        if is_last:
            self.transport.close()
        self.on_response_complete()

    # --- endings ----------------------------------------------------------------------------------

    def _stop(self, wrong: RequestError) -> RequestError:
        """Raised in a callback, it ends the parsing; data_received then tells the client."""
        self._wrong = wrong
        return wrong

    def _stumble(self, wrong: RequestError) -> None:
        """What follows cannot be read. A running answer is finished; otherwise the client is told."""
        self._is_deaf = True
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            cycle.keep_alive = False
            return
        log.debug("a connection was refused: %s", wrong.message)
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self._write_error(wrong)
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()

    def _write_error(self, wrong: RequestError) -> None:
        body = encode(error_reply(wrong).body)
        self.transport.write(
            b"%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (STATUS_LINE[wrong.status], len(body), body)
        )

    def _give_up_on_head(self) -> None:
        self._head_alarm = None
        if not self.transport.is_closing():
            self.transport.close()

    def _drop_slow_reader(self) -> None:
        """abort, not close: close would wait until the reader has taken what is buffered."""
        self._write_alarm = None
        log.info("a client stopped reading for %.0f s: dropped", self._write_timeout_s)
        self.transport.abort()

    def _stop_alarms(self) -> None:
        for alarm in (self._head_alarm, self._write_alarm):
            if alarm is not None:
                alarm.cancel()
        self._head_alarm = self._write_alarm = None


def _too_large() -> HeadTooLarge:
    return HeadTooLarge(f"Headers must be at most {MAX_HEADERS}, of {MAX_HEAD_BYTES} bytes.")


def _watch_peer(transport: asyncio.Transport) -> None:
    sock = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
