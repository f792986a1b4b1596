"""A client that leaves, and an engine that dies."""

import os
import signal
import subprocess
import time

import httpx2

from tests.support.asking import complete
from tests.support.serving import Served
from tests.support.vllm.server import NEEDS_VLLM, TEXT, wait_until_idle

pytestmark = NEEDS_VLLM


def test_a_client_that_leaves_frees_its_request(client: httpx2.Client) -> None:
    body = {"prompt": "the", "max_tokens": 200, "ignore_eos": True, "stream": True, "n": 4}
    with client.stream("POST", "/v1/completions", json=body) as answer:
        next(answer.iter_lines())
    wait_until_idle(client)


def test_a_dead_engine_is_told_of_and_started_again(served: Served, client: httpx2.Client) -> None:
    """Last: what vLLM runs in its own process is killed under a stream of so many choices."""
    number = int(os.environ.get("SEGUE_VLLM_STREAMS", 8))
    body = {"prompt": "the", "max_tokens": 200, "ignore_eos": True, "stream": True, "n": number}
    with client.stream("POST", "/v1/completions", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        for pid in _children(served.process.pid):
            os.kill(pid, signal.SIGKILL)
        rest = "\n".join(lines)
    assert "engine_died" in rest
    health = client.get("/health")
    assert health.status_code == 503
    assert health.headers["retry-after"]
    deadline = time.monotonic() + 300
    while client.get("/health").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert complete(client, TEXT, max_tokens=2)["usage"]["completion_tokens"] == 2


def _children(pid: int) -> list[int]:
    """The engine's processes."""
    command = ["ps", "-o", "pid=,args=", "--ppid", str(pid)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 1) for line in listed.splitlines()]
    return [int(row[0]) for row in rows if "EngineCore" in row[1] or "spawn_main" in row[1]]
