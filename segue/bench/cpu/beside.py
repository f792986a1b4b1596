"""The bare step of the CPU runner beside that of the wheel's llama.cpp, for files or types of weights.

    python -m segue.bench.cpu.beside FILE.gguf ... [--threads 2]
    python -m segue.bench.cpu.beside --types Q4_K,Q8_0      a llama of 0.1 B random weights for each type

1 and 8 sequences with 64 tokens of context, and a prompt of 256; no server, no sampler. Both runners are in this
process, one after the other, and the best of several rounds counts. Figures are tokens per second.
"""

import json
import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import gguf
import numpy as np
from numpy.typing import NDArray

from segue import config
from segue.bench.harness.random_weights import NUMBERS, is_made_of_bits, num_bytes, scaled
from segue.cpus import usable_cpus
from segue.engine.seam import Runner, Span
from segue.models import gguf as files
from segue.runners.cpu.products.formats import FLOATS, FORMATS
from segue.runners.cpu.runner import CpuRunner
from segue.runners.llama.runner import LlamaRunner

ROWS, PROMPT = (1, 8), 256
_CONTEXT, _STEPS, _ROUNDS = 64, 4, 5
_VOCABULARY, _WIDTH, _HEADS, _KEY_HEADS, _LAYERS, _HIDDEN = 512, 1024, 16, 4, 8, 3072
_KEYS = _WIDTH * _KEY_HEADS // _HEADS
_SHAPES = {
    "attn_q": (_WIDTH, _WIDTH),
    "attn_k": (_KEYS, _WIDTH),
    "attn_v": (_KEYS, _WIDTH),
    "attn_output": (_WIDTH, _WIDTH),
    "ffn_gate": (_HIDDEN, _WIDTH),
    "ffn_up": (_HIDDEN, _WIDTH),
    "ffn_down": (_WIDTH, _HIDDEN),
}

Speeds = dict[str, float]  # tokens per second


@click.command(help=__doc__)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@click.option("--types", default="", help="of random weights, with commas between them")
@click.option("--threads", type=int, default=None, help="all processors, unless given")
def main(paths: Sequence[str], types: str, threads: int | None) -> None:
    kinds = [kind.strip() for kind in types.split(",") if kind.strip()]
    known = {**FORMATS, **FLOATS}
    if any(kind not in known for kind in kinds):
        raise click.UsageError(f"--types takes names of {', '.join(known)}")
    if not kinds and not paths:
        raise click.UsageError("give files, or --types")
    logging.getLogger("segue").setLevel(logging.ERROR)
    told: dict[str, dict[str, list[float]]] = {}
    for path in paths:
        told[Path(path).name] = _line(Path(path).name, path, threads or usable_cpus())
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            random = write_random(Path(folder) / f"{kind}.gguf", kind)
            told[kind] = _line(kind, str(random), threads or usable_cpus())
    print(json.dumps(told))


def _line(name: str, path: str, threads: int) -> dict[str, list[float]]:
    """What is printed of one file: ours, theirs."""
    both = {key: [round(speed, 1) for speed in pair] for key, pair in compared(path, threads)}
    said = (f"{key} {a:.0f} / {b:.0f} = {a / b:.1f}" for key, (a, b) in both.items())
    print(f"{name:12}", ", ".join(said), flush=True)
    return both


def compared(path: str, threads: int) -> list[tuple[str, tuple[float, float]]]:
    num_tokens = files.header(path).n_vocab
    shape = {"threads": threads, "num_slots": max(ROWS), "max_rows": PROMPT, "context_length": 512}
    cache = config.load({}).cache_dir
    ours = _speeds(CpuRunner(path, cache_dir=cache, **shape), num_tokens)  # type: ignore[arg-type]
    theirs = _speeds(LlamaRunner(path, **shape), num_tokens)  # type: ignore[arg-type]
    return [(key, (ours[key], theirs[key])) for key in ours]


def _speeds(runner: Runner, num_tokens: int) -> Speeds:
    try:
        found = {f"{rows} rows": _decoding(runner, rows, num_tokens) for rows in ROWS}
        return found | {"prompt": _reading(runner, num_tokens)}
    finally:
        runner.close()


def _decoding(runner: Runner, rows: int, num_tokens: int) -> float:
    held = _CONTEXT
    for slot in range(rows):
        runner.decode([Span(slot, _tokens(_CONTEXT, num_tokens), 0, 0)])

    def work() -> None:  # contexts grow a little: states give no tokens back
        nonlocal held
        for _ in range(_STEPS):
            runner.decode([Span(slot, [1], held, 1) for slot in range(rows)])
            held += 1

    seconds = _best(work)
    for slot in range(rows):
        runner.free(slot)
    return rows * _STEPS / seconds


def _reading(runner: Runner, num_tokens: int) -> float:
    def work() -> None:
        runner.decode([Span(0, _tokens(PROMPT, num_tokens), 0, 1)])
        runner.free(0)

    return PROMPT / _best(work)


def _tokens(count: int, num_tokens: int) -> list[int]:
    return [7 * i % min(num_tokens, 4001) for i in range(count)]


def _best(work: Callable[[], None]) -> float:
    """Seconds."""
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def write_random(path: Path, kind: str, layers: int = _LAYERS) -> Path:
    """A llama without a vocabulary. All layers have the same weights, which takes no less time to compute."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(_VOCABULARY)
    writer.add_context_length(512)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(_HIDDEN)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    rng = np.random.default_rng(0)
    made = {name: _tensor(rng, kind, *shape) for name, shape in _SHAPES.items()}
    tensors = {f"blk.{n}.{name}": made[name] for n in range(layers) for name in _SHAPES}
    for name in ("token_embd", "output"):
        tensors[name] = _tensor(rng, kind, _VOCABULARY, _WIDTH)
    for name, tensor in tensors.items():
        shape = _SHAPES.get(name.rpartition(".")[2], (_VOCABULARY, _WIDTH))
        # As int8, of which the gguf package takes what it is told: it does not know all types.
        writer.add_tensor(f"{name}.weight", tensor.view(np.int8), shape, NUMBERS[kind])  # type: ignore[arg-type]
    norms = [f"blk.{n}.{name}" for n in range(layers) for name in ("attn_norm", "ffn_norm")]
    for name in (*norms, "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(_WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensor(rng: np.random.Generator, kind: str, rows: int, columns: int) -> NDArray[np.uint8]:
    if is_made_of_bits(kind):
        blocks = rng.integers(0, 256, num_bytes(kind, rows, columns), np.uint8)
        return scaled(kind, blocks, columns, 1.0).reshape(rows, -1)
    values = rng.standard_normal((rows, columns), np.float32) / np.float32(columns**0.5)
    quantised: NDArray[np.uint8] = gguf.quantize(values, gguf.GGMLQuantizationType[kind])
    return quantised


if __name__ == "__main__":
    main()
