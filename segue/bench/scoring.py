"""Speed of scoring given text: with and without the prefix cache, per row, and over a long run.

    python -m segue.bench.scoring [MODEL] [--runner llama] [--prompts 64] [--tokens 300] [--header 250]

Up to a few hundred prompts are scored twice, with the cache and without. More are a long run in batches: memory
must stay flat, and the usage add up. The last line of the output is JSON.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from segue import exact_math
from segue.bench.harness.served import Served, served
from segue.engine.sampling.scores import score
from segue.runners.cpu.products.processor import this_target
from segue.runners.cpu.step.softmax import Softmax

LONG_RUN = 1000
BATCH = 64
VOCAB_SIZE = 49_152
NUM_TOPS = (0, 1, 5, 20)
_ROWS, _ROUNDS = 128, 7
_IDS = range(32, 256)  # ids that every model has

Prompt = list[int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", help="a GGUF file; none: the embedded model")
    parser.add_argument("--runner", default="auto")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=300, help="of each prompt")
    parser.add_argument("--header", type=int, default=250, help="of them, common to all prompts")
    parser.add_argument("--logprobs", type=int, default=1)
    options = parser.parse_args()
    exact_math.use(Softmax(this_target()))  # as the CPU runner does
    rows = {num_top: seconds_a_row(num_top) for num_top in NUM_TOPS}
    arguments = [options.model] if options.model else []
    with served(*arguments, "--runner", options.runner) as server:
        prompts = made_prompts(options.prompts, options.tokens, options.header)
        if options.prompts >= LONG_RUN:
            result = long_run(server, prompts, options.logprobs)
        else:
            result = compared(server, list(prompts), options.logprobs)
    result |= {f"us_a_row_top_{num_top}": round(s * 1e6, 1) for num_top, s in rows.items()}
    table = Table("figure", "value", title=f"scoring {options.prompts} × {options.tokens} tokens")
    for name, value in result.items():
        table.add_row(name, f"{value:,}")
    Console().print(table)
    print(json.dumps(result))


def seconds_a_row(num_top: int) -> float:
    """Processor time of scoring one row of logits, in a chunk larger than the processor's cache."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (_ROWS, VOCAB_SIZE)).astype(np.float32)
    targets = rng.integers(0, VOCAB_SIZE, _ROWS).tolist()
    times = []
    for _ in range(_ROUNDS):
        begun = time.process_time()
        score(logits, targets, num_top)
        times.append(time.process_time() - begun)
    return min(times) / _ROWS


def made_prompts(count: int, length: int, header_length: int) -> Iterator[Prompt]:
    rng = random.Random(0)
    header = rng.choices(_IDS, k=header_length)
    for _ in range(count):
        yield header + rng.choices(_IDS, k=length - header_length)


def scored(server: Served, prompts: list[Prompt], num_top: int, salt: str | None) -> int:
    """How many of the prompts' tokens were cached. Raises unless every token has its score."""
    asked = {"max_tokens": 0, "echo": True, "logprobs": num_top, "cache_prompt": salt is not None}
    answer = server.post("/v1/completions", {"prompt": prompts, "cache_salt": salt or "", **asked})
    for prompt, choice in zip(prompts, answer["choices"], strict=True):
        first, *others = choice["logprobs"]["token_logprobs"]
        if first is not None or len(others) != len(prompt) - 1 or max(others) > 0:
            raise SystemExit(f"not the scores of {len(prompt)} tokens: {len(others) + 1}")
    usage = answer["usage"]
    if (usage["prompt_tokens"], usage["completion_tokens"]) != (sum(map(len, prompts)), 0):
        raise SystemExit(f"the usage is wrong: {usage}")
    return int(usage["prompt_tokens_details"]["cached_tokens"])


def compared(server: Served, prompts: list[Prompt], num_top: int) -> dict[str, float]:
    scored(server, prompts[:1], num_top, None)  # warm up
    seconds, cpu, cached = {}, {}, 0
    for salt in (None, "bench"):
        begun, cpu_begun = time.perf_counter(), sum(server.cpu_seconds().values())
        cached = scored(server, prompts, num_top, salt)
        seconds[salt] = time.perf_counter() - begun
        cpu[salt] = sum(server.cpu_seconds().values()) - cpu_begun
    total = sum(map(len, prompts))
    return {
        "seconds_without_cache": round(seconds[None], 2),
        "seconds_with_cache": round(seconds["bench"], 2),
        "times_faster": round(seconds[None] / seconds["bench"], 2),
        "cpu_seconds_without_cache": round(cpu[None], 2),
        "cpu_seconds_with_cache": round(cpu["bench"], 2),
        "cached_tokens": cached,
        "tokens_a_second_without_cache": round(total / seconds[None]),
        "tokens_a_second_with_cache": round(total / seconds["bench"]),
    }


def long_run(server: Served, prompts: Iterator[Prompt], num_top: int) -> dict[str, float]:
    """Memory is compared from the middle of the run on: by then every cache and buffer is full."""
    num_prompts = num_tokens = num_cached = 0
    seen: list[tuple[int, dict[str, int]]] = []
    begun = time.perf_counter()
    batch: list[Prompt] = []
    for prompt in prompts:
        batch.append(prompt)
        if len(batch) == BATCH:
            num_cached += scored(server, batch, num_top, "bench")
            num_prompts += len(batch)
            num_tokens += sum(map(len, batch))
            seen.append((num_prompts, server.resident_bytes()))
            batch = []
    seconds = time.perf_counter() - begun
    settled = seen[len(seen) // 2 :]
    result: dict[str, float] = {
        "prompts": num_prompts,
        "prompt_tokens": num_tokens,
        "cached_tokens": num_cached,
        "tokens_a_second": round(num_tokens / seconds),
    }
    for name in settled[0][1]:
        counts = [count for count, _ in settled]
        sizes = [resident[name] for _, resident in settled]
        slope = float(np.polyfit(counts, sizes, 1)[0])
        result[f"{name}_mib"] = round(sizes[-1] / 2**20, 1)
        result[f"{name}_bytes_a_prompt"] = round(slope, 1)
    return result


if __name__ == "__main__":
    main()
