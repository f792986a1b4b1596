"""The corpus of hostile requests: *.json beside this file, each a list of cases.

    name, source     what it is and the advisory, thread or row it comes from
    body             a JSON object; {"$times": [x, n]} stands for x repeated n times
    raw              or the body as text: a string, or a list of [text, times]
    latin1           or as bytes, a character each
    bytes            or everything that is sent, head included, in the form of raw
    then             what is sent behind that in a packet of its own
    path, headers    /v1/completions and none where not given
    expect           refused: 4xx · served: 200 · answered: anything below 500 · closed: 4xx or the connection's end
    status           exactly this one, where it matters
    answers          how many answers there may be, where one request could pass for two
    max_seconds      1 where not given, ten times that on a busy machine

$PORT stands for a port of this machine where somebody listens whom no request may reach.
"""

import contextlib
import json
import re
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEAD = b"POST %b HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: %d\r\n"
JSON = {"content-type": "application/json"}
_STATUS_LINE = re.compile(rb"HTTP/1\.1 [0-9]{3} ")


@dataclass(frozen=True)
class Case:
    name: str
    source: str
    expect: str
    body: Any = None
    raw: Any = None
    latin1: str | None = None
    bytes: Any = None
    then: str = ""
    status: int | None = None
    answers: int | None = None
    path: str = "/v1/completions"
    headers: dict[str, str] = field(default_factory=dict)
    max_seconds: float = 1.0

    def request(self, port: int) -> bytes:
        """All that is sent; `port` is the one nobody may call."""
        if self.bytes is not None:
            return _joined(self.bytes)
        if self.latin1 is not None:
            body = self.latin1.encode("latin-1")
        elif self.raw is not None:
            body = _joined(self.raw)
        else:
            body = json.dumps(_expanded(self.body)).encode()
        body = body.replace(b"$PORT", b"%d" % port)
        head = HEAD % (self.path.encode(), len(body))
        lines = [f"{name}: {value}\r\n".encode() for name, value in (JSON | self.headers).items()]
        return head + b"".join(lines) + b"\r\n" + body

    def accepts(self, received: bytes) -> bool:
        """Nothing is a connection that ended without an answer."""
        status = status_of(received)
        if self.status not in (None, status):
            return False
        if self.answers not in (None, len(_STATUS_LINE.findall(received))):
            return False
        return {
            "refused": 400 <= status < 500,
            "served": status == 200,
            "answered": 200 <= status < 500 or status == 501,
            "closed": status == 0 or 400 <= status < 500,
        }[self.expect]


def _joined(text: str | list[tuple[str, int]]) -> bytes:
    pieces = [(text, 1)] if isinstance(text, str) else text
    return b"".join(piece.encode() * times for piece, times in pieces)


def _expanded(value: Any) -> Any:
    if isinstance(value, dict):
        if list(value) == ["$times"]:
            what, times = value["$times"]
            return what * times
        return {key: _expanded(inner) for key, inner in value.items()}
    return value


def status_of(received: bytes) -> int:
    """0 where there is no answer."""
    return int(received.split(b" ", 2)[1]) if received.startswith(b"HTTP/1.1 ") else 0


def send(
    address: tuple[str, int],
    request: bytes,
    then: bytes = b"",
    to_the_end: bool = False,
    timeout_s: float = 120.0,
) -> bytes:
    """The answer, once all of it has come. To the end: and all that comes until we have sent our farewell."""
    received = b""
    with socket.create_connection(address, timeout=timeout_s) as client:
        # Suppressed where it is refused before all was sent: there is an answer.
        with contextlib.suppress(ConnectionError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for part in filter(None, (request, then)):
                client.sendall(part)
        try:
            while data := client.recv(1 << 16):
                received += data
                if _is_whole(received):
                    if not to_the_end:
                        break
                    with contextlib.suppress(OSError):  # the server has closed it already
                        client.shutdown(socket.SHUT_WR)
        except ConnectionError:  # what was sent and not read resets the connection
            pass
    return received


def _is_whole(received: bytes) -> bool:
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(lengths) and len(body) >= int(lengths[0].split(b":")[1])


def cases() -> list[Case]:
    folder = Path(__file__).parent
    return [
        Case(**fields)
        for file in sorted(folder.glob("*.json"))
        for fields in json.loads(file.read_text("utf-8"))
    ]
