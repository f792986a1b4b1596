"""The hub's own library against a hub on this machine: what it asks for, fetches, keeps and reports."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote

import pytest

COMMIT = "0123456789012345678901234567890123456789"
FILES = {
    "README.md": b"# A model",
    "m-Q8_0.gguf": b"GGUF eight",
    "big/m-Q4_K_M-00001-of-00002.gguf": b"GGUF one of two",
    "big/m-Q4_K_M-00002-of-00002.gguf": b"GGUF two of two",
}
REFUSALS = {  # by the repository: the status, and the code by which the hub tells why
    "o/gated": (403, "GatedRepo"),
    "o/absent": (404, "RepoNotFound"),
}


class Hub(BaseHTTPRequestHandler):
    """Repository o/r, and others that are refused: what the library asks to list and fetch files."""

    protocol_version = "HTTP/1.1"
    asked: list[str]

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(self.path.partition("?")[0])
        self.asked.append(f"{self.command} {path}")
        for repo, (status, code) in REFUSALS.items():
            if repo in path:
                return self._send(status, b"{}", {"X-Error-Code": code})
        if path.startswith("/api/models/o/r"):
            kinds = {"type": "file", "oid": COMMIT}
            listed = [kinds | {"path": name, "size": len(FILES[name])} for name in FILES]
            kind = {"Content-Type": "application/json"}
            return self._send(200, json.dumps(listed).encode(), kind)
        content = FILES.get(path.removeprefix("/o/r/resolve/main/"))
        if content is None:
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        etag = hashlib.sha256(content).hexdigest()
        return self._send(200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


# What each name is answered with, twice each: the path of a file, or why there is none.
FETCH = """
import json, sys
from segue.errors import ModelUnavailable
from segue.models.hub import HuggingFace, fetch
from segue.models.names import parse

def answer(name):
    try:
        return str(fetch(parse(name), HuggingFace()))
    except ModelUnavailable as error:
        return str(error)

print(json.dumps({name: [answer(name), answer(name)] for name in sys.argv[1:]}))
"""
NAMES = ("o/r", "hf:o/r/m-Q8_0.gguf", "hf:o/r/other-Q8_0.gguf", "o/gated", "o/absent")


@dataclass(frozen=True)
class Fetched:
    answers: dict[str, list[str]]
    asked: list[str]  # of the hub


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Fetched:
    """In a process of its own: the library reads its settings as it is imported."""
    Hub.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        home = str(tmp_path_factory.mktemp("hub"))
        settings = {"HF_HOME": home, "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        ours = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", FETCH, *NAMES],
            env=ours | settings,
            capture_output=True,
            text=True,
        )
        server.shutdown()
    assert done.returncode == 0, done.stderr
    return Fetched(json.loads(done.stdout), Hub.asked)


def test_every_part_of_a_model_is_fetched_and_once(fetched: Fetched) -> None:
    first, again = map(Path, fetched.answers["o/r"])
    assert first == again
    assert first.name == "m-Q4_K_M-00001-of-00002.gguf"
    assert first.read_bytes() == FILES["big/m-Q4_K_M-00001-of-00002.gguf"]
    assert {*first.parent.iterdir()} == {first, first.with_name("m-Q4_K_M-00002-of-00002.gguf")}
    assert fetched.asked.count(f"GET /o/r/resolve/main/big/{first.name}") == 1


def test_a_file_by_its_name_is_fetched_once(fetched: Fetched) -> None:
    first, again = map(Path, fetched.answers["hf:o/r/m-Q8_0.gguf"])
    assert first == again
    assert first.read_bytes() == FILES["m-Q8_0.gguf"]
    assert fetched.asked.count("GET /o/r/resolve/main/m-Q8_0.gguf") == 1


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("o/gated", "accept its terms on huggingface.co"),
        ("o/absent", "there is no such repository"),
        ("hf:o/r/other-Q8_0.gguf", "has no other-Q8_0.gguf; it has: big/m-Q4_K_M-00001-of-00002"),
    ],
)
def test_what_the_hub_refuses_is_said_in_a_sentence(
    fetched: Fetched, name: str, sentence: str
) -> None:
    for answer in fetched.answers[name]:
        assert sentence in answer
