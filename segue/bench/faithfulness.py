"""How far each runner's next-token distributions are from the model itself, computed in float32.

    python -m segue.bench.faithfulness MODEL.gguf [--runner cpu] [--runner llama] [--kv-type f16] [--kv-type q8_0]

Mean Kullback-Leibler divergence over a fixed text of more than a thousand tokens. The last line is JSON.
"""

import argparse
import json
import time
from importlib import resources
from itertools import product
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from segue.bench.harness.reference import Reference, without_reference
from segue.config import user_cache_dir
from segue.engine.seam import Loader, Runner, Span
from segue.errors import Incompatible
from segue.models import gguf
from segue.runners.cpu.architectures.support import supports
from segue.runners.cpu.loader import CpuLoader
from segue.runners.cpu.step.attention.kv_formats import KvType
from segue.runners.llama.runner import LlamaLoader, LlamaVocab

Array = NDArray[np.float64]

CHUNK = 256
MOST = 0.01  # divergence of a runner from the reference
APART = 0.005  # between the divergences of two runners


class Result(NamedTuple):
    divergence: float  # mean, in nats
    worst: float  # of any position
    agreement: float  # how often the likeliest token is the same
    loss: float  # mean negative log-probability of the text
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("--runner", action="append", choices=["cpu", "llama"])
    parser.add_argument("--kv-type", action="append", choices=get_args(KvType))
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--cache-dir", default=str(user_cache_dir()))
    options = parser.parse_args()
    header = gguf.header(options.model)
    if obstacle := supports(header) or without_reference(header):
        raise Incompatible(f"there is no reference for this model: {obstacle}")
    vocab = LlamaVocab(options.model)
    tokens = vocab.tokenize(passage(), True, False)
    vocab.close()
    truth = _log_probabilities(Reference(options.model).logits(tokens).astype(np.float64))
    print(f"{len(tokens)} tokens; loss of the reference {_loss(truth, tokens):.4f}")
    print(f"{'':10} {'mean KL':>9} {'worst KL':>9} {'same top':>9} {'loss':>8} {'seconds':>8}")
    results = {}
    for runner, kv_type in product(options.runner or ["cpu", "llama"], options.kv_type or ["f16"]):
        name = runner if kv_type == "f16" else f"{runner} {kv_type}"
        loader = _loader(runner, kv_type, options)
        results[name] = result = measure(loader, tokens, truth)
        print(
            f"{name:10} {result.divergence:9.5f} {result.worst:9.4f} {result.agreement:9.1%} "
            f"{result.loss:8.4f} {result.seconds:8.2f}"
        )
    print(json.dumps({"tokens": len(tokens), "ok": _is_faithful(results), **_plain(results)}))


def passage() -> str:
    return resources.files("segue.bench").joinpath("passage.txt").read_text(encoding="utf-8")


def measure(loader: Loader, tokens: list[int], truth: Array) -> Result:
    runner, vocab, _, *_ = loader()
    begun = time.perf_counter()
    logits = _all_logits(runner, tokens)
    seconds = time.perf_counter() - begun
    runner.close()
    vocab.close()
    found = _log_probabilities(logits)
    divergences = (np.exp(truth) * (truth - found)).sum(-1)
    return Result(
        divergence=float(divergences.mean()),
        worst=float(divergences.max()),
        agreement=float((truth.argmax(-1) == found.argmax(-1)).mean()),
        loss=_loss(found, tokens),
        seconds=seconds,
    )


def _loader(name: str, kv_type: KvType, options: argparse.Namespace) -> Loader:
    model, threads = options.model, options.threads
    if name == "llama":
        return LlamaLoader(model, name, threads=threads, max_rows=CHUNK, kv_precision=kv_type)
    return CpuLoader(
        model,
        name,
        threads=threads,
        max_rows=CHUNK,
        kv_type=kv_type,
        cache_dir=options.cache_dir,
    )


def _all_logits(runner: Runner, tokens: list[int]) -> Array:
    rows = []
    for start in range(0, len(tokens), CHUNK):
        chunk = tokens[start : start + CHUNK]
        span = Span(0, chunk, start, len(chunk))
        rows.append(runner.decode([span]).astype(np.float64))
    return np.concatenate(rows)


def _log_probabilities(logits: Array) -> Array:
    logits = logits - logits.max(-1, keepdims=True)
    found: Array = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return found


def _loss(log_probabilities: Array, tokens: list[int]) -> float:
    """Mean loss in nats per token, over all tokens but the first."""
    return -float(log_probabilities[np.arange(len(tokens) - 1), tokens[1:]].mean())


def _is_faithful(results: dict[str, Result]) -> bool:
    divergences = [result.divergence for result in results.values()]
    return max(divergences) <= MOST and max(divergences) - min(divergences) <= APART


def _plain(results: dict[str, Result]) -> dict[str, dict[str, float]]:
    return {name: result._asdict() for name, result in results.items()}


if __name__ == "__main__":
    main()
