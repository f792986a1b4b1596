"""Streams beside a long prompt: the time between their tokens before and while it is read, and its first token.

    python -m segue.bench.load.long_prompt URL [--streams 1 --streams 8] [--prompt 4000] [--rounds 3]

Tokens that arrive together, as accepted draft tokens do, count as one. The server must take token ids as a prompt and
`ignore_eos`, as Segue, vLLM and llama.cpp's server do.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Iterable
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from segue.bench.harness.wire import Wire, request, run

SETTLING_S = 3.0  # of streams alone, after all of them have begun
TOGETHER_S = 0.001
IDS = range(1000, 5000)  # of tokens that any vocabulary has
Moments = list[float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--streams", type=int, action="append")
    parser.add_argument("--prompt", type=int, default=4000, help="its tokens")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    try:
        for streams in options.streams or [1]:
            for _ in range(options.rounds):
                print(json.dumps(run(_measure(options.url, streams, options.prompt))), flush=True)
    except* (OSError, EOFError) as errors:
        raise SystemExit(f"{options.url}: {errors.exceptions[0]}") from errors


async def _measure(url: str, num_streams: int, length: int) -> dict[str, Any]:
    arrivals: list[Moments] = [[] for _ in range(num_streams)]
    async with asyncio.TaskGroup() as group:
        streams = [
            group.create_task(_stream(url, _story(number), moments))
            for number, moments in enumerate(arrivals)
        ]
        while not all(arrivals):
            await asyncio.sleep(0.05)
        await asyncio.sleep(SETTLING_S)
        sent, read = time.perf_counter(), Moments()
        ids = random.Random(time.time_ns()).choices(IDS, k=length)
        await _stream(url, _body(ids, 1), read)
        for stream in streams:
            stream.cancel()
    return {
        "streams": num_streams,
        "prompt": length,
        "first_token_s": round(read[0] - sent, 2),
        "gap_ms": _gaps(arrivals, sent - SETTLING_S, sent),
        "gap_ms_while_reading": _gaps(arrivals, sent, read[0]),
    }


def _story(number: int) -> dict[str, Any]:
    return _body(f"Story {number} of a long day by the sea: ", 4000, seed=number, temperature=0.8)


def _body(prompt: str | list[int], max_tokens: int, **fields: float) -> dict[str, Any]:
    whole = {"prompt": prompt, "max_tokens": max_tokens, "stream": True, "ignore_eos": True}
    return {"model": "default", **whole, **fields}


async def _stream(url: str, body: dict[str, Any], moments: Moments) -> None:
    """Ask, and note when tokens arrive. Raises OSError or EOFError."""
    parts = urlsplit(url)
    wire = await Wire.open(parts.hostname or "", parts.port or 80)
    try:
        path = f"{parts.path.rstrip('/')}/v1/completions"
        async for num_events, _ in wire.events(request(body, path)):
            if num_events:
                moments.append(time.perf_counter())
    finally:
        wire.close()
    if not moments:
        raise EOFError("an answer without a token")


def _gaps(arrivals: Iterable[Moments], start: float, end: float) -> dict[str, int]:
    """Milliseconds between tokens of a stream, of those that ended in that time."""
    gaps = sorted(
        1000 * (later - before)
        for moments in arrivals
        for before, later in pairwise(moments)
        if start < later <= end and later - before > TOGETHER_S
    )
    if not gaps:
        return {}
    ninety = gaps[len(gaps) * 9 // 10]
    return {
        "median": round(statistics.median(gaps)),
        "p90": round(ninety),
        "worst": round(gaps[-1]),
    }


if __name__ == "__main__":
    main()
