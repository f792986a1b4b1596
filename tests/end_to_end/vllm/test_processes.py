"""Several server processes over one vLLM: its client is in their parent, which shares it."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.end_to_end.test_server_processes import (
    Stream,
    client_of,
    figures,
    server_pids,
    until,
    until_both_are_ready,
    until_figure,
)
from tests.support.models.tiny_hf import write_tiny_hf
from tests.support.serving import Served, serving
from tests.support.vllm.server import NEEDS_VLLM

pytestmark = NEEDS_VLLM

PATH = "/vllm/v1/completions"
# Longer than a test lasts, on a GPU too.
LONG: dict[str, Any] = {"prompt": "x", "max_tokens": 8000, "ignore_eos": True, "stream": True}
OPTIONS = ("dtype=float32", "enforce_eager=true", "max_num_seqs=32", "gpu_memory_utilization=0.15")


@pytest.fixture(scope="module")
def served(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = write_tiny_hf(tmp_path_factory.mktemp("hf") / "tiny", tiny_gguf, context=8192)
    options = OPTIONS if Path("/dev/nvidia0").exists() else OPTIONS[:-1]
    arguments = [word for option in options for word in ("--vllm-option", option)]
    arguments += ["--engine", "vllm", "--kv-memory-mib", "64", "--server-processes", "2"]
    with serving(str(folder), *arguments) as served:
        yield served
    assert served.process.returncode == 0


async def streams_of(client: httpx2.AsyncClient, count: int) -> list[Stream]:
    """One after another, so that each process has as many."""
    streams = []
    for _ in range(count):
        streams.append(Stream(client, PATH, LONG))
        async with asyncio.timeout(300):  # vLLM compiles at first use
            await streams[-1].begun.wait()
    return streams


def test_both_processes_answer_alike_and_are_summed(served: Served) -> None:
    async def main() -> None:
        async with client_of(served) as client:
            client.timeout = 300
            body = {"prompt": "The other one", "max_tokens": 24, "temperature": 0}
            answers = await asyncio.gather(*(client.post(PATH, json=body) for _ in range(8)))
            assert {answer.status_code for answer in answers} == {200}
            assert len({answer.json()["choices"][0]["text"] for answer in answers}) == 1
            tokens = [
                (await client.post("/tokenize", json={"prompt": "the end"})).json()["tokens"]
                for _ in range(2)
            ]
            assert tokens[0] == tokens[1]
            await until_figure(client, "segue_finished_total:tiny", 8)
            await until_figure(client, "segue_request_seconds_count", 8)
        await until(
            lambda: all(any(f"access [{n}]" in line for line in served.log) for n in (1, 2))
        )

    asyncio.run(main())


def test_a_killed_server_process_ends_its_streams_and_no_others(served: Served) -> None:
    async def main() -> None:
        async with client_of(served) as client:
            streams = await streams_of(client, 4)
            first = server_pids(served)[0]
            os.kill(first, signal.SIGKILL)
            await until(lambda: sum(stream.is_broken for stream in streams) == 2)
            kept = [stream for stream in streams if not stream.is_broken]
            await until_figure(client, "segue_cancelled_total:tiny", 2)
            for stream in kept:
                await stream.goes_on()
            await until(lambda: server_pids(served)[0] != first)
            for stream in kept:
                await stream.close()
            await until_figure(client, "segue_running:tiny", 0)

    asyncio.run(main())


def test_vllms_end_is_told_to_every_stream_of_every_process(served: Served) -> None:
    async def main() -> None:
        async with client_of(served) as client:
            streams = await streams_of(client, 4)
            os.kill(_core_pid(served), signal.SIGKILL)
            await until(lambda: all(stream.task.done() for stream in streams))
            for stream in streams:
                assert stream.task.exception() is None
                assert "ended unexpectedly" in stream.last or "[DONE]" in stream.last
            async with asyncio.timeout(300):
                while (await client.get("/readyz")).status_code == 200:
                    await asyncio.sleep(0.02)
            await until_both_are_ready(client)
            for _ in range(2):
                answer = await client.post(PATH, json={"prompt": "a", "max_tokens": 2})
                assert answer.status_code == 200
                assert (await figures(client))["segue_restarts_total:tiny"] == 1

    asyncio.run(main())


def _core_pid(served: Served) -> int:
    """vLLM's own process: the child of the server that serves no HTTP."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text("latin-1").rpartition(")")[2].split()
            name = (stat.parent / "cmdline").read_text("latin-1")
        except OSError:
            continue
        is_ours = int(fields[1]) == served.process.pid and "tracker" not in name
        if is_ours and int(stat.parent.name) not in server_pids(served):
            found.append(int(stat.parent.name))
    (pid,) = found
    return pid
