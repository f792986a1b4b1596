"""Mixed load for any time: streams, disconnects, bad input, bursts of requests, and a worker killed now and then.

    python -m segue.bench.soak [--minutes 10] [--kill-every 60] [MODEL and flags of segue serve]...

Ends with exit code 1 if a slot leaked, a seeded stream changed, memory grew, or an answer was malformed.
A killed worker's memory starts again, so only the server's is checked; with `--kill-every 0` both are.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from segue.bench.harness.served import Served, served
from segue.bench.harness.wire import Wire, get, request, run

LIMITS = ("--max-queue", "48", "--num-slots", "16", "--step-timeout", "30")
QUIET_S = 60.0  # the longest that the last requests may take to be gone
PATIENCE_S = 300.0  # with a machine that is too busy to restart or serve anything in the time given
MAX_GROWTH = 0.05
WARM_S = 60.0  # memory after this time and at the end is reported
SAMPLE_S = 0.5
WINDOW = 60  # samples, of which the least is reported
BURST = 150
BACK_OFF_S = 0.2  # for refused clients: far less than Retry-After, so that requests collide
REFUSALS = {400: "bad", 413: "bad", 415: "bad", 429: "refused", 503: "unavailable"}

_TEXT = re.compile(rb'"text":"((?:[^"\\]|\\.)*+)')
STREAM = {"max_tokens": 200, "stream": True, "ignore_eos": True, "logprobs": 1}
BAD: tuple[bytes, ...] = (
    b"",
    b"null",
    b"[" * 100_000,
    b'{"prompt":',
    b'{"prompt":""}',
    b'{"prompt":"a","n":1e400}',
    b'{"prompt":[-1]}',
    b'{"prompt":[2147483647]}',
    b'{"prompt":"\\ud800","n":-1}',
    b'{"prompt":"a","logit_bias":{"2147483646":1}}',
    b'{"prompt":"a","temperature":"hot"}',
    b'{"prompt":"a","grammar":"root ::= ("}',
    b'{"prompt":"a","guided_regex":"("}',
    b'{"prompt":"%b"}' % (b"word " * 200_000),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        epilog="What follows is for segue serve: a model, flags. Without it the fake runner serves.",
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kill-every", type=float, default=60.0, help="seconds; 0: never")
    options, arguments = parser.parse_known_args()
    with served(*LIMITS, *(arguments or ["--runner", "fake"])) as server:
        soak = Soak(server)
        figures = run(soak.run(options.minutes * 60, options.kill_every))
    for name, value in figures.items():
        print(f"{name:18} {value}")
    print(json.dumps(figures))
    sys.exit(1 if is_unsound(figures) else 0)


def is_unsound(figures: dict[str, Any]) -> bool:
    return bool(
        figures["leaked_slots"]
        or figures["changed"]
        or figures["broken"]
        or figures["memory_growth"] > MAX_GROWTH
        or not figures["finished"]
    )


class Resident(NamedTuple):
    """Bytes at one moment."""

    at_s: float
    server: int
    worker: int


def memory_figures(samples: list[Resident], has_kills: bool) -> dict[str, float]:
    """Growth compares the least in each third, so that the peak of one large request does not count."""
    judged = ("server",) if has_kills else ("server", "worker")
    sizes = [sum(getattr(each, name) for name in judged) for each in samples]
    third = max(len(sizes) // 3, 1)
    before, after = min(sizes[third : 2 * third] or sizes), min(sizes[-third:])
    first = [i for i, each in enumerate(samples) if each.at_s >= WARM_S][:WINDOW] or [-1]
    windows = {"warm": [samples[i] for i in first], "end": samples[-len(first) :]}
    figures = {
        f"{name}_mib_{when}": round(min(getattr(each, name) for each in window) / 2**20, 1)
        for name in judged
        for when, window in windows.items()
    }
    warm, end = (sum(figures[f"{name}_mib_{when}"] for name in judged) for when in windows)
    return {
        **figures,
        "end_to_warm": round(end / warm, 4),
        "memory_growth": round(after / before - 1, 4),
    }


class Soak:
    def __init__(self, server: Served) -> None:
        self._server = server
        self._counts: Counter[str] = Counter()
        self._texts: dict[int, bytes] = {}  # by seed, the first time
        self._recoveries: list[float] = []
        self._memory: list[Resident] = []
        self._is_deterministic = False

    async def run(
        self, seconds: float, kill_every_s: float, min_restarts: int = 0
    ) -> dict[str, Any]:
        """Run for so long, and until `min_restarts` workers were restarted and a request was served after."""
        status = json.loads((await self._get("/health")).body)
        self._is_deterministic = bool(status.get("deterministic"))
        actors = [
            *[self._repeat(self._read_stream) for _ in range(4)],
            *[self._repeat(self._leave) for _ in range(4)],
            *[self._repeat(self._ask) for _ in range(4)],
            *[self._repeat(self._spoil) for _ in range(2)],
            self._burst(),
            self._kill(kill_every_s),
            self._watch_memory(),
        ]
        tasks = [asyncio.create_task(actor) for actor in actors]
        await asyncio.sleep(seconds)
        patience = time.monotonic() + PATIENCE_S
        while time.monotonic() < patience and (
            len(self._recoveries) < min_restarts or not self._counts["finished"]
        ):
            await asyncio.sleep(SAMPLE_S)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        names = ("finished", "left", "refused", "unavailable", "bad", "died", "broken", "changed")
        return {
            "seconds": round(seconds),
            "requests": self._counts["requests"],
            **{name: self._counts[name] for name in names},
            "restarts": len(self._recoveries),
            "slowest_recovery_s": round(max(self._recoveries, default=0.0), 2),
            "leaked_slots": await self._leaked(),
            **memory_figures(self._memory, has_kills=kill_every_s > 0),
        }

    # --- the actors -------------------------------------------------------------------------------

    async def _repeat(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            self._counts["requests"] += 1
            await self._safely(act)

    async def _safely(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await act()
        except (OSError, EOFError) as error:
            self._note_end(f"{error}")
            await asyncio.sleep(BACK_OFF_S)

    async def _read_stream(self) -> None:
        """Read a stream to its end; the same seed must always give the same text."""
        seed = random.randrange(8)
        body = {**STREAM, "prompt": f"Story {seed}:", "seed": seed}
        wire = await self._open()
        try:
            pieces = [piece async for _, piece in wire.events(request(body))]
        finally:
            wire.abort()
        said = b"".join(pieces)
        if b'"error"' in said:
            self._counts["died"] += 1
            return
        text = b"".join(_TEXT.findall(said))
        if self._is_deterministic and self._texts.setdefault(seed, text) != text:
            self._counts["changed"] += 1
        self._note_good()

    async def _leave(self) -> None:
        wire = await self._open()
        body = {
            **STREAM,
            "prompt": f"Never mind {random.random()}",
            "stream": random.random() < 0.7,
        }
        asking = asyncio.ensure_future(wire.ask(request(body)))
        try:
            answered, _ = await asyncio.wait([asking], timeout=random.choice([0.0, 0.01, 0.1, 0.5]))
            if answered:  # so soon only if it was refused
                await asyncio.sleep(BACK_OFF_S)
        finally:
            (wire.abort if random.random() < 0.5 else wire.close)()
            asking.cancel()
            await asyncio.wait([asking])
        self._counts["left"] += 1

    async def _ask(self) -> None:
        wire = await self._open()
        try:
            answer = await wire.ask(request({"prompt": f"Q {random.random()}", "max_tokens": 8}))
        finally:
            wire.abort()
        self._note(answer.status)
        if answer.status == 503:
            await asyncio.sleep(BACK_OFF_S)

    async def _spoil(self) -> None:
        wire = await self._open()
        try:
            self._note((await wire.ask(request(random.choice(BAD)))).status)
        finally:
            wire.abort()
        await asyncio.sleep(0.05)

    async def _burst(self) -> None:
        """Now and then, send far more requests than the queue holds."""
        while True:
            await asyncio.sleep(7.0)
            self._counts["requests"] += BURST
            await asyncio.gather(*(self._safely(self._ask) for _ in range(BURST)))

    async def _kill(self, every_s: float) -> None:
        while every_s > 0:
            await asyncio.sleep(every_s)
            worker = self._server.worker_pid()
            if worker is None:
                continue
            before = await self._restarts()
            killed_at = time.monotonic()
            os.kill(worker, signal.SIGKILL)
            await self._recovery(before)
            self._recoveries.append(time.monotonic() - killed_at)

    async def _recovery(self, before: int) -> None:
        """Until it serves again. A busy server says for a while that all is well: it has not noticed."""
        while (await self._get("/health")).status != 200 or await self._restarts() <= before:
            await asyncio.sleep(0.05)

    async def _restarts(self) -> int:
        """As the server counts them; 0 while it does not say."""
        lines = (await self._get("/metrics")).body.splitlines()
        counts = [line.split()[-1] for line in lines if line.startswith(b"segue_restarts_total")]
        return sum(int(float(count)) for count in counts)

    async def _watch_memory(self) -> None:
        begun = time.monotonic()
        while True:
            resident = self._server.resident_bytes()
            at_s = time.monotonic() - begun
            self._memory.append(Resident(at_s, resident["server"], resident.get("worker", 0)))
            await asyncio.sleep(SAMPLE_S)

    # --- accounts ---------------------------------------------------------------------------------

    def _note(self, status: int) -> None:
        if status == 200:
            self._note_good()
        else:
            self._counts[REFUSALS.get(status, "broken")] += 1

    def _note_good(self) -> None:
        self._counts["finished"] += 1

    def _note_end(self, why: str) -> None:
        status = why.partition(" ")[0]
        self._counts[REFUSALS.get(int(status), "broken") if status.isdigit() else "broken"] += 1

    async def _leaked(self) -> int:
        """How many requests still run or wait after all clients have ended."""
        deadline = time.monotonic() + QUIET_S
        while True:
            answer = await self._get("/vllm/load")
            load = json.loads(answer.body)["server_load"] if answer.status == 200 else 1
            if not load or time.monotonic() > deadline:
                return int(load)
            await asyncio.sleep(0.2)

    async def _get(self, path: str) -> Any:
        wire = await self._open()
        try:
            return await wire.ask(get(path))
        finally:
            wire.abort()

    async def _open(self) -> Wire:
        return await Wire.open(self._server.host, self._server.port)


if __name__ == "__main__":
    main()
