"""Refusals of a full server: how fast they are, and how much they slow down admitted streams.

    python -m segue.bench.overload [--clients 1000] [--seconds 4] [--rounds 5] [--impatient] [MODEL and flags]...

The slots are busy and the queue is full all the time. Then `--clients` others send requests, on a connection each,
and retry as Retry-After says; impatient ones retry once per second. Clients, server and model share this machine, so
every round has a control: the same clients send as often to a constant answer from their own process. The loss of the
streams against the quiet phase is the plain figure; their loss against the control is caused by the server.
"""

import argparse
import asyncio
import contextlib
import json
import random
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator
from statistics import mean, median, quantiles
from typing import Any

from segue.bench.harness.served import Served, served
from segue.bench.harness.wire import Wire, request, run

NUM_SLOTS = 8
MAX_QUEUE = 8
SETTLE_S = 3.0  # time for a thousand connections
PATIENCE_S = 10.0  # first requests are spread over this time, as retries after Retry-After would be
REFUSED_REQUEST = request({"prompt": "May I come in?", "max_tokens": 1})
CONSTANT_ANSWER = (
    b"HTTP/1.1 429 Too Many Requests\r\nretry-after-ms: %d\r\ncontent-length: 0\r\n\r\n"
)

_PAUSE = re.compile(rb"retry-after-ms: (\d+)")
_LENGTH = re.compile(rb"content-length: (\d+)")

Figures = dict[str, Any]

_PHASES = ("quiet", "knocked", "control")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        epilog="What follows is for segue serve: a model, flags. Without it the fake runner serves.",
    )
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each phase")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--impatient", action="store_true", help="come again after a second")
    options, arguments = parser.parse_known_args()
    limits = ("--max-queue", f"{MAX_QUEUE}", "--num-slots", f"{NUM_SLOTS}")
    with served(*limits, *(arguments or ["--runner", "fake"])) as server:
        load = _Load(server, options.clients, options.seconds, options.impatient)
        phases = run(load.measure(options.rounds))
    figures = _figures(phases)
    _show(figures, options.clients)
    print(json.dumps({"clients": options.clients, "impatient": options.impatient, **figures}))


def _figures(phases: dict[str, list[Figures]]) -> Figures:
    speeds = {name: [each["speed"] for each in rounds] for name, rounds in phases.items()}
    figures: Figures = {f"{name}_tokens_s": round(median(s), 1) for name, s in speeds.items()}
    figures["kept"] = _ratio(speeds["knocked"], speeds["quiet"])
    figures["kept_in_control"] = _ratio(speeds["control"], speeds["quiet"])
    figures["kept_of_control"] = _ratio(speeds["knocked"], speeds["control"])
    quiet = mean(each["server_s"] for each in phases["quiet"])
    for name in ("control", "knocked"):
        delays = [delay for each in phases[name] for delay in each["delays"]]
        cuts = quantiles(delays, n=100)
        figures[f"{name}_knocks"] = len(delays)
        figures[f"{name}_p50_ms"] = round(cuts[49] * 1000, 1)
        figures[f"{name}_p99_ms"] = round(cuts[98] * 1000, 1)
        spent = sum(each["generator_s"] for each in phases[name])
        figures[f"{name}_generator_cpu_s"] = round(spent, 2)
    num_refused = figures["knocked_knocks"]
    extra = sum(each["server_s"] - quiet for each in phases["knocked"])
    figures["refusal_cpu_us"] = round(extra / num_refused * 1e6)
    figures["answered"] = sum(each["answered"] for each in phases["knocked"])
    return figures


def _ratio(speeds: list[float], others: list[float]) -> float:
    """The ratio within each round, because the speed of the machine varies between rounds."""
    return round(median(one / other for one, other in zip(speeds, others, strict=True)), 3)


def _show(figures: Figures, num_clients: int) -> None:
    print(f"{num_clients} clients refused: {figures['knocked_knocks']} refusals", end=", ")
    print(f"p50 {figures['knocked_p50_ms']} ms, p99 {figures['knocked_p99_ms']} ms", end=" ")
    print(f"(control: p99 {figures['control_p99_ms']} ms)")
    print("tokens/s of each accepted stream:", end=" ")
    print(", ".join(f"{figures[f'{name}_tokens_s']} {name}" for name in _PHASES))
    kept = (f"{figures[name]:.1%}" for name in ("kept", "kept_in_control", "kept_of_control"))
    print("speed kept: {}; in the control {}; against the control {}".format(*kept))
    print(f"CPU of the server for a refusal: {figures['refusal_cpu_us']} µs", end="; ")
    print(f"of the generator: {figures['knocked_generator_cpu_s']} s in all", end=", ")
    print(f"{figures['control_generator_cpu_s']} s in the control")


class _Load:
    def __init__(self, server: Served, num_clients: int, seconds: float, impatient: bool) -> None:
        self._server = server
        self._num_clients = num_clients
        self._seconds = seconds
        self._impatient = impatient
        self._num_tokens = 0

    async def measure(self, rounds: int) -> dict[str, list[Figures]]:
        """Phases alternate, so that other load on the machine affects all alike."""
        phases: dict[str, list[Figures]] = {name: [] for name in _PHASES}
        streams = [asyncio.create_task(self._generate(i)) for i in range(NUM_SLOTS + MAX_QUEUE)]
        await asyncio.sleep(SETTLE_S)
        for _ in range(rounds):
            phases["quiet"].append(await self._phase(_RefusedClients()))
            within_s = 1.0 if self._impatient else PATIENCE_S
            clients = self._clients(within_s)
            async with _retrying(self._server.host, self._server.port, clients):
                phases["knocked"].append(await self._phase(clients))
            pause_s = self._num_clients * self._seconds / len(clients.delays)
            async with (
                _control_server(pause_s) as port,
                _retrying("127.0.0.1", port, self._clients(pause_s)) as clients,
            ):
                phases["control"].append(await self._phase(clients))
        for task in streams:
            task.cancel()
        await asyncio.wait(streams)
        return phases

    def _clients(self, within_s: float) -> "_RefusedClients":
        return _RefusedClients(self._num_clients, self._impatient, within_s)

    async def _phase(self, clients: "_RefusedClients") -> Figures:
        await asyncio.sleep(SETTLE_S)
        clients.delays, clients.statuses = [], Counter()
        tokens, server_s = self._num_tokens, self._server.cpu_seconds()["server"]
        begun, generator_s = time.perf_counter(), time.process_time()
        await asyncio.sleep(self._seconds)
        elapsed = time.perf_counter() - begun
        return {
            "speed": (self._num_tokens - tokens) / elapsed / NUM_SLOTS,
            "server_s": self._server.cpu_seconds()["server"] - server_s,
            "generator_s": time.process_time() - generator_s,
            "delays": clients.delays,
            "answered": clients.statuses[200],
        }

    async def _generate(self, number: int) -> None:
        """One stream after another, each of another length, so that they do not all begin at once."""
        body = {
            "prompt": f"Story {number}:",
            "max_tokens": 300 + 25 * number,
            "stream": True,
            "ignore_eos": True,
            "seed": number,
        }
        while True:
            wire = await Wire.open(self._server.host, self._server.port)
            try:
                async for num_events, _ in wire.events(request(body)):
                    self._num_tokens += num_events
            except EOFError:
                await asyncio.sleep(0.1)
            finally:
                wire.abort()


class _RefusedClients:
    """The refused clients, and the answers they got."""

    def __init__(self, size: int = 0, impatient: bool = False, within_s: float = 1.0) -> None:
        self.size = size
        self.within_s = within_s  # all clients send their first request in this time
        self.delays: list[float] = []  # of refusals
        self.statuses: Counter[int] = Counter()
        self._impatient = impatient

    def note(self, answer: bytes, delay_s: float) -> float:
        """Record an answer; return the seconds to wait before the retry."""
        status = int(answer[9:12])
        self.statuses[status] += 1
        found = _PAUSE.search(answer)
        if status == 429:
            self.delays.append(delay_s)
        pause_s = 1.0 if self._impatient or found is None else int(found[1]) / 1000
        return pause_s * random.uniform(0.9, 1.1)


class _Client(asyncio.Protocol):
    """A client with as little work as possible: it shares the processor with the model."""

    def __init__(self, clients: _RefusedClients) -> None:
        self._clients = clients
        self._transport: Any = None
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._later(random.uniform(0.0, self._clients.within_s))

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        found = _LENGTH.search(head)
        if not end or (found is not None and len(body) < int(found[1])):
            return
        pause_s = self._clients.note(self._answer, time.perf_counter() - self._begun)
        self._answer = b""
        self._later(pause_s)

    def _later(self, pause_s: float) -> None:
        asyncio.get_running_loop().call_later(pause_s, self._send)

    def _send(self) -> None:
        if not self._transport.is_closing():
            self._begun = time.perf_counter()
            self._transport.write(REFUSED_REQUEST)

    def leave(self) -> None:
        self._transport.abort()


class _ConstantAnswer(asyncio.Protocol):
    """The constant answer of the control."""

    def __init__(self, pause_s: float) -> None:
        self._answer = CONSTANT_ANSWER % round(pause_s * 1000)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._answer)


@contextlib.asynccontextmanager
async def _control_server(pause_s: float) -> AsyncGenerator[int, None]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _ConstantAnswer(pause_s), "127.0.0.1", 0, backlog=2048
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextlib.asynccontextmanager
async def _retrying(
    host: str, port: int, clients: _RefusedClients
) -> AsyncGenerator[_RefusedClients, None]:
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: _Client(clients), host, port)
        for _ in range(clients.size)
    ]
    try:
        yield clients
    finally:
        for _, client in opened:
            client.leave()


if __name__ == "__main__":
    main()
