"""What a full server says to those it cannot take, how soon, and what that costs those it has taken.

    python -m segue.bench.overload [--clients 1000] [--seconds 10] [MODEL and flags of segue serve]...

A few streams run the whole time. The queue is filled; then `--clients` others knock, each about once a second on a
connection of its own, as clients do that honour Retry-After: 1. Clients, server and model share this machine: on a busy
one the times say more of it than of the server. Processor time does not: the server's for a refusal, and how many
tokens the worker makes in a second of its own.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Coroutine
from statistics import quantiles
from typing import Any

from segue.bench.served import Served, served
from segue.bench.wire import Wire, request, run

NUM_STREAMS = 4
NUM_SLOTS = 8
MAX_QUEUE = 8
SETTLE_S = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)
    options, arguments = parser.parse_known_args()
    limits = ("--max-queue", f"{MAX_QUEUE}", "--num-slots", f"{NUM_SLOTS}")
    with served(*limits, *(arguments or ["--runner", "fake"])) as server:
        figures = run(_Load(server).measure(options.clients, options.seconds))
    print(f"{options.clients} clients knocking: {figures['refused']} refusals", end=", ")
    print(f"p50 {figures['p50_ms']} ms, p99 {figures['p99_ms']} ms")
    print(f"tokens/s of each accepted stream: {figures['full']} in a full server", end=", ")
    print(f"{figures['knocked']} while they knock")
    print(f"server CPU for a refusal: {figures['refusal_cpu_us']} µs", end="; ")
    print("tokens of a stream in a CPU second of the worker:", end=" ")
    print(f"{figures['full_per_cpu_s']} and {figures['knocked_per_cpu_s']}")
    print(json.dumps(figures))


class _Load:
    def __init__(self, server: Served) -> None:
        self._server = server
        self._num_tokens = 0  # of the streams that are watched
        self._delays: list[float] = []
        self._num_others = 0  # answers that were not refusals

    async def measure(self, num_clients: int, seconds: float) -> dict[str, float]:
        watched = [self._generate(i, is_watched=True) for i in range(NUM_STREAMS)]
        others = [self._generate(i, is_watched=False) for i in range(NUM_SLOTS + MAX_QUEUE)]
        tasks = _started(watched)
        await asyncio.sleep(SETTLE_S)  # so that they are the ones that have the slots
        tasks += _started(others)
        await asyncio.sleep(SETTLE_S)
        full, full_per_cpu_s = await self._speed(seconds)
        knocking = _started([self._knock() for _ in range(num_clients)])
        await asyncio.sleep(SETTLE_S)  # a thousand connections are made
        self._delays.clear()
        before = self._cpu("server")
        knocked, knocked_per_cpu_s = await self._speed(seconds)
        spent = self._cpu("server") - before
        for task in (*tasks, *knocking):
            task.cancel()
        await asyncio.wait((*tasks, *knocking))
        cuts = quantiles(self._delays, n=100)
        return {
            "clients": num_clients,
            "refused": len(self._delays),
            "answered": self._num_others,
            "p50_ms": round(cuts[49] * 1000, 1),
            "p99_ms": round(cuts[98] * 1000, 1),
            "full": round(full, 1),
            "knocked": round(knocked, 1),
            "refusal_cpu_us": round(spent / len(self._delays) * 1e6),
            "full_per_cpu_s": round(full_per_cpu_s, 1),
            "knocked_per_cpu_s": round(knocked_per_cpu_s, 1),
        }

    async def _speed(self, seconds: float) -> tuple[float, float]:
        """Tokens of each stream in a second, and in a second of the worker's processor time."""
        before, begun, spent = self._num_tokens, time.perf_counter(), self._cpu("worker")
        await asyncio.sleep(seconds)
        elapsed, spent = time.perf_counter() - begun, self._cpu("worker") - spent
        num_tokens = (self._num_tokens - before) / NUM_STREAMS
        return num_tokens / elapsed, num_tokens / max(spent, 1e-9)

    def _cpu(self, process: str) -> float:
        return self._server.cpu_seconds().get(process, 0.0)

    async def _generate(self, number: int, is_watched: bool) -> None:
        """One stream after another, to the end of the context; refused ones are tried again."""
        body = {"prompt": f"Story {number}:", "max_tokens": 2000, "stream": True, "temperature": 0}
        while True:
            wire = await Wire.open(self._server.host, self._server.port)
            try:
                async for num_events, _ in wire.events(request({**body, "ignore_eos": True})):
                    self._num_tokens += num_events * is_watched
            except EOFError:
                await asyncio.sleep(0.1)
            finally:
                wire.abort()

    async def _knock(self) -> None:
        knock = request({"prompt": "May I come in?", "max_tokens": 1})
        wire = await Wire.open(self._server.host, self._server.port)
        try:
            while True:
                await asyncio.sleep(random.uniform(0.5, 1.5))
                begun = time.perf_counter()
                answer = await wire.ask(knock)
                if answer.status == 429:
                    self._delays.append(time.perf_counter() - begun)
                else:
                    self._num_others += 1
        finally:
            wire.abort()


def _started(coroutines: list[Coroutine[Any, Any, None]]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(coroutine) for coroutine in coroutines]


if __name__ == "__main__":
    main()
