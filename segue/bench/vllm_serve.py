"""Segue on vLLM's engine beside `vllm serve`: same model, same arguments, same requests, in turns within one run.

    python -m segue.bench.vllm_serve FOLDER [--clients 1 32 128 256] [--rounds 2] [--option dtype=bfloat16]
        [--server-processes 1]

Both servers stand side by side, each with its share of the memory, and one is measured at a time. The load comes from
several processes, so that no client's interpreter is what is measured. Every stream has its own prompt of random
tokens and runs to its last token. Which front comes first changes from round to round. Speeds are the best of the
rounds; first tokens and the time of each further one are medians of all streams. The table is printed after every
round.
"""

import argparse
import asyncio
import contextlib
import json
import random
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection

from segue.bench.harness.served import served
from segue.bench.harness.wire import Wire, request, run

START_S = 600.0
_FEWEST_STREAMS = 16  # of a measurement: with fewer, a median of first tokens says little
_FEWEST_TO_WARM = 4
_USAGE = re.compile(rb'"completion_tokens":\s*(\d+)')


@dataclass(frozen=True)
class Front:
    """Where a server takes completions, and its name of the model."""

    host: str
    port: int
    path: str
    model: str


@dataclass(frozen=True, kw_only=True)
class Load:
    """What one process sends: so many clients, each with so many streams one after another."""

    host: str
    port: int
    path: str
    model: str
    clients: int
    streams_each: int
    num_prompt: int
    num_output: int
    seed: int
    num_ids: int = 10_000  # prompts are drawn from these


@dataclass(frozen=True)
class Result:
    """Of each stream: the time to its first token, and the time of each further one."""

    tokens: int
    first_s: list[float]
    step_s: list[float]


@dataclass
class Figures:
    """What one front reached at one number of clients, in the rounds so far."""

    speeds: list[float] = field(default_factory=list)  # tokens per second
    first_s: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)

    def add(self, result: Result, elapsed_s: float) -> None:
        self.speeds.append(result.tokens / elapsed_s)
        self.first_s += result.first_s
        self.step_s += result.step_s

    @property
    def row(self) -> tuple[float, float, float]:
        """Tokens per second; milliseconds to a first token and of each further one."""
        first, step = (statistics.median(times) * 1000 for times in (self.first_s, self.step_s))
        return max(self.speeds), first, step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 32, 128, 256])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--streams-each", type=int, default=2)
    parser.add_argument("--num-prompt", type=int, default=256)
    parser.add_argument("--num-output", type=int, default=128)
    parser.add_argument("--client-processes", type=int, default=4)
    parser.add_argument("--server-processes", type=int, default=1, help="of both servers")
    parser.add_argument("--option", action="append", default=[], help="an engine argument of vLLM")
    options = parser.parse_args()
    flags = [word for option in options.option for word in ("--vllm-option", option)]
    flags += ["--server-processes", str(options.server_processes)]
    with (
        _vllm(options.folder, options.option, options.server_processes) as port,
        served(options.folder, "--engine", "vllm", *flags) as ours,
        ProcessPoolExecutor(options.client_processes) as pool,
    ):
        fronts = {
            "vllm serve": Front("127.0.0.1", port, "/v1/completions", options.folder),
            "segue": Front(ours.host, ours.port, "/vllm/v1/completions", "default"),
        }
        _compare(fronts, options, pool)


def _compare(
    fronts: dict[str, Front], options: argparse.Namespace, pool: ProcessPoolExecutor
) -> None:
    figures = {clients: {name: Figures() for name in fronts} for clients in options.clients}
    for turn in range(options.rounds + 1):  # the first one is a warm-up
        for clients in options.clients:
            for name in in_turns(list(fronts), turn):
                load = Load(
                    **vars(fronts[name]),
                    clients=clients,
                    streams_each=streams_each(clients, options.streams_each, turn == 0),
                    num_prompt=options.num_prompt,
                    num_output=options.num_output,
                    seed=turn,
                )
                result, elapsed_s = _measure(load, pool, options.client_processes)
                if turn:
                    figures[clients][name].add(result, elapsed_s)
        if turn:
            print("\n".join(table(figures)), flush=True)


