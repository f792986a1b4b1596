"""Streams beside a long prompt: the time between their tokens before and while it is read, and its first token.

    python -m segue.bench.load.reading URL [--streams 1 --streams 8] [--prompt 4000] [--rounds 3]

Tokens that arrive together, as accepted draft tokens do, count as one. The server must take token ids as a prompt and
`ignore_eos`, as Segue, vLLM and llama.cpp's server do.
"""

import argparse
import json
import random
import statistics
import threading
import time
from collections.abc import Iterable
from http.client import HTTPConnection
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

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
    for streams in options.streams or [1]:
        for _ in range(options.rounds):
            print(json.dumps(_measure(options.url, streams, options.prompt)), flush=True)


def _measure(url: str, num_streams: int, length: int) -> dict[str, Any]:
    over = threading.Event()
    arrivals: list[Moments] = [[] for _ in range(num_streams)]
    streams = [
        threading.Thread(target=_stream, args=(url, _story(number), moments, over))
        for number, moments in enumerate(arrivals)
    ]
    for thread in streams:
        thread.start()
    while not all(arrivals):
        if not all(thread.is_alive() for thread in streams):
            raise SystemExit("a stream ended before the prompt came")
        time.sleep(0.05)
    time.sleep(SETTLING_S)
    sent, read = time.perf_counter(), Moments()
    ids = random.Random(time.time_ns()).choices(IDS, k=length)
    _stream(url, _body(ids, 1), read, threading.Event())
    over.set()
    for thread in streams:
        thread.join()
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


def _stream(url: str, body: dict[str, Any], moments: Moments, over: threading.Event) -> None:
    """Ask, and note when tokens arrive, until the answer ends or it is over."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=600)
    headers = {"content-type": "application/json"}
    path = f"{parts.path.rstrip('/')}/v1/completions"
    connection.request("POST", path, json.dumps(body), headers)
    response = connection.getresponse()
    if response.status != 200:
        raise SystemExit(f"{response.status}: {response.read()[:300]!r}")
    while not over.is_set() and (line := response.readline()):
        if line.startswith(b"data: {"):
            moments.append(time.perf_counter())
    connection.close()


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
