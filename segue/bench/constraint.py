"""What constraints cost: a mask, and throughput at 8 clients: `python -m segue.bench.constraint [MODEL.gguf]`.

Without a model: the fake runner and its byte vocabulary, which measure the engine alone.
"""

import json
import sys
import time

import numpy as np

from segue.engine.constraint import Compiler
from segue.engine.prepare import prepare
from segue.engine.scheduler import Scheduler
from segue.engine.seam import Loaded
from segue.runners.fake import FakeLoader
from segue.runners.llama import LlamaLoader
from segue.types import CompletionRequest, Constraint, Prompt, Sampling

NUM_CLIENTS = 8
MAX_TOKENS = 64
ROUNDS = 3
SCHEMA = """{"type": "object", "properties": {
  "title": {"type": "string", "minLength": 10, "maxLength": 60},
  "year": {"type": "integer", "minimum": 1900, "maximum": 2100},
  "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 3, "maxItems": 9},
  "summary": {"type": "string", "minLength": 100}},
  "required": ["title", "year", "tags", "summary"], "additionalProperties": false}"""
CASES: dict[str, tuple[Constraint, str]] = {  # with a text whose every place is measured
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
    """Median and 99th percentile: finding what may follow, and forbidding the rest in a row of logits."""
    figures: dict[str, list[float]] = {}
    row = np.zeros(loaded.runner.capabilities.vocab_size, np.float32)
    for name, (constraint, text) in CASES.items():
        grammar = compiler.compile(constraint)
        taken: dict[str, list[float]] = {"find": [], "apply": []}
        for _ in range(ROUNDS):
            guide = grammar.guide()
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


def tokens_a_second(loaded: Loaded, compiler: Compiler, constraint: Constraint | None) -> float:
    """Over all clients, from the first step to the last."""
    scheduler = Scheduler(loaded.runner, loaded.vocab, 256, time.perf_counter)
    capabilities = loaded.runner.capabilities
    grammar = None if constraint is None else compiler.compile(constraint)
    for client in range(NUM_CLIENTS):
        request = CompletionRequest(
            request_id=str(client),
            model="",
            prompts=(Prompt((f"Client {client} asks for a film in JSON: ",)),),
            max_tokens=MAX_TOKENS,
            sampling=Sampling(seed=client, ignore_eos=True),
            constraint=constraint,
            use_cache=False,
        )
        scheduler.add(prepare(request, loaded.vocab, capabilities, grammar))
    started = time.perf_counter()
    while not scheduler.is_idle:
        batch = scheduler.next_batch()
        if batch is not None:
            scheduler.commit(batch, loaded.runner.decode(batch.spans))
    return scheduler.stats.completion_tokens / (time.perf_counter() - started)


def main() -> None:
    loaded = LlamaLoader(sys.argv[1], "bench")() if len(sys.argv) > 1 else FakeLoader()()
    compiler = Compiler(loaded.vocab, loaded.runner.capabilities.vocab_size)
    masks = microseconds_a_mask(compiler, loaded)
    print(f"{'microseconds':24}{'median':>10}{'99 %':>10}")
    for name, (median, most) in masks.items():
        print(f"{name:24}{median:10}{most:10}")
    constraint = CASES["json_schema"][0]
    speeds: dict[str, list[float]] = {"free": [], "json_schema": []}
    for _ in range(ROUNDS):  # in turns: both see the same neighbours
        speeds["free"].append(tokens_a_second(loaded, compiler, None))
        speeds["json_schema"].append(tokens_a_second(loaded, compiler, constraint))
    medians = {name: round(float(np.median(values)), 1) for name, values in speeds.items()}
    print(f"tokens a second at {NUM_CLIENTS} clients: {medians}")
    print(json.dumps({"microseconds_a_mask": masks, "tokens_a_second": medians}))


if __name__ == "__main__":
    main()
