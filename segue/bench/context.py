"""What a token costs, over how much precedes it: the bare step of the CPU runner, one thread, by the processor's clock.

    python -m segue.bench.context [MODEL.gguf] [--lengths 128 512 2048] [--kv-type q8_0] [--sequences 4] [--svg FILE]

The clock is that of the process, so a busy machine does not show: figures are of one core. Each length is read in
chunks after the one before it; a token of a prompt is that of the last chunk, one of an answer the best of
several steps. Of several sequences, each with a text of its own in memory, it is a token's share of the step.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from segue import config
from segue.bench.load.plot import plot
from segue.bench.peers import model_path
from segue.engine.seam import Span
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.step.attention.kv_formats import KvType

CHUNK, STEPS = 64, 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default="default")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 256, 512, 1024, 2048, 4096])
    parser.add_argument("--kv-type", choices=get_args(KvType), default="f16")
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    lengths = sorted(options.lengths)
    runner = CpuRunner(
        model_path(options.model),
        cache_dir=config.load({}).cache_dir,
        threads=1,
        num_slots=options.sequences,
        max_rows=CHUNK * options.sequences,
        context_length=lengths[-1] + STEPS + 1,
        kv_type=options.kv_type,
    )
    print(f"{'context':>8}{'prompt, ms a token':>20}{'answer, ms a token':>20}", flush=True)
    rows = costs(runner, lengths, time.process_time, options.sequences)
    runner.close()
    if options.svg:
        lines = {
            "a token of the answer": [(length, answer) for length, _, answer in rows],
            "a token of the prompt": [(length, prompt) for length, prompt, _ in rows],
        }
        options.svg.write_text(
            plot(lines, "tokens before it", "milliseconds of one core"), encoding="utf-8"
        )
    print(json.dumps({"context": [[n, round(a, 3), round(b, 3)] for n, a, b in rows]}))


def costs(
    runner: CpuRunner, lengths: list[int], clock: Callable[[], float], sequences: int
) -> list[tuple[int, float, float]]:
    """Length, milliseconds of a prompt's token and of an answer's token there."""
    rows, past = [], 0
    for length in lengths:
        took = 0.0
        while past < length:
            tokens = [1000 + 7 * i % 4001 for i in range(past, min(past + CHUNK, length))]
            took = _share(runner, tokens, past, clock, sequences) / len(tokens)
            past += len(tokens)
        step = min(_share(runner, [5], past + more, clock, sequences) for more in range(STEPS))
        for slot in range(sequences):
            runner.trim(slot, past)
        rows.append((length, 1e3 * took, 1e3 * step))
        print(f"{length:8}{1e3 * took:20.2f}{1e3 * step:20.2f}", flush=True)
    return rows


def _share(
    runner: CpuRunner, tokens: list[int], past: int, clock: Callable[[], float], sequences: int
) -> float:
    """What a step with these tokens of every sequence takes, for each of them."""
    begun = clock()
    runner.decode([Span(slot, tokens, past, 1) for slot in range(sequences)])
    return (clock() - begun) / sequences


if __name__ == "__main__":
    main()
