"""What slow grammars cost others: a stream with a JSON schema and one without any constraint, alone and beside them.

    python -m segue.bench.load.slow_grammars [MODEL.gguf] [--seconds 12] [--only NAME]

Each case has a server of its own. `new` is the time until the first token of a request with a schema that is not
compiled yet and comes while the slow ones run. The last line is JSON.
"""

import argparse
import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from segue.bench.harness.served import Served, served
from segue.bench.harness.wire import Wire, request, run
from segue.bench.peers import model_path

SETTLE_S = 2.0
PATIENCE_S = 20.0  # with the request that comes late
NUM_RULES = 900
ITEM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 10, "maxLength": 60},
        "year": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 2},
    },
    "required": ["name", "year", "tags"],
    "additionalProperties": False,
}


def _ambiguous(number: int) -> str:
    """One of many that differ in a character which is never drawn."""
    return f"root ::= root root root | root root | [a-z {chr(0x100 + number)}]"


def _alike(number: int) -> str:
    """Rules of which each may begin with any other: one byte takes seconds."""
    rules = [
        f'r{i} ::= [a-z{chr(0x100 + number)}] root | [a-z] r{(i * 7 + 1) % NUM_RULES} | "x"'
        for i in range(NUM_RULES)
    ]
    first = " | ".join(f"r{i}" for i in range(NUM_RULES))
    return "\n".join([f"root ::= {first}", *rules])


class Case(NamedTuple):
    num_requests: int
    grammar: Callable[[int], str]


CASES = {
    "alone": Case(0, _ambiguous),
    "six ambiguous ones": Case(6, _ambiguous),
    "six requests with one": Case(6, lambda _: _ambiguous(0)),
    "two of 900 rules": Case(2, _alike),
}


class Stream:
    """One request, and when its tokens came."""

    def __init__(self, server: Served, fields: dict[str, Any]) -> None:
        self._server = server
        self._sent = request(
            {"max_tokens": 4000, "stream": True, "ignore_eos": True, "seed": 1, **fields}
        )
        self._arrivals: list[tuple[float, int]] = []

    async def run(self) -> None:
        """A slow one may be refused."""
        wire = await Wire.open(self._server.host, self._server.port)
        with contextlib.closing(wire), contextlib.suppress(EOFError, OSError):
            async for num_events, _ in wire.events(self._sent):
                if num_events:  # else it is a sign of life only
                    self._arrivals.append((time.perf_counter(), num_events))

    @property
    def first_at(self) -> float | None:
        return self._arrivals[0][0] if self._arrivals else None

    def figures(self, begun: float, ended: float) -> dict[str, float]:
        within = [(at, count) for at, count in self._arrivals if begun <= at <= ended]
        times = [begun, *(at for at, _ in within), ended]
        gap_s = max(after - before for before, after in pairwise(times))
        speed = sum(count for _, count in within) / (ended - begun)
        return {"tokens_a_second": round(speed, 1), "longest_gap_s": round(gap_s, 2)}


def _guided(least: int) -> dict[str, Any]:
    schema = {"type": "array", "items": ITEM, "minItems": least}
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    return {"prompt": "A list of films as JSON: ", "temperature": 0.8, "response_format": form}


async def _measure(server: Served, case: Case, seconds: float) -> dict[str, Any]:
    guided = Stream(server, _guided(500))
    free = Stream(server, {"prompt": "Once upon a time", "temperature": 0.8})
    late = Stream(server, {**_guided(400), "max_tokens": 4})
    slow = [
        Stream(server, {"prompt": "the the the", "seed": i, "grammar": case.grammar(i)})
        for i in range(case.num_requests)
    ]
    tasks = [asyncio.create_task(each.run()) for each in (guided, free)]
    await asyncio.sleep(SETTLE_S)
    tasks += [asyncio.create_task(each.run()) for each in slow]
    begun = time.perf_counter()
    await asyncio.sleep(seconds)
    ended = time.perf_counter()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(late.run(), PATIENCE_S)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return {
        "guided": guided.figures(begun, ended),
        "free": free.figures(begun, ended),
        "new_s": None if late.first_at is None else round(late.first_at - ended, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default="default")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name, case in CASES.items():
        if name.startswith(options.only):
            with served(model_path(options.model)) as server:
                found[name] = run(_measure(server, case, options.seconds))
            print(f"{name:24}{found[name]}", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
