"""Gaps filled by a model without FIM tokens: what ranked infill returns, beside plain continuation and the truth.

    python -m segue.bench.infill MODEL.gguf [--runner llama] [--temperature 1] [--candidates 8]
                                 [--cut prompt|suffix] [--no-healing]

`joint` is log p(middle, suffix | prefix) of the text as the tokenizer reads it; `plain` is the same for the likeliest
continuation of the prefix. `--cut` moves the space between words over the cut, where token healing matters: gaps then
have a prompt that ends with a space, or a suffix that begins without its own. The last line of the output is JSON.
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
    parser.add_argument("--cut", choices=["prompt", "suffix"], help="who is cut beside a space")
    parser.add_argument("--no-healing", action="store_true", help="the prompt as token ids")
    options = parser.parse_args()
    stepper = Stepper(loader_of(options.runner, options.model))
    sampling = Sampling(temperature=options.temperature, seed=options.seed)
    filled, costs = [], []
    for gap in gaps(options.cut):
        prompt = _prompt(stepper, gap.prefix, is_healed=not options.no_healing)
        greedy = Sampling(temperature=0)
        plain, plain_cost = answer(stepper, prompt, None, greedy, options.candidates)
        middle, cost = answer(stepper, prompt, gap.suffix, sampling, options.candidates)
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


def gaps(cut: str | None = None) -> list[Gap]:
    """All of them, or those that have a space to move over this cut."""
    text = resources.files("segue.bench").joinpath("gaps.toml").read_text(encoding="utf-8")
    whole = [Gap(**row) for row in tomllib.loads(text)["gap"]]
    if cut == "prompt":
        spaced = [gap for gap in whole if gap.middle.startswith(" ")]
        return [gap._replace(prefix=f"{gap.prefix} ", middle=gap.middle[1:]) for gap in spaced]
    if cut == "suffix":
        spaced = [gap for gap in whole if gap.suffix[0] == " " != gap.suffix[1]]
        return [gap._replace(middle=f"{gap.middle} ", suffix=gap.suffix[1:]) for gap in spaced]
    return whole


def _prompt(stepper: Stepper, prefix: str, *, is_healed: bool) -> Prompt:
    """Token ids stay as they are: only text is healed."""
    return Prompt((prefix if is_healed else tuple(stepper.vocab.tokenize(prefix, True, False)),))


class Cost(NamedTuple):
    seconds: float
    steps: int
    rows: int


def answer(
    stepper: Stepper, prompt: Prompt, suffix: str | None, sampling: Sampling, candidates: int
) -> tuple[str, Cost]:
    """The first choice: by ranked infill, or, without a suffix, of as many plain continuations."""
    request_id = str(next(_ids))
    request = CompletionRequest(
        request_id=request_id,
        model="",
        prompts=(prompt,),
        max_tokens=MAX_TOKENS,
        n=candidates if suffix is None else 1,
        best_of=candidates,
        infill=None if suffix is None else Infill(suffix=Prompt((suffix,)), mode="ranked"),
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
    scores = tuple(prompted.scores or ())[len(prefix) :]
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
