"""Answers of the CPU runner that must be the same on every machine, as digests and as a text compressed by the model.

    python -m tests.support.known_answers        writes tests/data/known_answers.json anew

Do that only where a change of the kernels or the sampler is meant to change answers.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gguf

from examples.compress import pack
from segue import LLM
from tests.support.models.tiny_gguf import write_tiny_gguf

FILE = Path(__file__).parent.parent / "data" / "known_answers.json"

PROMPT = "Once upon a time, in a small village by the sea,"
TEXT = (
    "The lighthouse keeper wrote the same line every evening: wind from the north-west, visibility good, "
    "all lamps lit. On the last page he added a word nobody could read – “ÆØÅ”."
)
# Each sampler that computes anything takes part.
REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {"n": 3},
    "greedy": {"temperature": 0},
    "usual": {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.02},
    "penalties": {"repetition_penalty": 1.2, "presence_penalty": 0.3, "frequency_penalty": 0.2},
    "typical": {"typical_p": 0.9, "xtc_probability": 0.5, "xtc_threshold": 0.05},
    "sigma": {"top_n_sigma": 1.5, "dry_multiplier": 0.8, "dry_allowed_length": 1},
    "dynamic": {"temperature": 1.0, "dynatemp_range": 0.5, "dynatemp_exponent": 1.3},
    "mirostat": {"mirostat": 1},
    "mirostat 2": {"mirostat": 2, "post_sampling_probs": True},
    "adaptive": {"adaptive_target": 0.3, "samplers": ["min_p", "adaptive_p"], "min_p": 0.01},
    "constrained": {"guided_regex": "[a-z ]{10,30}"},
}


def known() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(FILE.read_text("utf-8"))
    return found


def answers(llm: LLM) -> dict[str, str]:
    made = {f"completion, {name}": _completion(llm, fields) for name, fields in REQUESTS.items()}
    made["infill"] = _digest([llm.infill("He said ", " and left.", max_tokens=8, seed=1).tokens])
    scores = [(s.token, s.logprob, s.rank, s.top) for s in llm.score(TEXT, 5).tokens]
    return {**made, "scores": _digest(scores), "compressed": pack(llm, TEXT).hex()}


def _completion(llm: LLM, fields: dict[str, Any]) -> str:
    answer = llm.complete(PROMPT, seed=7, max_tokens=24, logprobs=3, **fields)
    return _digest(
        [
            (choice.text, choice.tokens, [(s.logprob, s.rank, s.top) for s in choice.scores])
            for choice in answer.choices
        ]
    )


def _digest(values: list[Any]) -> str:
    """Python writes a float so that it can be read back exactly, on every machine alike."""
    return hashlib.sha256(repr(values).encode()).hexdigest()


@contextmanager
def model(name: str) -> Iterator[LLM]:
    """`embedded`, or the tiny model with weights of that type, and KV of one."""
    if name == "embedded":
        with LLM(runner="cpu") as llm:
            yield llm
        return
    with tempfile.TemporaryDirectory() as folder:
        weights, _, kv_type = name.removeprefix("tiny ").partition(", KV in ")
        kind = gguf.GGMLQuantizationType[weights]
        path = write_tiny_gguf(f"{folder}/tiny.gguf", tensor_type=kind, seed=3)
        with LLM(path, runner="cpu", kv_type=kv_type or "f16") as llm:
            yield llm


MODELS = ("tiny F32", "tiny Q8_0", "tiny Q4_1", "tiny Q4_1, KV in q8_0", "embedded")


def main() -> None:
    made = {}
    for name in MODELS:
        with model(name) as llm:
            made[name] = answers(llm)
    FILE.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
