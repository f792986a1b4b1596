"""One client's connection, with bounds on everything that a client can make the server keep or wait for.

uvicorn's protocol has no limit on the size of a request's head, on the time it takes to arrive, or on how long a client
may read nothing. It loses a running request when a second one is pipelined, and the body of a request that asks for an
upgrade. It treats a client that has finished sending (half-close) as disconnected.
"""

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from segue.bounds import (
    HEAD_TIMEOUT_S,
    LINGER_S,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    MAX_LINGER_BYTES,
    MAX_URL_BYTES,
)
from segue.errors import HeadTooLarge, MalformedHttp, SegueError, Unavailable, UrlTooLong
from segue.server.admission.admission import Admission, Refusal
from segue.server.framing import Header
from segue.server.transport.chunk_writer import offer_chunks
from segue.server.transport.heads import HTTP_1_0, target_of, wrong_coding, wrong_version
from segue.server.transport.not_http import unreadable
from segue.server.transport.old_http import without_chunks
from segue.server.transport.write_alarm import WriteAlarm, num_in_system

log = logging.getLogger(__name__)

DEFAULT_WRITE_TIMEOUT_S = 30.0

_CLOSE: Header = (b"connection", b"close")
_NOT_READ = "-"  # the method and path of a request that has none
_BODY_HEADERS = (b"content-length", b"transfer-encoding")

# A peer that vanished without a FIN or RST is detected after idle + 3 × interval seconds.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_SHOWS_RESETS = sys.platform != "win32"  # whether a socket tells of a reset before the next write
_FIRST_LOOK_S, _LAST_LOOK_S = 0.005, 1.0  # between checks for a reset, after a probe byte was sent


