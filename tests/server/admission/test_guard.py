import asyncio
import contextlib
import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from starlette.types import Message

from segue.dialects.base import Companion, Reply, Service
from segue.dialects.openai import OPENAI
from segue.dialects.vllm import VLLM
from segue.server.admission.keys import Keyring, parse_key
from segue.server.admission.limits import Limits
from segue.server.admission.policy import Policy
from segue.server.app import create_app
from segue.types import Prompted
from tests.server.admission.test_admission import scope_of
from tests.server.conftest import TWO_WORDS, Launch, Live, access_lines
from tests.support.fakes import OneModel, Pause, ScriptedEngine, speak
from tests.support.waiting import PATIENCE_S, wait_until

JSON = {"content-type": "application/json"}


def test_body_limit_by_its_announced_length(launch: Launch) -> None:
    """Refused from the headers alone: the body is never sent."""
    live = launch(max_body_bytes=100)
    with live.connect() as connection:
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 101\r\n\r\n"
        )
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"code":"body_too_large"' in answer


def test_body_limit_while_reading(launch: Launch) -> None:
    live = launch(max_body_bytes=100)
    chunks = iter([b'{"prompt":"', b"a" * 60, b"b" * 60, b'"}'])
    answer = live.client.post("/v1/completions", content=chunks, headers=JSON)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "body_too_large"
    assert live.complete().status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "application/json"}, 200),
        ({"content-type": "Application/JSON; charset=utf-8"}, 200),
        ({}, 200),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        (JSON | {"content-encoding": "gzip"}, 415),
        (JSON | {"content-encoding": "identity"}, 200),
    ],
)
def test_media(live: Live, headers: dict[str, str], status: int) -> None:
    """A page of another origin can post text or forms unasked; it must not reach the engine."""
    answer = live.client.post("/v1/completions", content=b'{"prompt":"a"}', headers=headers)
    assert answer.status_code == status
    assert len(live.engine.requests) == (status == 200)
    if status != 200:
        assert answer.json()["error"]["code"] == "unsupported_media_type"


def test_what_every_answer_carries(live: Live) -> None:
    for answer in (live.complete(), live.client.get("/nothing"), live.complete(n=0)):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-request-id"]
        assert "content-security-policy" not in answer.headers


def test_pages_may_load_nothing_from_elsewhere(launch: Launch) -> None:
    async def page(service: Service, _: Mapping[str, Any]) -> Reply:
        return Reply("<p>", headers=(("content-type", "text/html"),))

    paged = replace(OPENAI, companions=(Companion("GET", "/page", "A page.", page),))
    answer = launch(dialects=[paged]).client.get("/page")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"


def test_a_body_that_does_not_come_is_given_up(launch: Launch) -> None:
    live = launch(body_timeout_s=0.2)
    with live.connect() as connection:
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{"
        )
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"body_timeout"' in answer


def test_a_full_queue_refuses_before_it_reads(launch: Launch) -> None:
    """A megabyte is announced and never sent; the refusal comes all the same, and at once."""
    pause = Pause()
    live = launch(lambda r: [pause, *speak("a")(r)], limits=Limits(max_queue=1))
    waiting = threading.Thread(target=live.complete)
    waiting.start()
    assert live.engine.started.wait(PATIENCE_S)
    with live.connect() as connection:
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n"
        )
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert b"retry-after: 1\r\n" in answer
    assert live.client.get("/readyz").status_code == 503
    assert live.client.get("/livez").status_code == 200
    live.release(pause)
    waiting.join(PATIENCE_S)


def test_a_request_that_has_its_first_token_waits_no_more(launch: Launch) -> None:
    pause = Pause()
    live = launch(lambda _: [Prompted(0, (1,), 0), pause], limits=Limits(max_queue=1))
    first = live.client.stream("POST", "/v1/completions", json={"prompt": "a", "stream": True})
    with first as answer:
        assert answer.status_code == 200
        live.engine.script = speak("b")
        assert live.complete().status_code == 200


