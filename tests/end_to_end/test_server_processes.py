"""`segue serve --server-processes 2`, as an operator and clients see it: real processes, real sockets."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.serving import Served, serving
from tests.support.waiting import LOADING_S, PATIENCE_S, wait_until

pytestmark = pytest.mark.skipif(
    not (hasattr(socket, "send_fds") and Path("/proc").exists()),
    reason="connections cannot be passed on here, or processes not be listed",
)

FAKE = ("--runner", "fake", "--context-length", "2000000", "--server-processes", "2")
LONG = {"prompt": "x", "max_tokens": 1_000_000, "logit_bias": {"256": -100}, "stream": True}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(*FAKE) as server:
        yield server
    assert server.process.returncode == 0


def server_pids(served: Served) -> list[int]:
    """The ids of the server processes, the newest of each number."""
    found: dict[str, int] = {}

    def are_known() -> bool:  # a thread writes the log
        for line in list(served.log):
            if said := re.search(r"server process (\d+) has the id (\d+)", line):
                found[said[1]] = int(said[2])
        return len(found) == 2

    wait_until(are_known)
    return [found[number] for number in sorted(found)]


def worker_pid(served: Served) -> int:
    mine = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text("latin-1").rpartition(")")[2].split()
            command = (stat.parent / "cmdline").read_text("latin-1")
        except OSError:
            continue
        if int(fields[1]) == served.process.pid and "spawn_main" in command:
            mine.append(int(stat.parent.name))
    (pid,) = set(mine) - set(server_pids(served))
    return pid


def is_alive(pid: int) -> bool:
    """Who has ended may still be listed, if nobody asks how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.02)


def client_of(served: Served) -> httpx2.AsyncClient:
    """One connection a request, so that requests go to the processes in turn."""
    limits = httpx2.Limits(max_keepalive_connections=0)
    return httpx2.AsyncClient(base_url=served.url, timeout=PATIENCE_S, limits=limits)


