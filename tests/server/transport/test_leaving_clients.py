"""Clients that leave while their request runs, and those that have only finished sending."""

import io
import socket
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from typing import cast

import pytest

from segue.server.transport import connection
from segue.types import CompletionRequest, Delta, Event, Prompted
from tests.server.conftest import Launch, reset
from tests.support.fakes import Pause, speak
from tests.support.waiting import PATIENCE_S

GOODBYES: dict[str, Callable[[socket.socket], None]] = {
    "fin": lambda client: client.close(),
    "rst": reset,
}


@pytest.mark.parametrize("goodbye", GOODBYES)
@pytest.mark.parametrize("is_pipelined", [False, True])
@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_leaves_frees_its_request(
    launch: Launch, goodbye: str, is_pipelined: bool, has_begun: bool, streamed: bool
) -> None:
    """Also when a second request was sent behind it, of which uvicorn would lose sight."""
    start: list[Event] = [Prompted(0, (1,), 0), Delta(0, "one", (1,))] if has_begun else []
    live = launch(lambda _: [*start, Pause()])
    body = b'{"prompt":"a","stream":%b}' % (b"true" if streamed else b"false")
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    client = live.connect()
    client.sendall(head + body)
    assert live.engine.started.wait(PATIENCE_S)
    if is_pipelined:
        client.sendall(head + body)
    GOODBYES[goodbye](client)
    assert live.engine.closed.wait(PATIENCE_S)
    client.close()


def test_where_resets_are_not_shown_a_client_that_finished_sending_is_gone(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows: whether it still waits cannot be told there, and nobody should compute for those who left."""
    monkeypatch.setattr(connection, "_SHOWS_RESETS", False)
    live = launch(lambda _: [Pause()])
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 14\r\n\r\n"
    with live.connect() as client:
        client.sendall(head + b'{"prompt":"a"}')
        assert live.engine.started.wait(PATIENCE_S)
        client.shutdown(socket.SHUT_WR)
        assert live.engine.closed.wait(PATIENCE_S)


@pytest.mark.skipif(sys.platform == "win32", reason="resets are not shown")
@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_has_only_finished_sending_gets_its_answer(
    launch: Launch, has_begun: bool, streamed: bool
) -> None:
    """shutdown(SHUT_WR) after the request, which is no farewell."""
    pause = Pause()

    def script(request: CompletionRequest) -> Iterator[Event | Pause | Exception]:
        first, *rest = speak("one", " two")(request)
        yield from ([first, pause, *rest] if has_begun else [pause, first, *rest])

    live = launch(script)
    body = b'{"prompt":"a","stream":%b}' % (b"true" if streamed else b"false")
    with live.connect() as client:
        head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
        client.sendall(head % len(body) + body)
        assert live.engine.started.wait(PATIENCE_S)
        client.shutdown(socket.SHUT_WR)
        # The connection has noticed: it makes sure that somebody is there.
        received = client.recv(65536) if not (streamed and has_begun) else b""
        live.release(pause)
        answer = HTTPResponse(cast("socket.socket", Replay(received, client)))
        answer.begin()
        text = answer.read()
    assert answer.status == 200
    assert b"one" in text
    assert text.endswith(b"[DONE]\n\n" if streamed else b"}")


class Replay:
    """A socket whose first bytes have been read already, as http.client wants one."""

    def __init__(self, received: bytes, client: socket.socket) -> None:
        self._received, self._client = received, client

    def makefile(self, mode: str) -> io.BytesIO:
        while data := self._client.recv(65536):
            self._received += data
        return io.BytesIO(self._received)
