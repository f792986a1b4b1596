"""The bare step of the CPU runner: the hash of its logits, tokens per second, and the time of each phase.

    python -m segue.bench.step [MODEL.gguf] [--threads 2 --threads 16] [--flavour avx2 ...] [--phases]

The hash must be the same for every number of threads, every flavour and every machine. Figures are the best of several
rounds, 128 tokens of context, and prompts of 512 in chunks of 256. `--phases` runs each kind of phase alone.
"""

import argparse
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from segue import config
from segue.bench.peers import model_path
from segue.cpus import usable_cpus
from segue.engine.seam import Span
from segue.runners.cpu.products.processor import VARIABLE, possible, this_target
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.step import board as on

ROWS = (1, 2, 4, 8, 16, 32)
CONTEXT, CHUNK, PROMPT = 128, 256, 512
HASHED = 64
NAMES = {
    on.NORM: "norm",
    on.PRODUCT: "product",
    on.HEADS: "heads",
    on.ATTEND: "attend",
    on.QUANTISE: "quantise",
    on.GATED: "gated",
    on.WHOLE_NORMS: "whole norms",
    on.CLAMP: "clamp",
    on.ROUTE: "route",
    on.SORT: "sort",
    on.GATHER: "gather",
    on.EXPERTS: "sort and experts",
    on.EXPERTS_DOWN: "sort and down",
    on.COMBINE: "combine",
    on.LOGITS: "logits",
    on.LAYER_INPUTS: "inputs of layers",
    on.LAYER_GATE: "gate of layers",
    on.LATENT_KEYS: "keys of latents",
    on.LATENT_QUERIES: "queries of latents",
    on.LATENT_PRODUCTS: "products of heads",
    on.LATENT_ATTEND: "attend to latents",
    on.CONVOLVE: "convolve",
    on.DELTA: "delta net",
    on.SCAN: "scan",
    on.MAMBA_GATE: "gate of scans",
    on.NARROW: "narrow rows",
    on.SELECT: "scan",
    on.PART: "part heads",
    on.SHIFT: "shift",
    on.BEND: "bend",
    on.WKV: "wkv",
    on.WKV6: "wkv",
    on.GATE_ROWS: "gate of rows",
    on.ADAPT: "adapt",
    on.SPREAD: "spread streams",
    on.PREDICT: "predict streams",
    on.CORRECT: "correct streams",
    on.PART_STREAMS: "part streams",
    on.MERGE_STREAMS: "merge streams",
    on.SPARSE: "activate few",
}
COUNTED = (on.EXPERTS, on.EXPERTS_DOWN)  # their pieces are counted by SORT, some phases before


_clock = time.perf_counter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default="default")
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--flavour", action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long", type=int, default=0, help="also read a prompt of so many tokens")
    parser.add_argument("--phases", action="store_true")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="by the processor's clock: a busy machine, one thread",
    )
    options = parser.parse_args()
    if options.cpu_time:
        global _clock
        _clock = time.process_time
    path = model_path(options.model)
    names = ", ".join(flavour.name for flavour in possible())
    print(f"{Path(path).name}; this processor can run {names}")
    for flavour in options.flavour or [""]:
        for threads in options.threads or [usable_cpus()]:
            _measure(path, flavour, threads, options.rounds, options.long, options.phases)


