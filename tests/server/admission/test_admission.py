"""Refusals at the connection: the same answers as the application's, without a task for each."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.types import Message, Scope

from segue.dialects import DIALECTS
from segue.server.admission.admission import Refusal
from segue.server.admission.cors import Origins
from segue.server.admission.hosts import Hosts
from segue.server.admission.keys import Keyring, parse_key
from segue.server.admission.limits import Limits
from segue.server.admission.policy import Policy
from segue.server.app import create_app
from segue.server.transport import connection
from tests.server.conftest import Launch, Live, access_lines, read_until
from tests.support.fakes import OneModel

POST = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 14\r\n\r\n" + b'{"prompt":"a"}'
NAMED = POST.replace(b"host: x", b"host: x\r\nx-request-id: ours")
PATHS = ["/v1/completions", "/ollama/api/generate", "/llamacpp/completion", "/nowhere"]
HEADS: dict[str, list[tuple[bytes, bytes]]] = {
    "full": [],
    "a name of its own": [(b"x-request-id", b"abc")],
    "too long": [(b"content-length", b"99999999999")],
    "compressed": [(b"content-encoding", b"gzip")],
    "a form of a page": [(b"content-type", b"text/plain"), (b"origin", b"http://friend")],
    "an allowed page": [(b"origin", b"http://friend")],
    "a foreign page": [(b"origin", b"http://evil")],
    "a foreign host": [(b"host", b"evil")],
    "no key": [(b"x-api-key", b"")],
    "a wrong key": [(b"x-api-key", b"wrong")],
}


def scope_of(path: str, headers: list[tuple[bytes, bytes]], method: str = "POST") -> Scope:
    given = {b"host": b"localhost", b"x-api-key": b"secret", **dict(headers)}
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "http_version": "1.1",
        "headers": [(name, value) for name, value in given.items() if value],
        "state": {},
    }


def full_app() -> Any:
    policy = Policy(
        keys=Keyring([parse_key("ada:secret")]),
        hosts=Hosts("127.0.0.1"),
        origins=Origins(["http://friend"]),
        limits=Limits(max_queue=1, requests_per_minute=100, tokens_per_minute=1000),
    )
    app = create_app(OneModel(), DIALECTS, policy=policy)
    app.state.admission.limiter.clock = lambda: 0.0
    return app


async def asked(app: Any, scope: Scope) -> Refusal:
    said: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}"}

    async def send(message: Message) -> None:
        said.append(message)

    await app(scope, receive, send)
    start, *rest = said
    return Refusal(start["status"], start["headers"], b"".join(each["body"] for each in rest))


def comparable(refusal: Refusal) -> Refusal:
    """Without what is drawn anew for each request."""
    headers = [
        (name, value)
        for name, value in refusal.headers
        if value == b"abc" or name != b"x-request-id"
    ]
    return refusal._replace(headers=headers)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("head", HEADS)
def test_the_answer_is_the_applications(path: str, head: str) -> None:
    """Byte by byte, whoever refuses: in every dialect's shape, with rates, origins and advice to wait."""
    at_the_door, inside = full_app(), full_app()
    for app in (at_the_door, inside):
        app.state.admission.limiter.admit("ada")
    refusal = at_the_door.state.admission.refusal(scope_of(path, HEADS[head]))
    assert refusal is not None
    answer = asyncio.run(asked(inside, scope_of(path, HEADS[head])))
    assert comparable(refusal) == comparable(answer)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/health"), ("GET", "/v1/models"), ("OPTIONS", "/v1/completions")]
)
def test_what_takes_no_place_is_let_in_when_the_queue_is_full(method: str, path: str) -> None:
    app = full_app()
    app.state.admission.limiter.admit("ada")
    assert app.state.admission.refusal(scope_of(path, [], method)) is None


def test_a_request_is_examined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the connection, and not by the guard again: what comes after the head cannot change what was found."""
    app = full_app()
    scope = scope_of("/version", [], "GET")
    assert app.state.admission.refusal(scope) is None
    monkeypatch.setattr(Keyring, "check", lambda *_: pytest.fail("examined twice"))
    assert asyncio.run(asked(app, scope)).status == 200


def test_who_may_come_in_is_let_in() -> None:
    assert full_app().state.admission.refusal(scope_of(PATHS[0], [])) is None


@contextmanager
def full(launch: Launch) -> Iterator[tuple[Live, socket.socket]]:
    """A server whose queue is full, and a connection to it."""
    live = launch(limits=Limits(max_queue=1))
    permit = live.admission.limiter.admit("")
    with live.connect() as client:
        yield live, client
    permit.release()


def test_a_connection_is_kept_and_its_body_passed_over(
    launch: Launch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with full(launch) as (live, client):
        for _ in range(3):
            client.sendall(NAMED[:-10])
            answer = read_until(client, b"rate_limit_exceeded")
            assert answer.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
            client.sendall(NAMED[-10:])
        assert live.engine.requests == []
        assert [line.split()[3] for line in access_lines(caplog, "ours")] == ["429"] * 3
        assert 'segue_answers_total{status="429"} 3.0' in live.client.get("/metrics").text
    assert live.complete().status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        POST.replace(b"HTTP/1.1", b"HTTP/1.0"),
        POST.replace(b"host: x", b"host: x\r\nconnection: close"),
    ],
)
def test_a_connection_is_closed_if_the_client_wants(launch: Launch, sent: bytes) -> None:
    with full(launch) as (_, client):
        client.sendall(sent)
        answer = client.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert answer.count(b"connection: close\r\n") == 1


def test_a_thousand_requests_in_one_piece_are_not_all_answered(launch: Launch) -> None:
    """They would hold up everybody: one is, and the connection closes."""
    with full(launch) as (_, client):
        client.sendall(POST * 100)
        received = b""
        try:
            while data := client.recv(65536):
                received += data
        except ConnectionError:
            pass  # what was not read resets the connection
    assert received.count(b"HTTP/1.1 429 ") <= 2


def send_again_and_again(client: socket.socket, data: bytes, times: int) -> None:
    for _ in range(times):
        client.sendall(data)


def test_who_does_not_read_his_refusals_is_not_sent_more_and_more(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He is dropped, long before the millionth. The systems' buffers, of 40 MB and more, count as sent."""
    monkeypatch.setattr(connection, "MAX_LINGER_BYTES", 1 << 20)
    live = launch(limits=Limits(max_queue=1), write_timeout_s=0.5)
    live.admission.limiter.admit("")
    with live.connect(num_unread=4096) as client, pytest.raises(ConnectionError):
        send_again_and_again(client, POST * 1_000, 5_000)
    assert live.client.get("/livez").status_code == 200
