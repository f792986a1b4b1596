"""What constraints cost: a mask, and throughput at 8 clients over HTTP with and without a JSON schema, in turns.

python -m segue.bench.constraint [MODEL.gguf | fake] [--rounds 6]
"""

import argparse
import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from segue.bench.harness.served import Served, served
from segue.bench.peers import model_path
from segue.engine.constraints.compiler import Compiler
from segue.engine.constraints.guide import Guide
from segue.engine.seam import Loaded
from segue.runners.fake import FakeLoader
from segue.runners.llama.runner import LlamaLoader
from segue.types import Constraint

NUM_CLIENTS = 8
MAX_TOKENS = 96
MASK_ROUNDS = 3
SCHEMA = """{"type": "object", "properties": {
  "title": {"type": "string", "minLength": 10, "maxLength": 60},
  "year": {"type": "integer", "minimum": 1900, "maximum": 2100},
  "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 3, "maxItems": 9},
  "summary": {"type": "string", "minLength": 100}},
  "required": ["title", "year", "tags", "summary"], "additionalProperties": false}"""
CASES: dict[str, tuple[Constraint, str]] = {  # with a text that is measured at every position
    "json_schema": (
        Constraint(kind="json_schema", value=SCHEMA),
        '{"title": "A long summer in the north", "year": 1987, "tags": ["sun", "sea", "sky"], "s',
    ),
    "regex": (
        Constraint(kind="regex", value=r"([A-Z][a-z]+ ){2,9}(19|20)[0-9]{2}"),
        "Some Words In Capitals And Then 19",
    ),
    "gbnf": (
        Constraint(kind="gbnf", value='root ::= "[" (root ("," root)*)? "]" | [0-9]+ | [a-z ]+'),
        "[some words,1234,[more words,[9,8]],x",
    ),
}


def microseconds_a_mask(compiler: Compiler, loaded: Loaded) -> dict[str, list[float]]:
    """Median and 99th percentile of computing a mask and applying it to a row of logits."""
    figures: dict[str, list[float]] = {}
    row = np.zeros(loaded.runner.capabilities.vocab_size, np.float32)
    for name, (constraint, text) in CASES.items():
        grammar = compiler.compile(constraint)
        taken: dict[str, list[float]] = {"find": [], "apply": []}
        for _ in range(MASK_ROUNDS):
            guide = Guide(grammar)
            for token in loaded.vocab.tokenize(text, False, False):
                started = time.perf_counter()
                guide.accept(token)
                guide.wait()
                found = time.perf_counter()
                guide.apply(row)
                taken["find"].append(found - started)
                taken["apply"].append(time.perf_counter() - found)
        for part, seconds in taken.items():
            percentiles = np.percentile(seconds, (50, 99)) * 1e6
            figures[f"{name}: {part}"] = [round(float(p), 1) for p in percentiles]
    return figures


def tokens_a_second(server: Served, fields: dict[str, Any], turn: int) -> float:
    """Tokens per second over all clients, each with one request."""

    def ask(client: int) -> int:
        body = {
            "prompt": f"Turn {turn}, client {client}: a list of films as JSON: ",
            "max_tokens": MAX_TOKENS,
            "temperature": 0.8,
            "seed": client,
            "ignore_eos": True,
            **fields,
        }
        return int(server.post("/v1/completions", body)["usage"]["completion_tokens"])

    begun = time.perf_counter()
    with ThreadPoolExecutor(NUM_CLIENTS) as clients:
        num_tokens = sum(clients.map(ask, range(NUM_CLIENTS)))
    return num_tokens / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default="default")
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    is_fake = options.model == "fake"
    path = "" if is_fake else model_path(options.model)
    loaded = FakeLoader()() if is_fake else LlamaLoader(path, "bench")()
    masks = microseconds_a_mask(
        Compiler(loaded.vocab, loaded.runner.capabilities.vocab_size), loaded
    )
    loaded.runner.close()
    print(f"{'microseconds':24}{'median':>10}{'99 %':>10}")
    for name, (median, most) in masks.items():
        print(f"{name:24}{median:10}{most:10}")
    # A list too long to finish, so that both generate the same number of tokens.
    schema = {"type": "array", "items": json.loads(SCHEMA), "minItems": 50}
    constrained = {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}
    speeds: list[tuple[float, float]] = []
    with served(*(["--runner", "fake"] if is_fake else [path])) as server:
        for turn in range(options.rounds + 1):  # the first warms up
            speeds.append(
                (
                    tokens_a_second(server, {}, turn),
                    tokens_a_second(server, constrained, turn),
                )
            )
    free, guided = (statistics.median(column) for column in zip(*speeds[1:], strict=True))
    ratio = statistics.median(guided / free for free, guided in speeds[1:])
    print(f"tokens per second at {NUM_CLIENTS} clients: {free:.0f} free, {guided:.0f} by a schema")
    print(f"median ratio of a turn: {ratio:.2f}")
    figures = {"free": round(free), "json_schema": round(guided), "ratio": round(ratio, 3)}
    print(json.dumps({"microseconds_a_mask": masks, "tokens_a_second": figures}))


if __name__ == "__main__":
    main()
