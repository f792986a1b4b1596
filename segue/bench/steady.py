"""How much of the bare runner's speed reaches clients: a closed loop of 32 over HTTP beside a loop of decode() alone.

    python -m segue.bench.steady [MODEL.gguf] [--clients 32] [--rounds 3]

Short prompts and long answers, so that both do the same work: steps of one row per sequence.
"""

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path

from segue import config
from segue.bench.harness.served import Served, served
from segue.bench.peers import model_path, post
from segue.cpus import usable_cpus
from segue.engine.seam import Runner, Span
from segue.runners.cpu.loader import CpuLoader

NUM_PROMPT, NUM_OUTPUT = 8, 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default="default")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    path = model_path(options.model)
    loader = CpuLoader(
        path,
        Path(path).stem,
        threads=usable_cpus(),
        max_rows=512,
        cache_dir=str(config.load({}).cache_dir),
    )
    runner = loader().runner
    bare, over_http = [], []
    with served(path, "--runner", "cpu") as server:
        for turn in range(options.rounds + 1):  # the first warms up
            bare.append(_bare(runner, options.clients))
            over_http.append(asyncio.run(_over_http(server, options.clients, turn)))
    alone, reached = statistics.median(bare[1:]), statistics.median(over_http[1:])
    print(
        f"{options.clients} sequences, tokens per second: {alone:.0f} bare, {reached:.0f} over HTTP"
    )
    print(f"ratio {reached / alone:.2f}")
    print(json.dumps({"bare": round(alone), "http": round(reached), "clients": options.clients}))


def _bare(runner: Runner, num_sequences: int) -> float:
    for slot in range(num_sequences):
        runner.free(slot)
        runner.decode([Span(slot, _prompt(slot), 0, 0)])
    begun = time.perf_counter()
    for step in range(NUM_OUTPUT):
        past = NUM_PROMPT + step
        runner.decode([Span(slot, [100 + step], past, 1) for slot in range(num_sequences)])
    return num_sequences * NUM_OUTPUT / (time.perf_counter() - begun)


def _prompt(number: int) -> list[int]:
    return [100 + (number * 7919 + i * i * 31) % 20_000 for i in range(NUM_PROMPT)]


async def _over_http(server: Served, clients: int, turn: int) -> float:
    url = f"http://{server.host}:{server.port}"
    begun = time.perf_counter()
    answers = await asyncio.gather(
        *(post(url, _prompt(c), turn * 1000 + c, NUM_OUTPUT) for c in range(clients))
    )
    tokens = sum(answer.count(b'"finish_reason":null') for _, answer in answers)
    return tokens / (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
