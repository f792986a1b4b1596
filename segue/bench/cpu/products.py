"""y = W x alone: billions of multiply-adds per second for each type, beside the machine's peak.

    python -m segue.bench.cpu.products                      every type, all processors this process may use
    SEGUE_CPU=avx2 python -m segue.bench.cpu.products --types Q4_K,Q6_K --threads 1

One row is bound by memory (its column says how many GB/s of weights were read), many by arithmetic.
"""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from segue.cpus import usable_cpus
from segue.models.gguf import Tensor
from segue.runners.cpu.products.called import Activations, activations, multiply
from segue.runners.cpu.products.formats import FLOATS, FORMATS
from segue.runners.cpu.products.limits import peak_gmacs, read_gbytes
from segue.runners.cpu.products.matrix import Matrix, pack
from segue.runners.cpu.products.processor import this_target

ROWS = (1, 4, 16, 64)
_SAMPLES = 5


def made(kind: str, columns: int, outputs: int) -> tuple[Tensor, NDArray[np.uint8]]:
    """A tensor of random codes with usual scales: very small numbers would cost time of their own."""
    rng = np.random.default_rng(0)
    if kind == "F32":
        data = rng.standard_normal(columns * outputs).astype(np.float32).view(np.uint8)
    elif kind in FLOATS:
        data = np.full(columns * outputs, 0x3C3C, np.uint16).view(np.uint8)
    else:
        form = FORMATS[kind]
        shape = (columns // form.block * outputs, form.block_bytes)
        blocks = rng.integers(0, 256, shape, np.uint8)
        if form.is_exponent:
            blocks[:, form.scale_at] = 127
        elif form.quarters_at:
            blocks[:, form.quarters_at] = (0x60, 0x60, 0xE0, 0x20)
        elif form.scale_at is not None:
            blocks[:, form.scale_at : form.scale_at + 2] = (0x66, 0x2E)  # 0.1
        if form.min_at is not None:
            blocks[:, form.min_at : form.min_at + 2] = (0x66, 0x2E)
        data = blocks.reshape(-1)
    return Tensor("w", (columns, outputs), kind, 0, data.size), data


def best_seconds(work: Callable[[], None]) -> float:
    work()
    found = []
    for _ in range(_SAMPLES):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def measured(matrix: Matrix, given: Activations, threads: int, team: ThreadPoolExecutor) -> float:
    """Seconds of one product, its tiles shared by the threads."""
    out = np.empty((len(given.x), matrix.outputs), np.float32)
    pieces = 4 * threads
    bounds = [matrix.tiles * i // pieces for i in range(pieces + 1)]

    def work() -> None:
        list(
            team.map(
                lambda i: multiply(matrix, given, out, bounds[i], bounds[i + 1]), range(pieces)
            )
        )

    return best_seconds(work)


@click.command(help=__doc__)
@click.option("--types", default=",".join([*FORMATS, *FLOATS]), show_default=True)
@click.option("--threads", type=int, default=None, help="all processors, unless given")
@click.option("--columns", type=int, default=2048, show_default=True)
@click.option("--outputs", type=int, default=32768, show_default=True)
def main(types: str, threads: int | None, columns: int, outputs: int) -> None:
    threads = threads or usable_cpus()
    target = this_target()
    rng = np.random.default_rng(1)
    inputs = {
        rows: activations(rng.standard_normal((rows, columns)).astype(np.float32)) for rows in ROWS
    }
    peak = peak_gmacs(target, threads)
    bandwidth = read_gbytes(target, threads, rng.integers(0, 256, 128 << 20, np.uint8))
    figures: dict[str, dict[str, float]] = {}
    with ThreadPoolExecutor(threads) as team:
        for kind in types.split(","):
            tensor, data = made(kind, columns, outputs)
            start = time.perf_counter()
            (matrix,) = pack([tensor], [data], target, threads)
            seconds = time.perf_counter() - start
            own: dict[str, float] = {
                "start_s": seconds,
                "bits": matrix.num_bytes * 8 / columns / outputs,
            }
            for rows, given in inputs.items():
                took = measured(matrix, given, threads, team)
                own[f"gmacs_{rows}"] = rows * columns * outputs / took / 1e9
                if rows == 1:
                    own["gbytes"] = matrix.num_bytes / took / 1e9
            figures[kind] = {name: float(f"{value:.3g}") for name, value in own.items()}
    _show(figures, f"{target.flavour.name}, {threads} threads; dot products at most {peak:.0f} GMAC/s; "
          f"memory {bandwidth:.1f} GB/s")  # fmt: skip
    said = {"flavour": target.flavour.name, "cpu": target.cpu, "threads": threads}
    limits = {"peak_gmacs": round(peak, 1), "memory_gbytes": round(bandwidth, 1)}
    print(json.dumps({**said, **limits, "columns": columns, "outputs": outputs, "types": figures}))


def _show(figures: dict[str, dict[str, float]], title: str) -> None:
    table = Table(title=title)
    names = list(next(iter(figures.values())))
    for name in ("type", *names):
        table.add_column(name, justify="right")
    for kind, own in figures.items():
        table.add_row(kind, *(f"{own[name]:.1f}" for name in names))
    Console().print(table)


if __name__ == "__main__":
    main()
