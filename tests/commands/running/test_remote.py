"""Answers of a server, which may be another than it was taken for."""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from segue.cli import cli
from segue.commands.running.asking import from_server
from segue.errors import RequestError, SegueError, SetupError
from segue.runners.fake import FakeLoader
from segue.server.admission.keys import Keyring, parse_key
from tests.support.live import Live
from tests.support.waiting import PATIENCE_S


def ask(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["complete", "--url", url, *arguments])


def message(result: Result) -> str:
    assert isinstance(result.exception, SegueError), result.output
    return result.exception.message


def test_a_key_with_its_name_is_told_from_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server takes NAME:KEY from the variable whose KEY a client sends."""
    with Live(FakeLoader(), keys=Keyring([parse_key("me:secret")], None)) as live:
        monkeypatch.setenv("SEGUE_API_KEY", "me:secret")
        refused = ask(live.url, "x").exception
        assert isinstance(refused, RequestError)
        assert "a client sends KEY alone" in refused.message
        monkeypatch.setenv("SEGUE_API_KEY", "wrong")
        assert "KEY alone" not in str(ask(live.url, "x").exception)
        monkeypatch.setenv("SEGUE_API_KEY", "secret")
        assert ask(live.url, "x", "--max-tokens", "1").exit_code == 0


CHUNK = b'data: {"choices": [{"index": 0, "text": "a"}]}\n\n'


@contextlib.contextmanager
def answering(
    content: bytes | None, head: bytes = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"
) -> Iterator[str]:
    """The address of a server that answers one request with this; with None, not before it is left."""
    has_left = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        # A client that speaks TLS may leave at any of these: reset, broken pipe, or not connected, which has no class.
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            if content is None:
                has_left.wait(PATIENCE_S)
            else:
                connection.sendall(head + content)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass  # what is closed before it is read resets the connection

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            has_left.set()
            thread.join()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<html>", "sent no answer, or not all of it"),  # this and the next ended well
        (CHUNK, "sent no answer, or not all of it"),
        (b"data: [1, 2]\n\ndata: {}\n\ndata: [DONE]\n\n", "sent no answer, or not all of it"),
        (b"data: {bad\n\n", "sent what is no completion"),  # and these with a traceback
        (b'data: {"choices": 3}\n\n', "sent what is no completion"),
        (b'data: {"choices": [{"text": "a"}]}\n\n', "sent what is no completion"),
        (CHUNK.replace(b'"a"', b'"a", "finish_reason": 5'), "sent what is no completion"),
        (CHUNK.replace(b'"a"', b'"a", "token_ids": "x"'), "sent what is no completion"),
        (CHUNK.replace(b'"a"', b'"a", "logprobs": [1]'), "sent what is no completion"),
        (b'data: {"choices": [], "usage": [1]}\n\n', "sent what is no completion"),
        (b'data: {"error": {"message": "it fell over"}}\n\n', "it fell over"),
    ],
)
def test_an_answer_that_is_none_or_not_whole_is_an_error(content: bytes, words: str) -> None:
    with answering(content) as url:
        assert words in message(ask(url, "x"))


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html", "not all of it: it sent text/html"),
        (b"HTTP/1.1 404 Not Found", "404 of {url}: Not Found"),
        (b"HTTP/1.1 401 Unauthorized", "(SEGUE_API_KEY is not set"),
        (b"SSH-2.0-OpenSSH_9.0", "{url} does not speak HTTP: it sent 'SSH-2.0-OpenSSH_9.0"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "{url} does not speak HTTP: try https"),
    ],
)
def test_another_server_is_told_in_one_sentence(
    head: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SEGUE_API_KEY", raising=False)
    with answering(b"<html>hello", head + b"\r\nconnection: close\r\n\r\n") as url:
        assert words.format(url=url) in message(ask(url, "x"))


def test_a_server_that_speaks_no_tls_is_told_so() -> None:
    with answering(b"") as url:
        said = message(ask(url.replace("http", "https"), "x"))
    assert said.endswith("does not speak https: try http")


def test_neither_prompt_nor_key_follow_a_redirect(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key was sent to wherever it led, and the prompt was not."""
    monkeypatch.setenv("SEGUE_API_KEY", "secret")
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        place = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/v1/completions"
        head = f"HTTP/1.1 301 Moved\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n"
        with answering(b"", head.encode()) as url:
            assert message(ask(url, "x")) == f"301 of {url}: it is not here, but at {place}"
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


def test_the_stats_of_an_answer_whose_usage_is_another() -> None:
    """That was a traceback."""
    end = b'data: {"choices": [], "usage": {"total": 1}}\n\ndata: [DONE]\n\n'
    with answering(CHUNK + end) as url:
        assert "prompt 0 tokens" in ask(url, "x", "--stats").stderr


def test_an_answer_may_end_as_openais_or_by_its_reason_alone() -> None:
    without = CHUNK.replace(b'"a"', b'"", "finish_reason": "stop"')
    for end in (b"data: [DONE]\n\n", without, b"data:[DONE]\r\n\r\n"):
        with answering(CHUNK + end) as url:
            assert ask(url, "x").stdout == "a\n"


def test_who_waits_for_a_server_can_be_interrupted() -> None:
    """Ctrl-C cancels the task, and the event loop itself waited for the server: it had no effect."""

    async def interrupted(url: str) -> None:
        task = asyncio.ensure_future(anext(from_server({"prompt": "x"}, url)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE_S / 2)

    with answering(None) as url:
        asyncio.run(interrupted(url))


def test_a_key_that_no_header_carries_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("schlüssel", "日", "a\nb"):
        monkeypatch.setenv("SEGUE_API_KEY", os.fsdecode(key.encode()))  # in any locale
        assert message(ask("http://127.0.0.1:1", "x")).startswith("SEGUE_API_KEY has a character")


@pytest.mark.parametrize(
    "url",
    [
        *("foo", "127.0.0.1:8080", "localhost:8080/v1", "ftp://x", "http://"),
        *("http://[::1", "http://x/ü"),
    ],
)
def test_an_address_that_is_none_is_one_sentence(url: str) -> None:
    error = ask(url, "x").exception
    assert isinstance(error, SetupError)
    assert error.message.startswith("--url must be an address such as http://127.0.0.1:8080, not ")
