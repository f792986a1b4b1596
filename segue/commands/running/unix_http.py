"""HTTP over a Unix socket, for urllib: a server that is named unix:PATH."""

import http.client
import socket
from functools import partial
from typing import Any
from urllib.request import HTTPHandler, Request

from segue import unix_socket

HOST = "http://localhost"  # in the request; the path of the socket is none


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, host: str = "localhost", **rest: Any) -> None:
        super().__init__(host, **rest)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class UnixHandler(HTTPHandler):
    """Sends every request to the server that listens there."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._connection = partial(UnixConnection, path)

    def http_open(self, req: Request) -> http.client.HTTPResponse:
        return self.do_open(lambda host, **rest: self._connection(host, **rest), req)


def socket_in(url: str) -> str | None:
    """The path of the socket that is meant, if the address begins with unix:."""
    return unix_socket.path_of(url) if url.startswith(unix_socket.SCHEME) else None
