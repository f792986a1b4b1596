"""`segue serve --uds PATH`, as its clients see it: real processes on a real socket."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner, Result

from segue.cli import cli
from tests.support.serving import Served, serving
from tests.support.sockets import needs_unix_sockets, place
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = needs_unix_sockets
SEVERAL = pytest.param(
    ("--server-processes", "2"),
    marks=pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="no connections passed on"),
    id="two",
)


@pytest.fixture(scope="module", params=[pytest.param((), id="one"), SEVERAL])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    with place() as path:
        with serving("--runner", "fake", "--uds", path, *request.param) as server:
            yield server
        assert server.process.returncode == 0
        assert os.listdir(os.path.dirname(path)) == []


def path_of(served: Served) -> str:
    assert served.url.startswith("unix:/")
    return served.url.removeprefix("unix:")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.fixture
def client(served: Served) -> Iterator[httpx2.Client]:
    way = httpx2.HTTPTransport(uds=path_of(served))
    with httpx2.Client(transport=way, base_url="http://localhost", timeout=PATIENCE_S) as client:
        yield client


def test_requests_are_answered(client: httpx2.Client) -> None:
    body = {"prompt": "ab", "max_tokens": 3, "ignore_eos": True}
    answer = client.post("/v1/completions", json=body)
    assert answer.status_code == 200
    assert answer.json()["usage"]["completion_tokens"] == 3


def test_streams_are_written_as_they_come(client: httpx2.Client) -> None:
    body = {"prompt": "ab", "max_tokens": 3, "stream": True}
    with client.stream("POST", "/v1/completions", json=body) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"


@pytest.mark.parametrize("host", ["localhost", "segue", "api.example.org", "%2Frun%2Fs.sock"])
def test_any_host_is_answered_for_no_page_can_reach_it(client: httpx2.Client, host: str) -> None:
    assert client.get("/v1/models", headers={"host": host}).status_code == 200


def test_pages_of_other_origins_behind_a_proxy_are_not(client: httpx2.Client) -> None:
    headers = {"origin": "https://elsewhere.example"}
    answer = client.post("/v1/completions", json={"prompt": "ab"}, headers=headers)
    assert answer.status_code == 403


def test_only_the_owner_connects(served: Served) -> None:
    assert Path(path_of(served)).stat().st_mode & 0o007 == 0


def test_a_second_server_is_told(served: Served) -> None:
    command = [sys.executable, "-m", "segue", "serve", "--runner", "fake"]
    refused = subprocess.run(
        [*command, "--host", path_of(served)], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert refused.returncode == 1
    assert "another server listens there" in refused.stderr


def test_the_start_says_how_it_is_reached(served: Served) -> None:
    shown = f"curl --unix-socket {path_of(served)} http://localhost/v1/completions"
    wait_until(lambda: any(shown in line for line in served.log))  # after the line that it is ready
    told = "".join(served.log)
    assert "whoever may write to this socket" in told
    assert "ANYBODY" not in told
    assert "--port has no effect: a Unix socket has no port" in told


def test_the_commands_reach_it(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    asked = ("ab", "--json", "--max-tokens", "3", "--seed", "1")  # with another it may end sooner
    done = run("complete", *asked, "--url", served.url)
    assert done.exit_code == 0, done.output
    assert '"completion_tokens": 3' in done.output
    loaded = run("bench", served.url, "--clients", "1", "--requests", "1", "--max-tokens", "2")
    assert loaded.exit_code == 0, loaded.output


def test_a_place_where_nobody_listens_is_told() -> None:
    with place() as path:
        refused = run("complete", "ab", "--url", f"unix:{path}")
    assert f"unix:{path} cannot be reached" in str(refused.exception)
