"""Heads that are in doubt are refused: by what they say, and at the socket."""

import re
from typing import Any

import pytest

from segue.errors import MalformedHttp, SegueError, Unsupported
from segue.server.admission.hosts import Hosts
from segue.server.admission.keys import Keyring, parse_key
from segue.server.transport.heads import Target, target_of, wrong_coding, wrong_version
from tests.server.conftest import Launch, Live, exchange, status

BODY = b'{"prompt":"a"}'


@pytest.mark.parametrize(
    ("version", "is_spoken"),
    [("1.0", True), ("1.1", True), ("0.9", False), ("1.2", False), ("2.0", False)],
)
def test_versions(version: str, is_spoken: bool) -> None:
    wrong = wrong_version(version)
    assert (wrong is None) is is_spoken
    assert wrong is None or f"not HTTP/{version}" in wrong.message


@pytest.mark.parametrize(
    ("method", "url", "target"),
    [
        ("GET", b"/a?b", Target(b"/a?b")),
        ("GET", b"//a/b", Target(b"//a/b")),
        ("GET", b"/http://x", Target(b"/http://x")),
        ("GET", b"http://x", Target(b"/", b"x")),
        ("GET", b"HTTPS://x:80/a", Target(b"/a", b"x:80")),
        ("GET", b"http://[::1]:8?a=/b", Target(b"/?a=/b", b"[::1]:8")),
        ("OPTIONS", b"*", Target(b"*")),
    ],
)
def test_targets(method: str, url: bytes, target: Target) -> None:
    assert target_of(method, url) == target


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", b"*"),
        ("GET", b"ftp://x/a"),
        ("GET", b"http:///a"),
        ("GET", b"http://ada:secret@x/a"),
        ("CONNECT", b"http://x"),
        ("CONNECT", b"x:443"),
    ],
)
def test_what_is_no_target(method: str, url: bytes) -> None:
    with pytest.raises(MalformedHttp):
        target_of(method, url)


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([], None),
        ([b"chunked"], None),
        ([b"CHUNKED "], None),
        ([b"gzip, chunked"], Unsupported),
        ([b"gzip", b"chunked"], Unsupported),
        ([b"identity, chunked"], Unsupported),
        ([b"gzip"], MalformedHttp),
        ([b"chunked, gzip"], MalformedHttp),
        ([b"chunked", b"chunked"], MalformedHttp),
        ([b"chunked;q=1"], MalformedHttp),
        ([b", chunked"], MalformedHttp),
        ([b"\x0bchunked, chunked"], MalformedHttp),
    ],
)
def test_codings(lines: list[bytes], kind: type[SegueError] | None) -> None:
    wrong = wrong_coding(
        "1.1", [(b"host", b"x"), *((b"transfer-encoding", each) for each in lines)]
    )
    assert type(wrong) is (kind or type(None))


def test_http_1_0_has_no_coding() -> None:
    assert wrong_coding("1.0", []) is None
    assert type(wrong_coding("1.0", [(b"transfer-encoding", b"chunked")])) is MalformedHttp


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"GET /livez\r\n\r\n", 505),
        (b"GET /livez HTTP/0.9\r\nhost: x\r\n\r\n", 505),
        (b"GET /livez HTTP/2.0\r\nhost: x\r\n\r\n", 505),
        (b"GET /livez HTTP/9.9\r\nhost: x\r\n\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked", 501),
        (b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip", 400),
        (b"POST /v1/completions HTTP/1.0\r\ntransfer-encoding: chunked", 400),
    ],
)
def test_doubtful_heads_are_refused(live: Live, sent: bytes, code: int) -> None:
    """They were answered as HTTP/1.1, and bodies in codings that nobody had undone were read as they came."""
    if b"transfer-encoding" in sent:
        sent += b"\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    answer = exchange(live, sent)
    assert status(answer) == code
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.count(b"\r\ndate: ") == 1


def test_a_url_without_a_path_means_the_root(live: Live) -> None:
    """It was no HTTP."""
    root = exchange(live, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").partition(b"\r\n\r\n")[2]
    for url in (b"http://x", b"HTTP://x:80?a=b"):
        answer = exchange(live, b"GET " + url + b" HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (status(answer), answer.partition(b"\r\n\r\n")[2]) == (200, root)


def test_the_host_of_the_url_counts(launch: Launch) -> None:
    """As RFC 9112 has it: proxies go by that one."""
    live = launch(hosts=Hosts("127.0.0.1"))
    for url, host, code in (("evil", "localhost", 403), ("localhost", "evil", 200)):
        head = f"GET http://{url}/livez HTTP/1.1\r\nhost: {host}\r\n\r\n"
        assert status(exchange(live, head.encode())) == code


@pytest.mark.parametrize("policy", [{}, {"keys": Keyring([parse_key("ada:secret")])}])
def test_the_whole_server_is_asked_for_its_options(launch: Launch, policy: dict[str, Any]) -> None:
    answer = exchange(launch(**policy), b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n")
    assert status(answer) == 200
    allowed = re.search(rb"\r\nallow: (.*)\r\n", answer)
    assert allowed is not None
    assert {b"GET", b"HEAD", b"OPTIONS", b"POST"} <= set(allowed[1].split(b", "))
