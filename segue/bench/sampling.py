"""The cost of sampling in a step of 32 sequences: `python -m segue.bench.sampling`."""

import json
import time

import numpy as np
from msgspec.structs import replace

from segue import exact_math
from segue.engine.sampling.sampler import Sampler
from segue.engine.seam import Logits
from segue.runners.cpu.products.processor import this_target
from segue.runners.cpu.step.softmax import Softmax
from segue.types import CUT_FIRST, Sampling

NUM_SEQUENCES = 32
VOCABULARIES = (49_152, 151_936)
_WARM_UP, _STEPS = 3, 30

_USUAL = Sampling(
    top_k=40,
    top_p=0.95,
    min_p=0.05,
    temperature=0.8,
    repetition_penalty=1.1,
    presence_penalty=0.2,
    frequency_penalty=0.1,
)
CASES: dict[str, Sampling] = {
    "greedy": Sampling(temperature=0.0),
    "usual": _USUAL,
    "usual, cut first": replace(_USUAL, order=CUT_FIRST, penalty_window=64),
    "plain": Sampling(),
    "nucleus": Sampling(top_p=0.95),
    "dry": Sampling(dry_multiplier=0.8, top_k=40),
    "mirostat 2": Sampling(mirostat=2),
}
ALLOWED_MS = {"greedy": 1.0, "usual": 8.0, "usual, cut first": 8.0}  # at the smaller vocabulary


def logits_like_a_model(vocab_size: int) -> Logits:
    """Random logits like those of a language model: most tokens unlikely, a few likely."""
    rng = np.random.default_rng(0)
    rows = rng.normal(0.0, 2.0, (NUM_SEQUENCES, vocab_size))
    rows[:, : vocab_size // 100] += rng.exponential(2.5, (NUM_SEQUENCES, vocab_size // 100))
    return rows.astype(np.float32)


def milliseconds_a_step(sampling: Sampling, rows: Logits) -> float:
    """The median over steps of drawing one token for each row: processor time, as on an idle machine."""
    vocab_size = rows.shape[1]
    samplers = [Sampler(sampling, 1, i, vocab_size) for i in range(NUM_SEQUENCES)]
    prompt = np.random.default_rng(1).integers(0, vocab_size, 512).tolist()
    for sampler in samplers:
        sampler.start(prompt)
    times = []
    for position in range(_WARM_UP + _STEPS):
        logits = rows.copy()
        started = time.thread_time()
        for sampler, row in zip(samplers, logits, strict=True):
            sampler.push(sampler.sample(row, position))
        times.append(time.thread_time() - started)
    return float(np.median(times[_WARM_UP:])) * 1e3


def main() -> None:
    exact_math.use(Softmax(this_target()))  # as the CPU runner does
    figures: dict[str, float] = {}
    print(f"{'ms a step of ' + str(NUM_SEQUENCES):24}", *(f"{size:>9}" for size in VOCABULARIES))
    tables = [logits_like_a_model(size) for size in VOCABULARIES]
    for name, sampling in CASES.items():
        taken = [milliseconds_a_step(sampling, rows) for rows in tables]
        allowed = f"  (allowed {ALLOWED_MS[name]:g})" if name in ALLOWED_MS else ""
        print(f"{name:24}", *(f"{ms:9.2f}" for ms in taken), allowed)
        for size, ms in zip(VOCABULARIES, taken, strict=True):
            figures[f"{name} @{size}"] = round(ms, 3)
    print(json.dumps({"milliseconds_a_step_of_32": figures}))


if __name__ == "__main__":
    main()
