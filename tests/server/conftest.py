"""A real server on a real socket, with a scripted engine behind it."""

import contextlib
import re
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx2
import pytest

from segue.dialects.base import Dialect
from segue.dialects.openai import OPENAI
from tests.support.fakes import OneModel, Pause, Script, ScriptedEngine, speak
from tests.support.live import Served


class Live(Served):
    """One running server. `models` and `engine` are the doubles behind it."""

    def __init__(
        self,
        script: Script,
        dialects: Sequence[Dialect] = (OPENAI,),
        write_timeout_s: float = 30.0,
        drain_s: float = 0.0,
        **policy: Any,
    ):
        self.models = OneModel()
        self.follow(script)
        super().__init__(
            self.models, dialects, write_timeout_s=write_timeout_s, drain_s=drain_s, **policy
        )

    def follow(self, script: Script) -> None:
        """A new engine with this script, as if the server had just started."""
        self.engine = ScriptedEngine(script)
        self.models.load(self.engine)

    def release(self, pause: Pause) -> None:
        self._loop.call_soon_threadsafe(pause.go.set)

    def call(self, what: Callable[..., object], *arguments: Any) -> None:
        """On the server's loop."""
        self._loop.call_soon_threadsafe(what, *arguments)

    def complete(self, **body: Any) -> httpx2.Response:
        return self.client.post("/v1/completions", json={"prompt": "ab", **body})


def access_lines(caplog: pytest.LogCaptureFixture, request_id: str) -> list[str]:
    """Of requests with this id alone: a client that left another test may have its line only now."""
    lines = [record.getMessage() for record in caplog.records if record.name == "segue.access"]
    return [line for line in lines if line.startswith(f"{request_id} ")]


def read_until(client: socket.socket, end: bytes) -> bytes:
    received = b""
    while end not in received:
        data = client.recv(65536)
        assert data, received
        received += data
    return received


def exchange(live: Live, sent: bytes) -> bytes:
    """Everything the server sends until it closes the connection, or until its answer is whole and it does not."""
    with live.connect() as client:
        received = b""
        with contextlib.suppress(ConnectionError):
            client.sendall(sent)
            while not is_kept_open(received) and (data := client.recv(65536)):
                received += data
        return received


def is_kept_open(received: bytes) -> bool:
    """The answer is whole, and the connection waits for another request."""
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: (\d+)", head)
    is_whole = length is not None and len(body) >= int(length[1])
    return is_whole and b"connection: close" not in head


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer[:80]
    return int(answer.split()[1])


TWO_WORDS = speak("one", " two")
Launch = Callable[..., Live]


@pytest.fixture(scope="session")
def shared() -> Iterator[Live]:
    live = Live(TWO_WORDS)
    yield live
    live.stop()


@pytest.fixture
def launch(shared: Live) -> Iterator[Launch]:
    """Servers with a script and settings; all without settings are one, to save its start."""
    own: list[Live] = []

    def start(script: Script = TWO_WORDS, **settings: Any) -> Live:
        if not settings:
            shared.follow(script)
            return shared
        own.append(Live(script, **settings))
        return own[-1]

    yield start
    for live in own:
        live.stop()


@pytest.fixture
def live(launch: Launch) -> Live:
    return launch()


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
