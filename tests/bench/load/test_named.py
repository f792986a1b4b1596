"""Servers that answer to the name of their model alone, as vLLM and Ollama do."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner, Result

from segue.bench.load.drive import _words
from segue.cli import cli

LISTED = ["org/first", "org/second"]


class Strict(BaseHTTPRequestHandler):
    """Lists its models, and refuses all others with the words of a system."""

    asked: list[str]
    prompts: list[str]
    keys: set[tuple[str, str | None]]  # with the methods

    def do_GET(self) -> None:
        self._note_key()
        self._answer(200, {"data": [{"id": name} for name in LISTED]})

    def do_POST(self) -> None:
        self._note_key()
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(body["model"])
        self.prompts.append(body["prompt"])
        if body["model"] in LISTED:
            return self._answer(200, {"choices": [{"text": "a"}]})
        return self._answer(404, {"error": {"message": f"no model {body['model']}"}})

    def _note_key(self) -> None:
        self.keys.add((self.command, self.headers["authorization"]))

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def strict() -> Iterator[str]:
    Strict.asked, Strict.prompts, Strict.keys = [], [], set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Strict) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["bench", *arguments, "--clients", "1", "--requests", "1"])


def test_the_first_model_that_a_server_lists_is_asked_for(strict: str) -> None:
    result = bench(strict)
    assert result.exit_code == 0, result.output
    assert set(Strict.asked) == {"org/first"}


def test_each_server_is_asked_for_its_own(strict: str) -> None:
    result = bench(strict, "--against", strict, "--against-model", "org/second")
    assert result.exit_code == 0, result.output
    assert set(Strict.asked) == set(LISTED)
    _, ours, theirs, _ = result.output.splitlines()
    assert ours.split()[0] == "segue"
    assert theirs.split()[0] == strict.removeprefix("http://")


def test_each_server_is_sent_its_own_key(strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one got none."""
    monkeypatch.setenv("SEGUE_API_KEY", "ours")
    assert bench(strict, "--against", strict).exit_code == 0
    assert {key for _, key in Strict.keys} == {"Bearer ours", None}
    monkeypatch.setenv("SEGUE_AGAINST_API_KEY", "theirs")
    Strict.keys.clear()
    assert bench(strict, "--against", strict).exit_code == 0
    keys = ("Bearer ours", "Bearer theirs")
    assert Strict.keys == {(method, key) for method in ("GET", "POST") for key in keys}


def test_a_second_run_finds_nothing_in_the_prefix_cache(strict: str) -> None:
    """The same prompts again were not read again, and the server looked faster than it was."""
    bench(strict)
    bench(strict)
    first, second = (each for each in Strict.prompts if each != "Hello")
    assert first.split()[0] != second.split()[0]
    assert first.split()[1:] == second.split()[1:]


def test_a_model_that_is_not_there_is_told_in_the_servers_words(strict: str) -> None:
    result = bench(strict, "--model", "llama3")
    assert str(result.exception).endswith(" answers 404: no model llama3")


@pytest.mark.parametrize(
    "content",
    [
        b'{"error": {"message": "no key"}}',
        b'{"error": "no key"}',
        b'{"message": "no key"}',
        b'{"detail": "no key"}',
        b"no key\n",
    ],
)
def test_a_refusal_is_read_in_every_systems_shape(content: bytes) -> None:
    assert _words(content) == "no key"
