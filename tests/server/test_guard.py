import socket

import pytest

from tests.server.conftest import Launch, Live

JSON = {"content-type": "application/json"}


def test_body_limit_by_its_announced_length(launch: Launch) -> None:
    """Refused from the headers alone: the body is never sent."""
    live = launch(max_body_bytes=100)
    with socket.create_connection((live.host, live.port), timeout=10) as connection:
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
