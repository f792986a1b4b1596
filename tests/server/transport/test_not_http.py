"""What is spoken to the port instead of HTTP/1."""

import logging

import pytest

from segue.errors import MalformedHttp, SegueError, TlsSpoken, WrongHttpVersion
from segue.server.transport import not_http
from segue.server.transport.not_http import LogThrottle
from tests.server.conftest import Live, exchange, status

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@pytest.mark.parametrize(
    ("version", "data", "error"),
    [
        ("0.0", HELLO, TlsSpoken),
        ("0.0", HELLO[:1], TlsSpoken),
        ("0.0", b"\x16x", MalformedHttp),
        ("0.0", b"SSH-2.0-OpenSSH_9\r\n", MalformedHttp),
        ("2.0", b"PRI * HTTP/2.0\r\n", WrongHttpVersion),
    ],
)
def test_what_it_is_instead(version: str, data: bytes, error: type[SegueError]) -> None:
    assert type(not_http.unreadable(version, data)) is error


def test_tls_is_named_to_the_client_and_in_one_line_of_the_log(
    live: Live, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(not_http, "_tls_log", LogThrottle(60.0, lambda: 0.0))
    answers = [exchange(live, HELLO) for _ in range(3)]
    assert {status(each) for each in answers} == {400}
    assert all(b"must begin with http://" in each for each in answers)
    told = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(told) == 1
    assert "spoke TLS" in told[0]


def test_a_line_that_clients_can_cause_is_written_once_in_a_while() -> None:
    times = iter([0.0, 1.0, 59.9, 60.0, 119.0, 500.0])
    throttle = LogThrottle(60.0, lambda: next(times))
    assert [throttle.is_due() for _ in range(6)] == [True, False, False, True, False, True]