def test_rate_headers_on_answers_and_refusals(launch: Launch) -> None:
    live = launch(limits=Limits(requests_per_minute=1, tokens_per_minute=1000))
    live.admission.limiter.clock = lambda: 0.0  # or tokens would come back between two moments
    served, refused = live.complete(), live.complete()
    assert (served.status_code, refused.status_code) == (200, 429)
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert 0 < int(refused.headers["retry-after"]) <= 60
    for answer in (served, refused):
        assert answer.headers["x-ratelimit-limit-requests"] == "1"
        assert answer.headers["x-ratelimit-remaining-requests"] == "0"
    assert served.headers["x-ratelimit-remaining-tokens"] == "996"


def stalled(live: Live, stack: contextlib.ExitStack, path: str, key: str = "") -> None:
    """A request all but the last byte of whose body has been sent."""
    lines = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\nx-api-key: {key}\r\n\r\n"
    connection = live.connect()
    stack.enter_context(connection).sendall(lines.encode() + b" " * 99)


KEYS = [parse_key(f"{name}:secret-of-{name}") for name in "abcdef"]


def test_one_keys_large_bodies_are_its_own_trouble(launch: Launch) -> None:
    """Each key has a share of what is held for bodies; all of them together have the whole, and readiness says so."""
    live = launch(max_body_bytes=100, keys=Keyring(KEYS))

    def status(name: str) -> int:
        live.client.headers["x-api-key"] = f"secret-of-{name}"
        return live.complete(user="enough to be one too many").status_code

    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stalled(live, stack, "/v1/completions", "secret-of-a")
        wait_until(lambda: status("a") == 429)
        assert status("b") == 200
        assert live.client.get("/readyz").json() == {"status": "ready"}
        for key in "bcd" * 4:
            stalled(live, stack, "/v1/completions", f"secret-of-{key}")
        wait_until(lambda: live.client.get("/readyz").json() == {"status": "full"})
        assert status("e") == 503
    wait_until(lambda: status("a") == 200)
    wait_until(lambda: live.client.get("/readyz").status_code == 200)


def test_without_keys_an_address_has_a_share_of_the_bodies(launch: Launch) -> None:
    live = launch(max_body_bytes=100)
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stalled(live, stack, "/v1/completions")
        wait_until(lambda: live.complete(user="one too many").status_code == 429)
    wait_until(lambda: live.complete().status_code == 200)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/health", "/vllm/ping"])
def test_public_paths_read_no_body(launch: Launch, path: str) -> None:
    """A stranger's bodies take nothing from those who have a key."""
    live = launch(max_body_bytes=100, keys=Keyring(KEYS), dialects=(OPENAI, VLLM))
    live.client.headers["x-api-key"] = "secret-of-a"
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stalled(live, stack, path)
        assert live.complete(user="there is room for all of this").status_code == 200
        assert live.client.get("/readyz").json() == {"status": "ready"}
        with live.connect() as client:
            client.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n".encode())
            assert int(client.recv(65536).split()[1]) in (200, 405)  # though no body has come


@pytest.mark.parametrize(
    ("body", "status"),
    [(b'{"prompt":"a"}', 200), (b'{"prompt":"a","stream":true}', 200), (b'{"prompt":3.5}', 400)],
)
def test_who_has_read_the_end_may_ask_again(
    caplog: pytest.LogCaptureFixture, body: bytes, status: int
) -> None:
    """Before the last write the place is free, and the answer is logged and counted."""
    caplog.set_level(logging.INFO)
    models = OneModel()
    models.load(ScriptedEngine(TWO_WORDS))
    app = create_app(models, [OPENAI], policy=Policy(limits=Limits(max_concurrent=1)))
    limiter = app.state.admission.limiter
    seen: list[str] = []

    async def ask() -> None:
        arriving = [{"type": "http.request", "body": body}]

        async def receive() -> Message:
            return arriving.pop() if arriving else await asyncio.Future()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body"):
                limiter.check("")  # raises while the request holds its place
                seen.extend(access_lines(caplog, "ours"))

        await app(scope_of("/v1/completions", [(b"x-request-id", b"ours")]), receive, send)

    asyncio.run(ask())
    assert [line.split()[3] for line in seen] == [f"{status}"]
    assert access_lines(caplog, "ours") == seen
    limiter.admit("").release()
