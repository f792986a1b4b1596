"""Raw bytes at the socket: whatever comes, the answer is a 4xx or the end, soon, and the server goes on."""

import contextlib
import gc
import logging
import socket
import threading
import weakref
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segue.dialects import DIALECTS
from segue.server.admission.hosts import Hosts
from segue.server.admission.keys import Keyring, parse_key
from segue.server.transport import connection
from segue.types import Delta, Event, Prompted
from tests.server.conftest import Launch, Live, exchange, read_until, reset, status
from tests.support.fakes import Pause, speak
from tests.support.waiting import PATIENCE_S, wait_until

BODY = b'{"prompt":"a","stream":true}'
POST = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)
GET = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS handshake
        b"GARBAGE\r\n\r\n",
        b"GET @evil HTTP/1.1\r\nhost: x\r\n\r\n",
        b"CONNECT evil:443 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET * HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\na\x00b: c\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
    ],
)
def test_malformed_requests(live: Live, sent: bytes) -> None:
    answer = exchange(live, sent)
    assert 400 <= status(answer) < 500
    assert live.complete().status_code == 200


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"x" * 2_000_000, 431),  # never ends
        (
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
            b"1\r\n{\r\n0\r\n" + b"trailer: x\r\n" * 10_000,
            431,
        ),
        (
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1;"
            + b"x" * 2_000_000,
            431,
        ),
    ],
)
def test_heads_are_bounded(live: Live, sent: bytes, code: int) -> None:
    answer = exchange(live, sent)
    # What was sent beyond the bound may reset the connection before the answer is read.
    assert not answer or status(answer) == code
    if answer:
        assert b'{"error":{' in answer
    assert live.complete().status_code == 200


def test_a_body_that_breaks_after_its_refusal_has_no_second_answer(launch: Launch) -> None:
    live = launch(keys=Keyring([parse_key("ada:secret")]))
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    with live.connect() as client:
        client.sendall(head + b"ZZ\r\n")
        answer = client.makefile("rb").read()
    assert status(answer) == 401
    assert answer.count(b"HTTP/1.1 ") == 1


def test_ordinary_oddities_are_served(live: Live) -> None:
    for sent in (
        b"\r\n\r\n" + GET,
        b"GET http://evil/livez HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /livez HTTP/1.0\r\n\r\n",
        GET.replace(b"\r\n\r\n", b"\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n"),
        GET.replace(b"\r\n\r\n", b"\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"),
    ):
        assert status(exchange(live, sent)) == 200


def is_cut_off(client: socket.socket, sent: bytes) -> bool:
    """Without an answer. Where its time was up before this was sent, the client is told by a reset."""
    with contextlib.suppress(ConnectionError):
        client.sendall(sent)
        return client.recv(100) == b""
    return True


