"""Bytes that the parser takes for no request: what they are instead, said to the client and now and then to the log."""

import logging
import math
import time
from collections.abc import Callable

from segue.errors import MalformedHttp, SegueError, TlsSpoken
from segue.server.transport.heads import wrong_version

log = logging.getLogger(__name__)

_TLS = b"\x16\x03"  # how a handshake begins


class LogThrottle:
    """For a line that clients can cause as often as they like: one in so many seconds is enough."""

    def __init__(self, pause_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause_s = pause_s
        self._clock = clock
        self._due_at = -math.inf

    def is_due(self) -> bool:
        now = self._clock()
        if now < self._due_at:
            return False
        self._due_at = now + self._pause_s
        return True


_tls_log = LogThrottle(60.0)


def unreadable(version: str, data: bytes) -> SegueError:
    """`version`: what the parser has read of it. `data`: where it broke off."""
    if _TLS.startswith(data[:2]):
        if _tls_log.is_due():
            log.warning("a client spoke TLS to this port: its URL must begin with http://")
        return TlsSpoken("This port speaks HTTP without TLS: the URL must begin with http://.")
    return wrong_version(version) or MalformedHttp("This is not an HTTP/1.1 request.")