async def figures(client: httpx2.AsyncClient) -> dict[str, float]:
    text = (await client.get("/metrics")).text
    return {
        ":".join((sample.name, *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def settled_figures(client: httpx2.AsyncClient) -> dict[str, float]:
    """What both processes say of the engine: one may hear a little later of the requests before."""

    async def of_the_engine() -> dict[str, float]:
        return {k: v for k, v in (await figures(client)).items() if k.endswith("_total:fake")}

    async with asyncio.timeout(PATIENCE_S):
        while await of_the_engine() != await of_the_engine():
            pass
    return await figures(client)


async def until_figure(client: httpx2.AsyncClient, name: str, wanted: float) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await figures(client)).get(name) != wanted:
            await asyncio.sleep(0.02)


async def until_both_are_ready(client: httpx2.AsyncClient) -> None:
    """Connections go to the processes in turn, so two answers in a row are theirs."""
    num_ready = 0
    async with asyncio.timeout(LOADING_S):
        while num_ready < 2:
            is_ready = (await client.get("/readyz")).status_code == 200
            num_ready = num_ready + 1 if is_ready else 0


class Stream:
    """One endless stream, read by a task."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        path: str = "/v1/completions",
        body: dict[str, Any] | None = None,
    ) -> None:
        self._path = path
        self._body = body or LONG
        self.lines = 0
        self.last = ""
        self.begun = asyncio.Event()
        self.task = asyncio.create_task(self._read(client))

    async def _read(self, client: httpx2.AsyncClient) -> None:
        async with client.stream("POST", self._path, json=self._body) as response:
            assert response.status_code == 200
            async for line in response.aiter_lines():
                if line:
                    self.lines += 1
                    self.last = line
                    self.begun.set()

    @property
    def is_broken(self) -> bool:
        return self.task.done() and self.task.exception() is not None

    async def goes_on(self) -> None:
        before = self.lines
        await until(lambda: self.lines > before + 5)
        assert not self.task.done()

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def streams_of(client: httpx2.AsyncClient, count: int) -> AsyncIterator[Stream]:
    for _ in range(count):
        stream = Stream(client)
        async with asyncio.timeout(PATIENCE_S):
            await stream.begun.wait()
        yield stream


def test_streams_are_not_kept_where_another_process_may_be_asked(served: Served) -> None:
    body = {"prompt": "x", "max_tokens": 2, "stream": True}
    named = {"x-conversation-id": "a"}
    url = f"{served.url}/llamacpp/v1/completions"
    answer = httpx2.post(url, json=body, headers=named, timeout=PATIENCE_S)
    assert answer.status_code == 200
    assert answer.headers["x-segue-ignored"] == "x-conversation-id"


def test_all_answers_are_right_and_come_from_both(served: Served) -> None:
    async def main() -> None:
        async with client_of(served) as client:
            before = await settled_figures(client)

            async def ask(seed: int, stream: bool) -> str:
                body = {"prompt": f"p{seed}", "seed": seed, "max_tokens": 40, "stream": stream}
                answer = await client.post("/v1/completions", json=body)
                assert answer.status_code == 200
                if not stream:
                    return str(answer.json()["choices"][0]["text"])
                events = [line[6:] for line in answer.text.splitlines() if line[:6] == "data: "]
                assert events.pop() == "[DONE]"
                return "".join(json.loads(each)["choices"][0]["text"] for each in events)

            folded = await asyncio.gather(*(ask(seed, False) for seed in range(32)))
            streamed = await asyncio.gather(*(ask(seed, True) for seed in range(32)))
            assert folded == streamed
            assert len(set(folded)) > 16
            # Whichever process answers: the sums over both, and the engine's own figures.
            for name in ("segue_request_seconds_count", "segue_finished_total:fake"):
                await until_figure(client, name, before[name] + 64)
            between = "segue_inter_token_latency_seconds_count"
            async with asyncio.timeout(PATIENCE_S):
                while (await figures(client))[between] <= before[between]:
                    await asyncio.sleep(0.02)
            answers = "segue_answers_total:200"
            assert (await figures(client))[answers] - before.get(answers, 0) >= 64 + 3  # and pages
            pages = [(await client.get("/v1/models")).json() for _ in range(2)]
            assert pages[0] == pages[1]
        await until(
            lambda: all(any(f"access [{n}]" in line for line in served.log) for n in (1, 2))
        )

    asyncio.run(main())


def test_a_killed_server_process_ends_its_streams_and_no_others(served: Served) -> None:
    async def main() -> None:
        async with client_of(served) as client:
            before = await settled_figures(client)
            streams = [stream async for stream in streams_of(client, 4)]
            first, second = server_pids(served)
            os.kill(first, signal.SIGKILL)
            await until(lambda: sum(stream.is_broken for stream in streams) == 2)
            kept = [stream for stream in streams if not stream.is_broken]
            for stream in kept:
                await stream.goes_on()
            # What the dead process asked for is not computed any more.
            cancelled = "segue_cancelled_total:fake"
            await until_figure(client, cancelled, before[cancelled] + 2)
            await until(lambda: server_pids(served)[0] != first)
            assert server_pids(served)[1] == second
            again = [stream async for stream in streams_of(client, 2)]  # both take connections
            for stream in (*kept, *again):
                await stream.goes_on()
                await stream.close()
            await until_figure(client, cancelled, before[cancelled] + 6)
            await until_figure(client, "segue_running:fake", 0)
            assert (await figures(client))["segue_waiting:fake"] == 0
            assert (await client.get("/readyz")).status_code == 200

    asyncio.run(main())


def test_a_killed_worker_is_told_to_every_stream_of_every_process(served: Served) -> None:
    async def main() -> None:
        async with client_of(served) as client:
            streams = [stream async for stream in streams_of(client, 4)]
            os.kill(worker_pid(served), signal.SIGKILL)
            await until(lambda: all(stream.task.done() for stream in streams))
            for stream in streams:
                assert stream.task.exception() is None
                assert "ended unexpectedly" in stream.last or "[DONE]" in stream.last
            await until_both_are_ready(client)
            for _ in range(4):
                answer = await client.post("/v1/completions", json={"prompt": "a", "max_tokens": 2})
                assert answer.status_code == 200
                assert (await figures(client))["segue_restarts_total:fake"] == 1

    asyncio.run(main())


def test_a_limit_of_a_key_holds_over_both_processes() -> None:
    # One more each half minute: longer than a busy machine takes for four requests.
    keys = ("--api-key", "ada:secret", "--requests-per-minute", "2")
    with serving(*FAKE, *keys) as served:

        async def main() -> None:
            async with client_of(served) as client:
                client.headers["authorization"] = "Bearer secret"
                body = {"prompt": "a", "max_tokens": 1}
                answers = [await client.post("/v1/completions", json=body) for _ in range(4)]
            left = [answer.headers["x-ratelimit-remaining-requests"] for answer in answers]
            assert [answer.status_code for answer in answers] == [200] * 2 + [429] * 2
            assert left == ["1", "0", "0", "0"]

        asyncio.run(main())


def test_both_drain_and_nothing_stays_behind() -> None:
    with serving(*FAKE) as served:
        pids = [*server_pids(served), worker_pid(served)]

        async def main() -> None:
            async with client_of(served) as client:
                body = LONG | {"max_tokens": 300}
                running = []
                for _ in range(4):
                    request = client.build_request("POST", "/v1/completions", json=body)
                    running.append(await client.send(request, stream=True))
                served.process.send_signal(signal.SIGTERM)
                for response in running:
                    text = (await response.aread()).decode()
                    assert text.rstrip().endswith("[DONE]")
                    assert "error" not in text

        asyncio.run(main())
        assert served.process.wait(PATIENCE_S) == 0
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists()
    assert not any("Traceback" in line for line in served.log)


def test_server_processes_end_with_their_parent() -> None:
    with serving(*FAKE) as served:
        pids = [*server_pids(served), worker_pid(served)]
        served.process.kill()
        served.process.wait(PATIENCE_S)
        wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("wrong", ["0", "65", "two"])
def test_a_number_that_makes_no_sense_is_refused(wrong: str) -> None:
    command = [sys.executable, "-m", "segue", "serve", "--runner", "fake"]
    ran = subprocess.run([*command, "--server-processes", wrong], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "--server-processes must be a whole number from 1 to 64, not" in ran.stderr


def test_a_model_that_cannot_be_loaded_ends_the_start(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "segue", "serve", "--port", "0", "--server-processes", "2"]
    ran = subprocess.run([*command, str(tmp_path / "missing.gguf")], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "missing.gguf" in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr
