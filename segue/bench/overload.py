"""What a full server says to those it cannot take, how soon, and what that costs those it has taken.

    python -m segue.bench.overload [--clients 1000] [--seconds 4] [--rounds 5] [--impatient] [MODEL and flags]...

The slots are busy and the queue is full all the time. Then `--clients` others knock, each on a connection of its own,
and again when Retry-After says so; the impatient ones come once a second whatever it says. Clients, server and model
share this machine, so every round has a control: the same clients knock as often at nothing, an answer of constant
bytes from their own process. What streams lose against the quiet phase is the plain figure; what they lose against the
control is the server's doing.
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
SETTLE_S = 3.0  # a thousand connections are made
PATIENCE_S = 10.0  # a crowd that was told when to come back comes as if it had begun like this
KNOCK = request({"prompt": "May I come in?", "max_tokens": 1})
NOTHING = b"HTTP/1.1 429 Too Many Requests\r\nretry-after-ms: %d\r\ncontent-length: 0\r\n\r\n"

_PAUSE = re.compile(rb"retry-after-ms: (\d+)")
_LENGTH = re.compile(rb"content-length: (\d+)")

Figures = dict[str, Any]

_PHASES = ("quiet", "knocked", "control")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
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
    """Round by round, as machines get faster and slower meanwhile."""
    return round(median(one / other for one, other in zip(speeds, others, strict=True)), 3)


def _show(figures: Figures, num_clients: int) -> None:
    print(f"{num_clients} clients knocking: {figures['knocked_knocks']} refusals", end=", ")
    print(f"p50 {figures['knocked_p50_ms']} ms, p99 {figures['knocked_p99_ms']} ms", end=" ")
    print(f"(knocking at nothing: p99 {figures['control_p99_ms']} ms)")
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
        """Phases take turns, so that whatever else the machine does befalls them alike."""
        phases: dict[str, list[Figures]] = {name: [] for name in _PHASES}
        streams = [asyncio.create_task(self._generate(i)) for i in range(NUM_SLOTS + MAX_QUEUE)]
        await asyncio.sleep(SETTLE_S)
        for _ in range(rounds):
            phases["quiet"].append(await self._phase(_Crowd()))
            within_s = 1.0 if self._impatient else PATIENCE_S
            crowd = self._crowd(within_s)
            async with _knocking(self._server.host, self._server.port, crowd):
                phases["knocked"].append(await self._phase(crowd))
            pause_s = self._num_clients * self._seconds / len(crowd.delays)
            async with (
                _at_nothing(pause_s) as port,
                _knocking("127.0.0.1", port, self._crowd(pause_s)) as crowd,
            ):
                phases["control"].append(await self._phase(crowd))
        for task in streams:
            task.cancel()
        await asyncio.wait(streams)
        return phases

    def _crowd(self, within_s: float) -> "_Crowd":
        return _Crowd(self._num_clients, self._impatient, within_s)

    async def _phase(self, crowd: "_Crowd") -> Figures:
        await asyncio.sleep(SETTLE_S)
        crowd.delays, crowd.statuses = [], Counter()
        tokens, server_s = self._num_tokens, self._server.cpu_seconds()["server"]
        begun, generator_s = time.perf_counter(), time.process_time()
        await asyncio.sleep(self._seconds)
        elapsed = time.perf_counter() - begun
        return {
            "speed": (self._num_tokens - tokens) / elapsed / NUM_SLOTS,
            "server_s": self._server.cpu_seconds()["server"] - server_s,
            "generator_s": time.process_time() - generator_s,
            "delays": crowd.delays,
            "answered": crowd.statuses[200],
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


class _Crowd:
    """Those who knock, and what they were told."""

    def __init__(self, size: int = 0, impatient: bool = False, within_s: float = 1.0) -> None:
        self.size = size
        self.within_s = within_s  # all have knocked once
        self.delays: list[float] = []  # of refusals
        self.statuses: Counter[int] = Counter()
        self._impatient = impatient

    def note(self, answer: bytes, delay_s: float) -> float:
        """How long to wait before the next knock."""
        status = int(answer[9:12])
        self.statuses[status] += 1
        found = _PAUSE.search(answer)
        if status == 429:
            self.delays.append(delay_s)
        pause_s = 1.0 if self._impatient or found is None else int(found[1]) / 1000
        return pause_s * random.uniform(0.9, 1.1)


class _Knocker(asyncio.Protocol):
    """A client as light as can be: what it takes, the model lacks."""

    def __init__(self, crowd: _Crowd) -> None:
        self._crowd = crowd
        self._transport: Any = None
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._later(random.uniform(0.0, self._crowd.within_s))

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        found = _LENGTH.search(head)
        if not end or (found is not None and len(body) < int(found[1])):
            return
        pause_s = self._crowd.note(self._answer, time.perf_counter() - self._begun)
        self._answer = b""
        self._later(pause_s)

    def _later(self, pause_s: float) -> None:
        asyncio.get_running_loop().call_later(pause_s, self._knock)

    def _knock(self) -> None:
        if not self._transport.is_closing():
            self._begun = time.perf_counter()
            self._transport.write(KNOCK)

    def leave(self) -> None:
        self._transport.abort()


class _Nothing(asyncio.Protocol):
    """What the control knocks at."""

    def __init__(self, pause_s: float) -> None:
        self._answer = NOTHING % round(pause_s * 1000)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._answer)


@contextlib.asynccontextmanager
async def _at_nothing(pause_s: float) -> AsyncGenerator[int, None]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Nothing(pause_s), "127.0.0.1", 0, backlog=2048)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextlib.asynccontextmanager
async def _knocking(host: str, port: int, crowd: _Crowd) -> AsyncGenerator[_Crowd, None]:
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: _Knocker(crowd), host, port) for _ in range(crowd.size)
    ]
    try:
        yield crowd
    finally:
        for _, knocker in opened:
            knocker.leave()


if __name__ == "__main__":
    main()