class _Outlet(NamedTuple):
    """The transport as a request's cycle uses it; `close` is replaced by our own."""

    write: Callable[[bytes], None]
    is_closing: Callable[[], bool]
    close: Callable[[], None]


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
        self._write_alarm = WriteAlarm(
            self.loop.call_later, self._num_unread, write_timeout_s, self._drop_stalled_reader
        )
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        self._num_head_bytes = 0
        self._num_headers = 0
        self._num_framing_bytes = 0  # bytes received that are not part of a body
        self._num_body_bytes = 0
        self._num_dropped_bytes = 0
        self._is_head_complete = False
        self._is_repeating = False  # a new parser reads a head that was already handled
        self._ignores_input = False  # further input is dropped; the connection closes soon
        self._is_lingering = False
        self._wrong: SegueError | None = None
        self._has_refused = False  # a request in the data that is being parsed

    # --- the connection ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _watch_peer(transport)
        if len(self.connections) > self._max_connections:
            transport.abort()
            return
        self._set_alarm("head", HEAD_TIMEOUT_S, self._close)

    def connection_lost(self, exc: Exception | None) -> None:
        for alarm in list(self._alarms):
            self._clear_alarm(alarm)
        self._write_alarm.stop()
        # After a reset, uvicorn leaves this timer running, and the timer refers to the connection.
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ignores_input or self.transport.is_closing():
            self._num_dropped_bytes += len(data)
            if self._is_lingering and self._num_dropped_bytes > MAX_LINGER_BYTES:
                self._close()
            return
        self._num_framing_bytes += len(data)
        self._has_refused = False
        try:
            self._parse(data)
        except httptools.HttpParserError:
            wrong = self._wrong or unreadable(self.parser.get_http_version(), data)
            self._refuse_malformed(wrong)
            return
        if self._num_framing_bytes > MAX_HEAD_BYTES + self._num_body_bytes:
            self._refuse_malformed(_too_large())

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as pause:
            self._ignore_upgrade()
            if rest := data[pause.args[0] :]:
                self._parse(rest)

    def _ignore_upgrade(self) -> None:
        """The parser stops at an upgrade request. It is not upgraded: a new parser reads the rest as its body."""
        lines = [b"%b: %b\r\n" % each for each in self.headers if each[0] in _BODY_HEADERS]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._is_repeating = True
        self.parser.feed_data(b"".join((b"POST / HTTP/1.1\r\n", *lines, b"\r\n")))
        self._is_repeating = False

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether to keep the connection after a FIN. The client may wait for its answer or be gone. A probe byte
        shows which: a client that is gone answers with a reset. HTTP/1.0 has no such byte, so it counts as gone, as
        all do where resets are not shown."""
        cycle = self.cycle
        is_waiting = cycle is not None and not (cycle.response_complete or cycle.more_body)
        if (
            self._is_lingering
            or not (is_waiting and _SHOWS_RESETS)
            or cycle.scope["http_version"] == HTTP_1_0
        ):
            return False
        cycle.keep_alive = False
        self._ignores_input = True
        if not cycle.response_started:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif cycle.chunked_encoding:
            self.transport.write(b"0")  # a leading zero of the next chunk's length
        self._look_for_peer(_FIRST_LOOK_S)
        return True

    def _look_for_peer(self, delay_s: float) -> None:
        sock = self.transport.get_extra_info("socket")
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
            return
        next_s = min(delay_s * 2, _LAST_LOOK_S)
        self._set_alarm("peer", delay_s, lambda: self._look_for_peer(next_s))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_alarm.start()

    def resume_writing(self) -> None:
        self._write_alarm.stop()
        super().resume_writing()
        self._watch_reader()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_reader()

    def _watch_reader(self) -> None:
        """If no more is to be written, what waits must be read in time, however little: writing is paused for much."""
        is_all = self.cycle is None or self.cycle.response_complete or self.transport.is_closing()
        if is_all and self._num_unread():
            self._write_alarm.start()

    # --- callbacks of the parser ------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._is_repeating:
            return
        if self._has_refused or (self.cycle is not None and not self.cycle.response_complete):
            # Pipelined behind a request that still runs: answer that one, then close. The same if the
            # first one was refused: a read of a thousand requests would block the event loop.
            self._ignores_input = True
            self.cycle.keep_alive = False
            raise self._stop(MalformedHttp("Requests must not be pipelined."))
        self._unset_keepalive_if_required()
        if not self.flow.write_paused:
            self._write_alarm.stop()  # of the answer before
        super().on_message_begin()
        self._num_head_bytes = self._num_framing_bytes = self._num_body_bytes = 0
        self._num_headers = 0
        self._is_head_complete = False
        if "head" not in self._alarms:
            self._set_alarm("head", HEAD_TIMEOUT_S, self._close)

    def on_url(self, url: bytes) -> None:
        if self._is_repeating:
            return
        super().on_url(url)
        if len(self.url) > MAX_URL_BYTES:
            raise self._stop(UrlTooLong(f"The URL must be at most {MAX_URL_BYTES} bytes."))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Also called for trailers, after the body: they count towards the limits and are ignored."""
        if self._is_repeating:
            return
        self._num_head_bytes += len(name) + len(value) + 4
        self._num_headers += 1
        if self._num_head_bytes > MAX_HEAD_BYTES or self._num_headers > MAX_HEADERS:
            raise self._stop(_too_large())
        if not self._is_head_complete:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._is_repeating:
            return
        self._clear_alarm("head")
        self._check_head()
        super().on_headers_complete()
        self._is_head_complete = True

    def _check_head(self) -> None:
        version = self.parser.get_http_version()
        if wrong := wrong_version(version) or wrong_coding(version, self.headers):
            raise self._stop(wrong)
        try:
            self.url, host = target_of(self._method, self.url)
        except SegueError as error:
            raise self._stop(error) from error
        if host is not None:  # it counts, and not that of the header
            self.headers[:] = [each for each in self.headers if each[0] != b"host"]
            self.headers.append((b"host", host))

    @property
    def _method(self) -> str:
        """Of the head that is being read; the parser has one before it has read any."""
        return self.parser.get_method().decode("ascii") if self.url else _NOT_READ

    def on_body(self, body: bytes) -> None:
        self._num_framing_bytes -= len(body)
        self._num_body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():  # else the body is still to come: see _ignore_upgrade
            super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Refuse here if possible: without a task, at a third of the cost. Not under backpressure, so that a client
        that does not read cannot make refusals pile up."""
        outlet = _Outlet(self.transport.write, self.transport.is_closing, self._end)
        cycle.transport = cast("asyncio.Transport", outlet)
        scope = cast("Scope", cycle.scope)
        refusal = None if self.flow.write_paused else self._admission.refusal(scope)
        if refusal is not None:
            self._refuse(cycle, refusal)
        else:
            if scope["http_version"] == HTTP_1_0:
                cycle.waiting_for_100_continue = False  # it knows no such answer
                app = without_chunks(app, cycle)
            offer_chunks(cycle)
            super()._start_asgi_task(cycle, app)

    def _refuse(self, cycle: RequestResponseCycle, refusal: Refusal) -> None:
        """Write the refusal. The rest of the body is discarded as it arrives."""
        is_last = not cycle.keep_alive or _CLOSE in refusal.headers
        self._write_whole(refusal, is_last, has_body=cycle.scope["method"] != "HEAD")
        self._has_refused = True
        cycle.response_started = cycle.response_complete = True
        cycle.keep_alive = not is_last
        if is_last:
            self._end()
        self.on_response_complete()

    # --- closing ----------------------------------------------------------------------------------

    def stop_reading(self) -> None:
        """The server shuts down: refuse a request whose body is not complete."""
        cycle = self.cycle
        if cycle is not None and cycle.more_body and not cycle.response_complete:
            self._refuse_malformed(Unavailable("The server is shutting down."))

    def _stop(self, wrong: SegueError) -> SegueError:
        """Keep the error for data_received, which answers with it; raised in a callback, it ends the parsing."""
        self._wrong = wrong
        return wrong

    def _refuse_malformed(self, wrong: SegueError) -> None:
        """Stop reading. A running answer is finished; otherwise the error is sent, and the connection closes."""
        self._ignores_input = True
        if self._is_lingering or self.transport.is_closing():
            return  # a request before this one was the last to be answered
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            cycle.keep_alive = False
            return
        log.debug("a connection was refused: %s", wrong.message)
        is_answered = cycle is None or cycle.response_complete
        if not self._is_head_complete or not (is_answered or cycle.response_started):
            scope = cast("Scope", cycle.scope) if self._is_head_complete else self._part_of_scope()
            refusal = self._admission.broken_off(scope, wrong)
            self._write_whole(refusal, True, has_body=scope["method"] != "HEAD")
        if cycle is not None:
            cycle.disconnected = True
            cycle.waiting_for_100_continue = False  # its task may not have begun to read
            cycle.message_event.set()
        self._end()

    def _part_of_scope(self) -> Scope:
        """Of a request whose head is not whole: as much as was read."""
        if self.scope is None:  # nothing but empty lines
            return {"type": "http", "method": _NOT_READ, "path": _NOT_READ, "headers": []}
        path = self.url.partition(b"?")[0].decode("latin-1")
        return {**self.scope, "method": self._method, "path": path or _NOT_READ}

    def _write_whole(self, refusal: Refusal, is_last: bool, has_body: bool) -> None:
        status, headers, body = refusal
        if is_last and _CLOSE not in headers:
            headers = [*headers, _CLOSE]
        every = (*self.server_state.default_headers, *headers)
        lines = [b"%b: %b\r\n" % header for header in every]
        whole = (STATUS_LINE[status], *lines, b"\r\n", body if has_body else b"")
        self.transport.write(b"".join(whole))

    def _end(self) -> None:
        """Close after what is written (lingering close). If the client is still sending, keep the socket open for a
        moment: a close would answer its next byte with a reset, and its system would discard the answer."""
        cycle = self.cycle
        if not self._ignores_input and (cycle is None or not cycle.more_body):
            self._close()
        elif not (self._is_lingering or self.transport.is_closing()):
            self._ignores_input = self._is_lingering = True
            self.flow.resume_reading()
            with contextlib.suppress(OSError, RuntimeError, NotImplementedError):
                self.transport.write_eof()
            self._set_alarm("linger", LINGER_S, self._close)

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
            self._watch_reader()

    def _num_unread(self) -> int:
        """Bytes that the client has not taken; 0 if the system has them all."""
        num_here = self.transport.get_write_buffer_size()
        return num_here + num_in_system(self.transport) if num_here else 0

    def _drop_stalled_reader(self) -> None:
        """Abort, not close: close would wait until the client has read the buffer."""
        log.info("a client read nothing for %.0f s: dropped", self._write_timeout_s)
        self.transport.abort()

    def _set_alarm(self, name: str, delay_s: float, ring: Callable[[], None]) -> None:
        def alarm() -> None:
            self._alarms.pop(name, None)
            ring()

        self._clear_alarm(name)
        self._alarms[name] = self.loop.call_later(delay_s, alarm)

    def _clear_alarm(self, name: str) -> None:
        if alarm := self._alarms.pop(name, None):
            alarm.cancel()


def _too_large() -> HeadTooLarge:
    return HeadTooLarge(f"Headers must be at most {MAX_HEADERS}, of {MAX_HEAD_BYTES} bytes.")


def _watch_peer(transport: asyncio.Transport) -> None:
    sock = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