def test_a_head_that_trickles_is_cut_off(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slowloris: nothing is answered, nothing is kept."""
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.3)
    live = launch(max_body_bytes=1000)
    for part in (b"", b"GET / HTTP/1.1\r\nho", b"\r\n"):
        with live.connect() as client:
            assert is_cut_off(client, part)


def test_the_clock_runs_for_every_head_of_a_connection(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = launch(max_body_bytes=1000)
    with live.connect() as client:
        client.sendall(GET)
        assert read_until(client, b"alive").startswith(b"HTTP/1.1 200")
        monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.3)
        assert is_cut_off(client, b"GET / HT")


def test_pipelined_requests_are_not_run(live: Live) -> None:
    """One at a time: the first is answered in full, then the connection closes."""
    answer = exchange(live, GET + GET + GET)
    assert answer.count(b"HTTP/1.1 200") == 1
    assert b"connection: close" in answer


def test_garbage_behind_a_running_request_does_not_spoil_its_answer(launch: Launch) -> None:
    pause = Pause()

    def script(request: object) -> Iterator[Event | Pause | Exception]:
        yield from (Prompted(0, (1,), 0), Delta(0, "one", (1,)), pause)
        yield from list(speak("a")(live.engine.requests[0]))[1:]

    live = launch(script)
    with live.connect() as client:
        client.sendall(POST)
        received = client.recv(65536)
        (ours,) = connections_of(client)
        client.sendall(b"\x00\xff garbage \r\n\r\n" + GET)
        wait_until(lambda: ignores_input(ours))
        live.release(pause)
        while data := client.recv(65536):
            received += data
    assert received.count(b"HTTP/1.1") == 1
    assert received.rstrip(b"\r\n0").endswith(b"[DONE]")


def test_a_reset_after_the_answer_leaves_nothing(launch: Launch) -> None:
    """uvicorn's timer for idle connections would hold on to it for two minutes."""
    live = launch(max_body_bytes=1000)
    with live.connect() as client:
        client.sendall(GET)
        assert read_until(client, b"alive").startswith(b"HTTP/1.1 200")
        (kept,) = connections_of(client)
        reset(client)
    wait_until(lambda: gc.collect() is not None and kept() is None)


def ignores_input(kept: "weakref.ref[connection.Connection]") -> bool:
    found = kept()
    return found is None or found._ignores_input


def connections_of(client: socket.socket) -> list["weakref.ref[connection.Connection]"]:
    """Both ends, as a client's port comes again, and one of a server that stopped may linger."""
    ends = (client.getsockname(), client.getpeername())
    every = [each for each in gc.get_objects() if type(each) is connection.Connection]
    return [weakref.ref(each) for each in every if (each.client, each.server) == ends]


def test_a_client_that_stops_reading_is_dropped(launch: Launch) -> None:
    """Its request ends in the engine, and others never notice."""
    much = [Delta(0, "x" * 10_000, (1,))] * 2000
    live = launch(lambda _: [Prompted(0, (1,), 0), *much, Pause()], write_timeout_s=0.3)
    live.shrink_send_buffers()
    with live.connect(num_unread=4096) as client:
        client.sendall(POST)
        assert client.recv(100)
        assert live.engine.closed.wait(PATIENCE_S)
        live.engine.script = speak("other")
        assert live.complete().status_code == 200


UPGRADE = (
    b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAAAAIAAAAB\r\n"
)
SMUGGLED = b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("body", [b'{"prompt":"ab"}', SMUGGLED])
def test_an_upgrade_is_ignored_and_its_body_read(live: Live, body: bytes, is_chunked: bool) -> None:
    """However the body comes, it is this request's body and never another request."""
    length = b"transfer-encoding: chunked" if is_chunked else b"content-length: %d" % len(body)
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\n" + UPGRADE + length + b"\r\n\r\n"
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body
    for cut in (0, 1, len(sent) // 2, len(sent)):
        with live.connect() as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for part in (head + sent[:cut], sent[cut:]):
                client.sendall(part)
            received = client.recv(65536)
            # The connection is in step: a second request is understood.
            client.sendall(GET)
            received += read_until(client, b"alive")
        assert status(received) == (400 if body == SMUGGLED else 200)
        assert received.count(b"HTTP/1.1 ") == 2
        assert b"not_found" not in received


def test_trailers_are_not_headers(launch: Launch) -> None:
    """Neither a key nor a Host is taken from behind the body."""
    live = launch(keys=Keyring([parse_key("ada:secret")]), hosts=Hosts("127.0.0.1"))
    chunks = b"e\r\n" + b'{"prompt":"a"}' + b"\r\n0\r\n"
    head = b"POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n"
    key, host = b"x-api-key: secret\r\n", b"host: localhost\r\n"
    assert status(exchange(live, head + host + key + b"\r\n" + chunks + b"\r\n")) == 200
    assert status(exchange(live, head + host + b"\r\n" + chunks + key + b"\r\n")) == 401
    assert status(exchange(live, head + key + b"\r\n" + chunks + host + b"\r\n")) == 400


@pytest.mark.parametrize("streamed", [False, True])
def test_http_1_0_gets_no_chunks(live: Live, streamed: bool) -> None:
    """Its answer ends with the connection."""
    body = b'{"prompt":"a","stream":%b}' % (b"true" if streamed else b"false")
    head = b"POST /v1/completions HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % len(body)
    with live.connect() as client:
        client.sendall(head + body)
        answer = client.makefile("rb").read()
    assert status(answer) == 200
    head, _, text = answer.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert text.startswith(b"data: {" if streamed else b"{")
    assert text.endswith(b"data: [DONE]\n\n" if streamed else b"}")


def test_http_1_0_is_not_told_to_continue(live: Live) -> None:
    """It takes the first head for that of its answer."""
    head = b"POST /v1/completions HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 14\r\n\r\n"
    assert status(exchange(live, head + b'{"prompt":"a"}')) == 200


CHUNKED = b"host: x\r\ntransfer-encoding: chunked\r\n"


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_body_that_is_broken_at_once_is_not_asked_for(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    """The refusal is written before the request's task begins; a 100 behind it failed, with two tracebacks."""
    sent = b"POST /v1/completions HTTP/1.1\r\nexpect: 100-continue\r\n" + CHUNKED + b"\r\nZZ\r\n"
    answer = exchange(live, sent)
    assert status(answer) == 400
    assert b"100 Continue" not in answer
    wait_until(lambda: not live.num_running)
    assert not errors(caplog)


@pytest.mark.parametrize("more", [GET, b"\x00 garbage"])
@pytest.mark.parametrize(
    ("rest", "code"),
    [
        (b"1.1\r\nhost: x\r\ncontent-encoding: gzip", 415),
        (b"1.0\r\nconnection: upgrade\r\nupgrade: h2c\r\nx-api-key: none", 401),
    ],
)
def test_what_follows_the_last_request_is_dropped(
    launch: Launch, caplog: pytest.LogCaptureFixture, rest: bytes, code: int, more: bytes
) -> None:
    """The answer was lost: the connection failed over a second one."""
    live = launch(keys=Keyring([parse_key("ada:secret")]))
    key = b"" if b"x-api-key" in rest else b"\r\nx-api-key: secret"
    refused = b"POST /v1/completions HTTP/" + rest + key + b"\r\ncontent-length: 2\r\n\r\n{}"
    answer = exchange(live, refused + more)
    assert status(answer) == code
    assert answer.count(b"HTTP/1.1 ") == 1
    assert not errors(caplog)


@pytest.mark.parametrize(
    ("path", "shape"),
    [(b"/v1/completions", b'{"error":{"message":'), (b"/ollama/api/generate", b'{"error":"This')],
)
def test_a_body_that_breaks_is_answered_like_any_other(
    launch: Launch, path: bytes, shape: bytes
) -> None:
    live = launch(dialects=DIALECTS)
    head, _, body = exchange(
        live, b"POST " + path + b" HTTP/1.1\r\n" + CHUNKED + b"\r\nZZ\r\n"
    ).partition(b"\r\n\r\n")
    assert status(head) == 400
    assert body.startswith(shape)
    for name in (b"date", b"x-request-id", b"x-content-type-options"):
        assert head.count(b"\r\n%b: " % name) == 1


def test_what_is_no_request_is_answered_with_a_date(live: Live) -> None:
    """As RFC 9110 asks of every answer of a server with a clock."""
    answer = exchange(live, b"GARBAGE\r\n\r\n")
    assert status(answer) == 400
    assert b"\r\ndate: " in answer
    assert b"\r\nconnection: close\r\n" in answer


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_refusal_can_be_read_by_a_client_that_is_still_sending(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, is_chunked: bool
) -> None:
    """It sends all of a large body before it reads, as most do: no reset throws the answer away."""
    monkeypatch.setattr(connection, "LINGER_S", PATIENCE_S)  # however slowly it sends
    live = launch(max_body_bytes=1000)
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\n"
    if is_chunked:
        sent = (
            head
            + b"transfer-encoding: chunked\r\n\r\n"
            + (b"4000\r\n" + b" " * 16384 + b"\r\n") * 512
        )
    else:
        sent = head + b"content-length: 8388608\r\n\r\n" + b" " * (8 << 20)
    with live.connect() as client:
        client.sendall(sent)
        answer = client.makefile("rb").read()
    assert status(answer) == 413
    assert b'"code":"body_too_large"' in answer


PIECES = [
    GET,
    POST,
    BODY,
    b"\r\n",
    b"host: x\r\n",
    b"GET / ",
    b"HTTP/1.1\r\n",
    b"\x00",
    b": ",
    b"transfer-encoding: chunked\r\n",
    b"content-length: 5\r\n",
    b"5\r\nhello\r\n",
]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=300),
        st.lists(
            st.sampled_from(PIECES),
            max_size=8,
        ).map(b"".join),
    )
)
def test_any_bytes_at_all(live: Live, sent: bytes) -> None:
    """No fault of ours, no silence for ever: what is incomplete ends when the client does."""
    answers: list[bytes] = []

    def talk() -> None:
        with live.connect() as client:
            try:
                client.sendall(sent)
                with contextlib.suppress(OSError):  # the server has closed it already
                    client.shutdown(socket.SHUT_WR)
                answers.append(client.recv(1 << 20))
            except ConnectionError:
                answers.append(b"")

    talking = threading.Thread(target=talk)
    talking.start()
    talking.join()
    (answer,) = answers
    assert not answer or status(answer) < 500 or status(answer) == 505
