"""Gaps filled by a model without FIM tokens: what ranked infill returns, beside plain continuation and the truth.

    python -m segue.bench.infill MODEL.gguf [--runner llama] [--temperature 1] [--candidates 8]

`joint` is log p(middle, suffix | prefix) of the text as the tokenizer reads it; `plain` is the same for the likeliest
continuation of the prefix. The last line of the output is JSON.
"""

import argparse
import itertools
import json
import time
import tomllib
from importlib import resources
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from segue.bench.harness.stepping import Stepper, loader_of
from segue.engine.tokens import text_tokens
from segue.types import CompletionRequest, Delta, Infill, Prompt, Prompted, Sampling

MAX_TOKENS = 16
_ids = itertools.count()


class Gap(NamedTuple):
    prefix: str
    middle: str
    suffix: str
    one: bool  # the text leaves one sensible answer, of one to four words


class Filled(NamedTuple):
    gap: Gap
    middle: str
    joint: float
    plain: float

    @property
    def is_exact(self) -> bool:
        return self.middle == self.gap.middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("--runner", default="cpu", choices=["cpu", "llama"])
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--candidates", type=int, default=8)
    options = parser.parse_args()
    stepper = Stepper(loader_of(options.runner, options.model))
    sampling = Sampling(temperature=options.temperature, seed=options.seed)
    filled, costs = [], []
    for gap in gaps():
        plain, plain_cost = answer(stepper, gap, Sampling(temperature=0), options.candidates, False)
        middle, cost = answer(stepper, gap, sampling, options.candidates, True)
        joints = [joint(stepper, gap, text) for text in (middle, plain)]
        filled.append(Filled(gap, middle, *joints))
        costs.append((plain_cost, cost))
    show(filled)
    result = summary(filled) | {
        name: round(sum(getattr(pair[i], field) for pair in costs) / len(costs), 3)
        for i, method in enumerate(("continuations", "ranked"))
        for field, name in ((f, f"{method}_{f}") for f in Cost._fields)
    }
    print(json.dumps({"temperature": options.temperature, **result}))


def gaps() -> list[Gap]:
    text = resources.files("segue.bench").joinpath("gaps.toml").read_text(encoding="utf-8")
    return [Gap(**row) for row in tomllib.loads(text)["gap"]]


class Cost(NamedTuple):
    seconds: float
    steps: int
    rows: int


def answer(
    stepper: Stepper, gap: Gap, sampling: Sampling, candidates: int, is_ranked: bool
) -> tuple[str, Cost]:
    """The first choice: by ranked infill, or of as many plain continuations."""
    request_id = str(next(_ids))
    request = CompletionRequest(
        request_id=request_id,
        model="",
        prompts=(Prompt((gap.prefix,)),),
        max_tokens=MAX_TOKENS,
        n=1 if is_ranked else candidates,
        best_of=candidates,
        infill=Infill(suffix=Prompt((gap.suffix,)), mode="ranked") if is_ranked else None,
        sampling=sampling,
        cache_salt=request_id,
    )
    before = (time.perf_counter(), stepper.num_steps, stepper.num_rows)
    deltas = [event for event in stepper.run(request) if isinstance(event, Delta)]
    seconds, steps, rows = time.perf_counter(), stepper.num_steps, stepper.num_rows
    cost = Cost(seconds - before[0], steps - before[1], rows - before[2])
    return "".join(delta.text for delta in deltas if delta.choice == 0), cost


def joint(stepper: Stepper, gap: Gap, middle: str) -> float:
    prefix = stepper.vocab.tokenize(gap.prefix, True, False)
    rest = text_tokens(stepper.vocab, middle + gap.suffix, is_start=False)
    request = CompletionRequest(
        request_id=str(next(_ids)),
        model="",
        prompts=(Prompt(((*prefix, *rest),)),),
        max_tokens=0,
        prompt_logprobs=0,
    )
    [prompted] = [event for event in stepper.run(request) if isinstance(event, Prompted)]
    scores = (prompted.scores or ())[len(prefix) :]
    return sum(score.logprob or 0.0 for score in scores)


def show(filled: list[Filled]) -> None:
    table = Table("before", "filled with", "truth", "joint", "plain", "exact")
    for each in filled:
        table.add_row(
            repr(each.gap.prefix[-24:])[1:-1],
            repr(each.middle)[1:-1],
            repr(each.gap.middle)[1:-1],
            f"{each.joint:.1f}",
            f"{each.plain:.1f}",
            "yes" if each.is_exact else "no" if each.gap.one else "",
        )
    Console(width=120).print(table)


def summary(filled: list[Filled]) -> dict[str, float]:
    single = [each for each in filled if each.gap.one]
    return {
        "gaps": len(filled),
        "at_least_as_likely_as_plain": sum(each.joint >= each.plain for each in filled),
        "with_one_answer": len(single),
        "exact": sum(each.is_exact for each in single),
    }


if __name__ == "__main__":
    main()
