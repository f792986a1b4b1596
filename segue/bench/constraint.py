"""What constraints cost: a mask, and 8 clients over HTTP of which none, one or all have a JSON schema, in turns.

python -m segue.bench.constraint [MODEL.gguf | fake] [--rounds 6]
"""

import argparse
import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

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
GUIDED = {"none": 0, "one": 1, "all": NUM_CLIENTS}  # how many of the clients have a constraint
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


class Turn(NamedTuple):
    """What one turn gave: the mean speed of a client, and what a token took of the processors."""

    free: float  # tokens per second of a client without a constraint; 0: there was none
    guided: float  # of one with a constraint
    worker_us: float  # processor time of the worker, a token


def take_turn(server: Served, num_guided: int, constrained: dict[str, Any], number: int) -> Turn:
    """One request of every client, the first `num_guided` with the constraint."""

    def ask(client: int) -> tuple[int, float]:
        body = {
            "prompt": f"Turn {number}, client {client}: a list of films as JSON: ",
            "max_tokens": MAX_TOKENS,
            "temperature": 0.8,
            "seed": client,
            "ignore_eos": True,
            **(constrained if client < num_guided else {}),
        }
        begun = time.perf_counter()
        tokens = int(server.post("/v1/completions", body)["usage"]["completion_tokens"])
        return tokens, tokens / (time.perf_counter() - begun)

    before = server.cpu_seconds()["worker"]
    with ThreadPoolExecutor(NUM_CLIENTS) as clients:
        answers = list(clients.map(ask, range(NUM_CLIENTS)))
    took = server.cpu_seconds()["worker"] - before
    speeds = [speed for _, speed in answers]
    guided, free = speeds[:num_guided], speeds[num_guided:]
    num_tokens = sum(tokens for tokens, _ in answers)
    return Turn(_mean(free), _mean(guided), took / num_tokens * 1e6)


def _mean(speeds: list[float]) -> float:
    return statistics.fmean(speeds) if speeds else 0.0


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
    # A list too long to finish, so that all generate the same number of tokens.
    schema = {"type": "array", "items": json.loads(SCHEMA), "minItems": 50}
    constrained = {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}
    turns: dict[str, list[Turn]] = {name: [] for name in GUIDED}
    with served(*(["--runner", "fake"] if is_fake else [path])) as server:
        for number in range(options.rounds + 1):  # the first warms up
            for name, num_guided in GUIDED.items():
                turns[name].append(take_turn(server, num_guided, constrained, number))
    figures = {name: report(name, taken[1:]) for name, taken in turns.items()}
    print(json.dumps({"microseconds_a_mask": masks, "clients": figures}))


def report(name: str, turns: list[Turn]) -> dict[str, list[float]]:
    """Print and return median and best over the turns."""
    columns = list(zip(*turns, strict=True))
    figures = {
        "free": [statistics.median(columns[0]), max(columns[0])],
        "guided": [statistics.median(columns[1]), max(columns[1])],
        "worker_us": [statistics.median(columns[2]), min(columns[2])],
    }
    rounded = {kind: [round(value, 1) for value in pair] for kind, pair in figures.items()}
    said = ", ".join(f"{kind} {median} (best {best})" for kind, (median, best) in rounded.items())
    print(f"{name}: {said}")
    return rounded


if __name__ == "__main__":
    main()
