"""Two servers on the same processors: the speed of each one's bare step, relative to one alone.

    python -m segue.bench.load.two_servers [MODEL.gguf] [--threads 2] [--processes 2] [--rows 8]

Each process has its own threads, so there are more threads than processors. Prints the tokens per second of each, and
their share of what one alone reaches.
"""

import argparse
import json
import subprocess
import sys
import time

from segue import config
from segue.bench.peers import model_path
from segue.cpus import usable_cpus
from segue.engine.seam import Span
from segue.runners.cpu.runner import CpuRunner

CONTEXT = 32
SECONDS = 5.0
LOADING_S = 15.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default="default")
    parser.add_argument("--threads", type=int, default=usable_cpus())
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--start", type=float, default=0.0, help="of one process: when to begin")
    options = parser.parse_args()
    if options.start:
        print(_alone(model_path(options.model), options.threads, options.rows, options.start))
        return
    before, together, after = (_at_once(n, options) for n in (1, options.processes, 1))
    alone = max(*before, *after)
    shares = [round(speed / alone, 2) for speed in together]
    print(f"alone {alone:.0f} tokens per second; {options.processes} at once {together}: {shares}")
    print(json.dumps({"alone": alone, "together": together, "shares": shares}))


def _at_once(count: int, options: argparse.Namespace) -> list[float]:
    start = time.time() + LOADING_S
    command = [sys.executable, "-m", "segue.bench.load.two_servers", options.model]
    command += ["--threads", str(options.threads), "--rows", str(options.rows)]
    processes = [
        subprocess.Popen([*command, "--start", str(start)], stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    return [round(float(process.communicate()[0])) for process in processes]


def _alone(path: str, threads: int, rows: int, start: float) -> float:
    runner = CpuRunner(
        path,
        cache_dir=config.load({}).cache_dir,
        threads=threads,
        num_slots=rows,
        max_rows=max(rows, CONTEXT),
    )
    for slot in range(rows):
        runner.decode([Span(slot, [5] * CONTEXT, 0, 0)])
    time.sleep(max(0.0, start - time.time()))
    begun, steps = time.perf_counter(), 0
    while time.perf_counter() - begun < SECONDS:
        runner.decode([Span(slot, [5], CONTEXT, 1) for slot in range(rows)])
        for slot in range(rows):
            runner.trim(slot, CONTEXT)
        steps += 1
    return steps * rows / (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
