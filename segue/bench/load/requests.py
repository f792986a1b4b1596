"""What a load generator sends in each dialect, and where its answers contain the number of tokens."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class RequestFormat:
    """`body` takes model, prompt, tokens and seed; `count` the objects of an answer."""

    path: str
    body: Callable[[str, str, int, int], Body]
    count: Callable[[list[Body]], int]


def _openai(model: str, prompt: str, tokens: int, seed: int) -> Body:
    return {
        "model": model,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0.8,
        "seed": seed,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }


def _llamacpp(model: str, prompt: str, tokens: int, seed: int) -> Body:
    fields = {"model": model, "prompt": prompt, "n_predict": tokens, "temperature": 0.8}
    return {**fields, "seed": seed, "stream": True, "ignore_eos": True}


def _ollama(model: str, prompt: str, tokens: int, seed: int) -> Body:
    options = {"num_predict": tokens, "temperature": 0.8, "seed": seed}
    return {"model": model, "prompt": prompt, "raw": True, "options": options}


def _usage(parts: list[Body]) -> int:
    for part in reversed(parts):
        if part.get("usage"):
            return int(part["usage"]["completion_tokens"])
    return sum(bool(choice.get("text")) for part in parts for choice in part.get("choices", ()))


def _predicted(parts: list[Body]) -> int:
    last = parts[-1] if parts else {}
    return int(last.get("tokens_predicted") or sum(bool(part.get("content")) for part in parts))


def _evaluated(parts: list[Body]) -> int:
    return int((parts[-1] if parts else {}).get("eval_count", 0))


REQUEST_FORMATS: Mapping[str, RequestFormat] = {
    "openai": RequestFormat("/v1/completions", _openai, _usage),
    "llamacpp": RequestFormat("/completion", _llamacpp, _predicted),
    "ollama": RequestFormat("/api/generate", _ollama, _evaluated),
}


def prompt(words: list[str], length: int, seed: int, run: int = 0) -> str:
    """A piece of the text, begun again at its end. It begins with a number that no other request has, nor one of
    another `run`, so that the prefix cache has no match."""
    start = random.Random(seed).randrange(len(words))
    return f"{run}-{seed} {' '.join(islice(cycle(words), start, start + length))}"


def objects(content: bytes) -> list[Body]:
    """The JSON objects of a stream, in any framing."""
    lines = (line.removeprefix(b"data: ") for line in content.splitlines())
    return [json.loads(line) for line in lines if line.startswith(b"{")]