def table(figures: dict[int, dict[str, Figures]]) -> list[str]:
    """A line for each number of clients, `vllm serve` first, and all of it as JSON."""
    lines = [
        "clients   vllm serve      segue   ratio   first token p50, ms    further ones p50, ms"
    ]
    rows = {}
    for clients, found in figures.items():
        (theirs, first, step), (ours, our_first, our_step) = (each.row for each in found.values())
        speeds = f"{clients:7}{theirs:13,.0f}{ours:11,.0f}{ours / theirs:8.3f}"
        lines.append(
            f"{speeds}   {first:8.1f} / {our_first:<8.1f}   {step:8.3f} / {our_step:<8.3f}"
        )
        rows[clients] = [round(n, 3) for n in (theirs, ours, first, our_first, step, our_step)]
    return [*lines, json.dumps(rows)]


def in_turns(names: list[str], turn: int) -> list[str]:
    """Each front comes first in every other round: what a round warms or slows favours neither."""
    return names if turn % 2 else names[::-1]


def streams_each(clients: int, wanted: int, is_warm_up: bool) -> int:
    """Streams of each client, one after another: with few clients more, so that a median says something."""
    fewest = _FEWEST_TO_WARM if is_warm_up else _FEWEST_STREAMS
    return max(wanted, fewest // clients)


def _measure(load: Load, pool: ProcessPoolExecutor, processes: int) -> tuple[Result, float]:
    """What all clients got, and in how many seconds."""
    counts = [load.clients // processes + (i < load.clients % processes) for i in range(processes)]
    begun = time.perf_counter()
    running = [
        pool.submit(drive, Load(**{**vars(load), "clients": n, "seed": load.seed * 1000 + i}))
        for i, n in enumerate(counts)
        if n
    ]
    results = [each.result() for each in running]
    return _together(results), time.perf_counter() - begun


def _together(results: Sequence[Result]) -> Result:
    return Result(
        sum(result.tokens for result in results),
        [s for result in results for s in result.first_s],
        [s for result in results for s in result.step_s],
    )


def drive(load: Load) -> Result:
    """One process's share of the load."""
    return run(_drive(load))


async def _drive(load: Load) -> Result:
    clients = (_client(load, index) for index in range(load.clients))
    return _together(await asyncio.gather(*clients))


async def _client(load: Load, index: int) -> Result:
    wire = await Wire.open(load.host, load.port)
    streams = []
    for number in range(load.streams_each):
        draw = random.Random(f"{load.seed} {index} {number}")
        body = {
            "model": load.model,
            "prompt": [draw.randrange(10, load.num_ids) for _ in range(load.num_prompt)],
            "max_tokens": load.num_output,
            "temperature": 0.8,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        begun, first, last = time.perf_counter(), 0.0, b""
        async for num_events, piece in wire.events(request(body, load.path)):
            if not first and num_events:
                first = time.perf_counter()
            last = (last + piece)[-2000:]
        tokens = int(_USAGE.findall(last)[-1])
        step_s = (time.perf_counter() - first) / max(tokens - 1, 1)
        streams.append(Result(tokens, [first - begun], [step_s]))
    wire.close()
    return _together(streams)


@contextlib.contextmanager
def _vllm(folder: str, options: list[str], num_processes: int) -> Iterator[int]:
    """The port of `vllm serve` with these engine arguments."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flags = ["--api-server-count", str(num_processes)] if num_processes > 1 else []
    for name, _, value in (option.partition("=") for option in options):
        word = "--" + name.replace("_", "-")
        flags += [word] if value == "true" else [word, value]
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", folder, *flags]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + START_S
            while not _is_up(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("vllm serve did not start")
                time.sleep(0.5)
            yield port
        finally:
            process.terminate()


def _is_up(port: int) -> bool:
    with contextlib.suppress(OSError), contextlib.closing(HTTPConnection("127.0.0.1", port)) as c:
        c.request("GET", "/health")
        return c.getresponse().status == 200
    return False


if __name__ == "__main__":
    main()
