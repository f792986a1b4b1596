"""What the head of a request may say of itself: its version, its target, and where its body ends (RFC 9112).

A proxy may read a doubtful head otherwise than this server does, and take one request for two: what is in doubt is
refused.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from segue.errors import MalformedHttp, SegueError, Unsupported, WrongHttpVersion
from segue.server.framing import Header

WHOLE_SERVER = "*"  # the target of OPTIONS that is about no path
HTTP_1_0 = "1.0"
_SPOKEN = (HTTP_1_0, "1.1")
_NOT_READ = "0.0"  # what the parser says before it has read a version
_CHUNKED = "chunked"
_ABSOLUTE = re.compile(rb"https?://([^/?]++)(.*)", re.IGNORECASE | re.DOTALL)


class Target(NamedTuple):
    """A path with its query, and the host that stands before it, if one does."""

    path: bytes
    host: bytes | None = None


def wrong_version(version: str) -> WrongHttpVersion | None:
    if version in (*_SPOKEN, _NOT_READ):
        return None
    return WrongHttpVersion(f"HTTP/1.1 and HTTP/1.0 are spoken here, not HTTP/{version}.")


def target_of(method: str, url: bytes) -> Target:
    """The path that the request line names. Raises MalformedHttp."""
    if method == "CONNECT":
        raise MalformedHttp("CONNECT is for proxies.")
    if url.startswith(b"/") or (method == "OPTIONS" and url == WHOLE_SERVER.encode()):
        return Target(url)
    found = _ABSOLUTE.fullmatch(url)
    if found is None or b"@" in found[1]:
        raise MalformedHttp("The target must be a path, or a URL of http with a host.")
    host, path = found.groups()
    return Target(path if path.startswith(b"/") else b"/" + path, host)


def wrong_coding(version: str, headers: Iterable[Header]) -> SegueError | None:
    """What is wrong with the transfer coding. A body must be chunked, and nothing else, or have a length."""
    lines = [value for name, value in headers if name == b"transfer-encoding"]
    if not lines:
        return None
    *others, last = [each.strip() for each in b",".join(lines).decode("latin-1").lower().split(",")]
    if version == HTTP_1_0:
        return MalformedHttp("HTTP/1.0 has no Transfer-Encoding.")
    if last != _CHUNKED or _CHUNKED in others or "" in others:
        return MalformedHttp("Transfer-Encoding must end in chunked, and name it once.")
    if others:
        return Unsupported("Transfer-Encoding: bodies can be chunked here, and nothing else.")
    return None
