import pytest

from segue.dialects.base import Reply
from segue.errors import BodyTooLarge, Overloaded, UnknownPath
from segue.server.framing import FRAMES, error_headers, reply_messages


def test_server_sent_events() -> None:
    frame = FRAMES["sse"]
    assert frame.wrap([{"a": "é\n"}], False) == ['data: {"a":"é\\n"}\n\n'.encode()]
    assert frame.wrap([1, 2], True) == [b"data: 1\n\ndata: 2\n\ndata: [DONE]\n\n"]
    assert frame.wrap([], False) == []
    assert FRAMES["sse_open"].wrap([1], True) == [b"data: 1\n\n"]


def test_ndjson_is_one_object_a_write() -> None:
    """Some readers parse what one read returns: two objects in it stall them for good."""
    assert FRAMES["ndjson"].wrap([{}, {}], False) == [b"{}\n", b"{}\n"]
    assert FRAMES["ndjson"].wrap([{}], True) == [b"{}\n", b""]


def test_comments_where_the_format_has_them() -> None:
    assert FRAMES["sse"].note("ping") == FRAMES["sse_open"].note("ping") == [b": ping\n\n"]
    assert FRAMES["ndjson"].note("ping") == []


def test_whole_replies() -> None:
    start, body = reply_messages(Reply({"a": [1]}, 201, (("x-y", "z"),)), [(b"k", b"v")])
    assert start["status"] == 201
    assert start["headers"] == [
        (b"content-type", b"application/json"),
        (b"x-y", b"z"),
        (b"content-length", b"9"),
        (b"k", b"v"),
    ]
    assert body["body"] == b'{"a":[1]}'
    start, body = reply_messages(Reply("it is ü\n"))
    assert start["headers"][0] == (b"content-type", b"text/plain; charset=utf-8")
    assert body["body"] == "it is ü\n".encode()
    start, _ = reply_messages(Reply("<p>", headers=(("content-type", "text/html"),)))
    assert start["headers"] == [(b"content-type", b"text/html"), (b"content-length", b"3")]
    start, _ = reply_messages(Reply("", 204))
    assert b"content-length" not in dict(start["headers"])


@pytest.mark.parametrize(
    ("seconds", "whole", "milliseconds"),
    [(0, b"1", b"1"), (1.5, b"2", b"1500"), (3, b"3", b"3000")],
)
def test_retry_headers(seconds: float, whole: bytes, milliseconds: bytes) -> None:
    headers = dict(error_headers(Overloaded("later", retry_after_s=seconds)))
    assert headers == {b"retry-after": whole, b"retry-after-ms": milliseconds}


def test_connection_closes_only_over_an_unread_body() -> None:
    assert error_headers(UnknownPath("x")) == []
    assert error_headers(BodyTooLarge("x")) == [(b"connection", b"close")]
