"""How much of the bare runner's speed reaches clients: a closed loop of 32 over HTTP beside a loop of decode() alone.

    python -m segue.bench.steady [MODEL.gguf] [--clients 32] [--rounds 3]

Short prompts and long answers, so that both do the same work: steps of one row per sequence. Over HTTP two speeds are
given: of whole requests, and from each stream's first token to its last, which leaves out connecting and the prompt.
"""

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path

from segue import config
from segue.bench.harness.served import Served, served
from segue.bench.harness.wire import run
from segue.bench.peers import model_path, stream
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
            over_http.append(run(_over_http(server, options.clients, turn)))
    alone = statistics.median(bare[1:])
    whole, streamed = (statistics.median(speeds) for speeds in zip(*over_http[1:], strict=True))
    print(
        f"{options.clients} sequences, tokens per second: {alone:.0f} bare, {whole:.0f} over HTTP, "
        f"{streamed:.0f} from first token to last"
    )
    print(f"ratio {whole / alone:.2f}, from first token to last {streamed / alone:.2f}")
    figures = {"bare": alone, "http": whole, "streamed": streamed, "clients": options.clients}
    print(json.dumps({name: round(figure) for name, figure in figures.items()}))


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


async def _over_http(server: Served, clients: int, turn: int) -> tuple[float, float]:
    """Tokens per second of whole requests, and between the first and the last token of each stream."""
    url = f"http://{server.host}:{server.port}"
    begun = time.perf_counter()
    answers = await asyncio.gather(
        *(stream(url, _prompt(c), turn * 1000 + c, NUM_OUTPUT) for c in range(clients))
    )
    elapsed = time.perf_counter() - begun
    counts = [answer.data.count(b'"finish_reason":null') for answer in answers]
    streamed = sum(
        (count - 1) / (answer.last_s - answer.first_s)
        for count, answer in zip(counts, answers, strict=True)
    )
    return sum(counts) / elapsed, streamed


if __name__ == "__main__":
    main()