def _measure(path: str, flavour: str, threads: int, rounds: int, long: int, phases: bool) -> None:
    target = this_target({VARIABLE: flavour})
    start = time.perf_counter()
    runner = CpuRunner(
        path,
        cache_dir=config.load({}).cache_dir,
        threads=threads,
        num_slots=max(ROWS),
        max_rows=CHUNK + max(ROWS),
        context_length=max(PROMPT, long) + CHUNK,
        target=target,
    )
    took = time.perf_counter() - start
    print(f"\n{target.flavour.name}, {threads} threads: loaded in {took:.1f} s")
    logits = runner.decode([Span(0, range(100, 100 + HASHED), 0, HASHED)])
    print(f"  SHA-256 of {HASHED} rows of logits: {hashlib.sha256(logits.tobytes()).hexdigest()}")
    runner.free(0)
    print("  rows: tokens per second", end="")
    for rows in ROWS:
        print(f"  {rows}: {rows / _decoding(runner, rows, rounds):.0f}", end="", flush=True)
    print()
    for length in filter(None, (PROMPT, long)):
        speed = length / _best(rounds, lambda n=length: _read(runner, n))  # type: ignore[misc]
        print(f"  prompt of {length}: {speed:.0f} tokens per second")
    if phases:
        _phases(runner, rounds)
    runner.close()


def _best(rounds: int, work: Callable[[], None]) -> float:
    times = []
    for _ in range(rounds):
        start = _clock()
        work()
        times.append(_clock() - start)
    return min(times)


def _tokens(count: int) -> list[int]:
    return [1000 + 7 * i % 4001 for i in range(count)]


def _read(runner: CpuRunner, length: int) -> None:
    tokens = _tokens(length)
    for past in range(0, length, CHUNK):
        runner.decode([Span(0, tokens[past : past + CHUNK], past, 1)])
    runner.free(0)


def _decoding(
    runner: CpuRunner, rows: int, rounds: int, some: NDArray[np.int64] | None = None
) -> float:
    """Seconds per step. With `some`, of these instructions alone, after the whole program has made what they read."""
    steps, held = 8, CONTEXT
    for slot in range(rows):
        runner.decode([Span(slot, _tokens(CONTEXT), 0, 0)])

    def work() -> None:
        nonlocal held
        for step in range(steps):
            runner.decode([Span(slot, [5], held + step, 1) for slot in range(rows)])
        if not runner.capabilities.can_trim:  # with states: contexts grow a little
            held += steps
            return
        for slot in range(rows):
            runner.trim(slot, CONTEXT)

    with _instead(runner, some, work):
        seconds = _best(rounds, work) / steps
    for slot in range(rows):
        runner.free(slot)
    return seconds


def _reading(runner: CpuRunner, rounds: int, some: NDArray[np.int64] | None = None) -> float:
    """Seconds per prompt; `some` as in _decoding."""

    def work() -> None:
        _read(runner, PROMPT)

    with _instead(runner, some, work):
        return _best(rounds, work)


@contextmanager
def _instead(
    runner: CpuRunner, some: NDArray[np.int64] | None, work: Callable[[], None]
) -> Iterator[None]:
    """Do the work once with the whole program, then let the runner run `some` of it."""
    if some is None:
        yield
        return
    whole = runner.program.copy()
    work()
    runner.run_instead(some)
    yield
    runner.run_instead(whole)


def _phases(runner: CpuRunner, rounds: int) -> None:
    """Milliseconds of each kind of phase alone."""
    for rows in (1, 8, 32):
        print(f"  {rows} rows:", _parts(runner, partial(_decoding, runner, rows, rounds)))
    print(f"  prompt of {PROMPT}:", _parts(runner, partial(_reading, runner, rounds)))


def _parts(runner: CpuRunner, measure: Callable[[NDArray[np.int64] | None], float]) -> str:
    whole = runner.program.copy()
    said = [f"all {1e3 * measure(None):.2f} ms"]
    for kind, name in NAMES.items():
        if kind in whole[:, 0]:
            said.append(f"{name} {1e3 * measure(_alone(whole, kind)):.2f}")
    return ", ".join(said)


def _alone(whole: NDArray[np.int64], kind: int) -> NDArray[np.int64]:
    """A program of nothing but phases of this kind, and what counts their pieces, at their places."""
    kinds = [kind, on.SORT] if kind in COUNTED else [kind]
    some = whole.copy()
    some[~np.isin(whole[:, 0], kinds), 0] = on.NOTHING
    return some


if __name__ == "__main__":
    main()
