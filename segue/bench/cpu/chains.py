"""Steps one by one beside steps that are begun ahead, on the bare CPU runner: tokens per second of both.

    python -m segue.bench.cpu.chains [MODEL.gguf] [--threads 2] [--rows 1 --rows 32] [--work-us 45]

One by one: decode(), then draw(), then the next step with the drawn tokens. Ahead: the next step is begun before the
one before has ended. `--work-us` of Python are done for every token in either case, as an engine that writes texts and
events would do it: one by one the kernels wait for it, ahead it is done while the next step runs. The tokens of both
are compared. Figures are the best of several rounds.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from segue import config
from segue.bench.peers import model_path
from segue.cpus import usable_cpus
from segue.engine.seam import Cut, Draw, Span
from segue.runners.cpu.runner import CpuRunner

ROWS = (1, 8, 32)
CONTEXT, STEPS = 32, 64
CUTS = (Cut("top_k", 0.0, 40), Cut("top_p", 0.95, 0), Cut("scale", 0.8, 0))

Work = Callable[[int], None]  # is given how many tokens there are
Tokens = list[list[int]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default="default")
    parser.add_argument("--threads", type=int, default=usable_cpus())
    parser.add_argument("--rows", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work-us", type=float, default=0.0, help="of Python for every token")
    options = parser.parse_args()
    all_rows = options.rows or ROWS
    path = model_path(options.model)
    runner = CpuRunner(
        path,
        cache_dir=config.load({}).cache_dir,
        threads=options.threads,
        num_slots=max(all_rows),
        max_rows=max(256, *all_rows),
        context_length=1024,
    )
    print(f"{Path(path).name}, {options.threads} threads, {options.work_us} µs of Python per token")
    for rows in all_rows:
        print(json.dumps(_compared(runner, rows, options.rounds, options.work_us)), flush=True)
    runner.close()


def _compared(runner: CpuRunner, rows: int, rounds: int, work_us: float) -> dict[str, float]:
    def work(count: int) -> None:
        end = time.perf_counter() + count * work_us / 1e6
        while time.perf_counter() < end:
            pass

    best = {one_by_one: 0.0, ahead: 0.0}
    for turn in range(rounds + 1):  # the first warms up
        found: list[Tokens] = []
        for way in best:
            with _prompts(runner, rows):
                start = time.perf_counter()
                found.append([*way(runner, rows, work)])
                speed = rows * STEPS / (time.perf_counter() - start)
            best[way] = max(best[way], speed) if turn else 0.0
        if found[0] != found[1]:
            raise SystemExit("the two ways drew different tokens")
    alone, chained = best.values()
    return {
        "rows": rows,
        "one_by_one": round(alone),
        "ahead": round(chained),
        "ratio": round(chained / alone, 3),
    }


@contextmanager
def _prompts(runner: CpuRunner, rows: int) -> Iterator[None]:
    """The sequences of a round: read before it, freed after it."""
    for slot in range(rows):
        tokens = [1000 + (7 * i + 31 * slot) % 4001 for i in range(CONTEXT)]
        runner.decode([Span(slot, tokens, 0, 0)])
    yield
    for slot in range(rows):
        runner.free(slot)


def _draws(rows: int, step: int) -> list[Draw]:
    return [Draw(row, (0.37 * row + 0.61 * step) % 1.0, CUTS) for row in range(rows)]


def _spans(tokens: list[int], step: int) -> list[Span]:
    return [Span(slot, [token], CONTEXT + step, 1) for slot, token in enumerate(tokens)]


def one_by_one(runner: CpuRunner, rows: int, work: Work) -> Iterator[list[int]]:
    tokens = [5] * rows
    for step in range(STEPS):
        runner.decode(_spans(tokens, step))
        tokens = [token or 0 for token in runner.draw(_draws(rows, step))]
        work(rows)
        yield tokens


def ahead(runner: CpuRunner, rows: int, work: Work) -> Iterator[list[int]]:
    runner.begin(_spans([5] * rows, 0), _draws(rows, 0))
    for step in range(1, STEPS + 1):
        if step < STEPS:
            runner.begin(_spans([-1 - i for i in range(rows)], step), _draws(rows, step))
        tokens = [token or 0 for token in runner.end().tokens]
        work(rows)
        yield tokens


if __name__ == "__main__":
    main()
