"""Tokens per second through the whole front: HTTP, rendering, the worker's messages; everything but a model.

    python -m segue.bench.front [--streams 64] [--tokens 400] [--server-processes 1] [--client-processes 1] [--rounds 1]

Starts `segue serve --runner fake` and reads streams over loopback. Clients, server and worker share the machine, so
the figure is a lower bound of what the server does alone; processor time does not depend on that.
"""

import argparse
import asyncio
import json
import re
import time
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from segue.bench.harness.served import Served, served


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--server-processes", type=int, default=1)
    parser.add_argument("--client-processes", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1, help="requests of a stream, in turn")
    options = parser.parse_args()
    slots = max(64, min(options.streams, 256))
    flags = ("--num-slots", f"{slots}", "--server-processes", f"{options.server_processes}")
    with served("--runner", "fake", *flags) as server:
        loads = shares(server, options)
        measure(server, loads, options.client_processes)


class Load(NamedTuple):
    """What one client process asks for."""

    server: Served
    streams: int  # at once
    tokens: int  # of a request
    rounds: int = 1  # requests of a stream, one after another, each on a connection of its own


def shares(server: Served, options: argparse.Namespace) -> list[Load]:
    """The streams, divided among client processes."""
    count = options.client_processes
    each = [options.streams // count + (i < options.streams % count) for i in range(count)]
    return [Load(server, streams, options.tokens, options.rounds) for streams in each]


def measure(server: Served, loads: list[Load], num_clients: int) -> None:
    """Read the streams, and print what it took."""
    with ProcessPoolExecutor(num_clients) as clients:
        list(clients.map(_client, [Load(server, 4, 50)] * num_clients))  # warm up
        before = server.cpu_seconds()
        begun = time.perf_counter()
        tokens = sum(clients.map(_client, loads))
        elapsed = time.perf_counter() - begun
        used = {name: cpu - before.get(name, 0.0) for name, cpu in server.cpu_seconds().items()}
    several = len(server.server_pids) or 1
    streams = sum(load.streams for load in loads)
    requests = streams * loads[0].rounds
    print(f"{streams} streams, {several} server processes, {tokens} tokens in {elapsed:.2f} s")
    print(f"tokens per second   {tokens / elapsed:10,.0f}")
    print(f"requests per second {requests / elapsed:10,.0f}")
    for name, seconds in used.items():
        each = f"{seconds / tokens * 1e6:.0f} µs a token, {seconds / requests * 1e6:.0f} a request"
        print(f"CPU of {name:10} {seconds / elapsed:10.0%}   {each}")
    result = {
        "tokens_per_s": round(tokens / elapsed),
        "requests_per_s": round(requests / elapsed),
        "streams": streams,
        "server_processes": several,
    }
    print(json.dumps(result | {f"cpu_{name}_s": round(s, 3) for name, s in used.items()}))


def _client(load: Load) -> int:
    return asyncio.run(_load(load))


async def _load(load: Load) -> int:
    return sum(await asyncio.gather(*(_rounds(load, seed) for seed in range(load.streams))))


async def _rounds(load: Load, seed: int) -> int:
    host, port = load.server.host, load.server.port
    return sum([await _stream(host, port, seed, load.tokens) for _ in range(load.rounds)])


async def _stream(host: str, port: int, seed: int, tokens: int) -> int:
    """Read one stream with as little work as possible; the usage at its end has the number of tokens."""
    body = json.dumps(
        {
            "prompt": f"stream {seed}",
            "max_tokens": tokens,
            "seed": seed,
            "stream": True,
            "stream_options": {"include_usage": True},
            "logit_bias": {"256": -100},
        }
    ).encode()
    reader, writer = await asyncio.open_connection(host, port)
    head = (
        f"POST /v1/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    tail = b""
    while data := await reader.read(1 << 16):
        tail = (tail + data)[-2000:]
    writer.close()
    found = re.findall(rb'"completion_tokens":(\d+)', tail)
    if not found or b"[DONE]" not in tail:
        raise SystemExit(f"a stream broke off: {tail[-300:]!r}")
    return int(found[-1])


if __name__ == "__main__":
    main()
