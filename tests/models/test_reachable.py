import socket
from threading import Event, Thread

import pytest
from huggingface_hub import constants, get_session

from segue.errors import ModelUnavailable
from segue.models import hub, reachable
from segue.models.names import parse
from segue.models.reachable import Patience, Unanswered, check_reachable
from tests.support.waiting import PATIENCE_S

URL = "http://hub.test/api/models/o/r"


class Host:
    """A client whose host reports `events` and answers when `answers` is set."""

    def __init__(self, *events: str) -> None:
        self.events, self.answers = events, Event()

    def head(self, url: str, *, timeout: Patience, extensions: dict[str, object]) -> None:
        trace = extensions["trace"]
        assert callable(trace)
        for event in self.events:
            trace(event, {})
        assert self.answers.wait(PATIENCE_S)


def test_a_host_that_never_connects_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable, "CONNECT_S", 0.01)
    host = Host("connection.connect_tcp.started")
    with pytest.raises(Unanswered, match="no connection within"):
        check_reachable(host, URL)
    host.answers.set()  # its thread ends


@pytest.mark.parametrize(
    "event", ["connection.connect_tcp.complete", "http11.send_request_headers.started"]
)
def test_a_connection_that_is_there_may_be_slow(
    event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers only after the limit for connections has been left behind."""
    host = Host("connection.connect_tcp.started", event)

    class Watched(Event):
        def wait(self, timeout: float | None = None) -> bool:
            if timeout is None:
                host.answers.set()
            return super().wait(timeout)

    monkeypatch.setattr(reachable, "Event", Watched)
    check_reachable(host, URL)
    assert host.answers.is_set()


def test_a_host_that_connects_and_stays_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library itself waits for it without end."""
    monkeypatch.setattr(reachable, "ANSWER_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        with pytest.raises(ModelUnavailable, match=r"cannot be reached.*HF_ENDPOINT.*timed out"):
            hub.fetch(parse("o/r"), hub.HuggingFace())


def test_a_connection_that_is_refused_is_said_before_the_library_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("huggingface_hub.list_repo_files", lambda repo: pytest.fail("asked"))
    with socket.socket() as closed:  # bound but not listening: refuses every connection
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(
            ModelUnavailable, match=r"cannot be reached.*PATH\.gguf.*without a name"
        ):
            hub.fetch(parse("o/r"), hub.HuggingFace())


def test_whatever_a_host_answers_it_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        answered = Event()

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(
                    b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
            answered.set()

        Thread(target=answer, daemon=True).start()
        check_reachable(get_session(), f"http://127.0.0.1:{port}/api/models/o/r")
        assert answered.wait(PATIENCE_S)
