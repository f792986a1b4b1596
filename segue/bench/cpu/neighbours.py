"""What rules on tokens cost a step: how long kernels wait for Python if none, one or all of 8 sequences have one.

python -m segue.bench.cpu.neighbours [MODEL.gguf] [--rounds 5] [--kind dry]

While no step is open, no kernel runs. That time is taken by the processor's clock of the thread that steps, so that
other work of the machine changes it little. Without a server; rounds take turns, and the best of each is printed.
"""

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from segue.bench.harness.stepping import CHUNK, loader_of
from segue.bench.peers import model_path
from segue.engine.request.prepare import prepare
from segue.engine.scheduling import steps
from segue.engine.scheduling.scheduler import Scheduler
from segue.engine.seam import Draw, Loaded, Logits, Runner, Span, Step
from segue.types import CompletionRequest, Prompt, Sampling

NUM_SEQUENCES = 8
MAX_TOKENS = 96
NUM_RULED = {"none": 0, "one": 1, "all": NUM_SEQUENCES}
KINDS: dict[str, dict[str, Any]] = {
    "penalties": {"repetition_penalty": 1.1, "frequency_penalty": 0.2},
    "dry": {"dry_multiplier": 0.8},
    "dry before penalties": {
        "dry_multiplier": 0.8,
        "repetition_penalty": 1.1,
        "order": ("dry", "penalties", "temperature"),
    },
    "banned phrases": {"bad_words": ("once upon a time", "in the end", "a list of films")},
    "allowed tokens": {"allowed_token_ids": (*range(1000, 3000),)},
    "typical-p": {"typical_p": 0.9},
    "top-nσ": {"top_n_sigma": 1.0},
    "xtc": {"xtc_probability": 0.5},
    "mirostat 1": {"mirostat": 1},
    "mirostat 2": {"mirostat": 2},
    "dynamic temperature": {"dynatemp_range": 0.5},
    "adaptive-p": {"adaptive_target": 0.5, "order": ("temperature", "min_p", "adaptive_p")},
    "infill": {"top_k": 40, "top_p": 0.99, "order": ("top_k", "top_p", "infill")},
    "probabilities after sampling": {"logprobs": 3, "post_sampling_probs": True},
}
_OF_REQUEST = ("logprobs", "post_sampling_probs")  # the other fields are of its sampling


class Watched:
    """Takes the time between the calls of a runner while none of its steps is open."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._num_open = 0
        self._since: float | None = None
        self.waited_s = 0.0
        self.num_draws = self.num_left = 0  # of begun steps, and of these left to the sampler

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def decode(self, spans: Sequence[Span]) -> Logits:
        self._called()
        logits = self._runner.decode(spans)
        self._since = time.thread_time()
        return logits

    def draw(self, draws: Sequence[Draw]) -> Sequence[int | None]:
        self._called()
        tokens = self._runner.draw(draws)
        self._since = time.thread_time()
        return tokens

    def begin(self, spans: Sequence[Span], draws: Sequence[Draw]) -> None:
        self._runner.begin(spans, draws)
        self._called()  # only now it runs
        self._num_open += 1

    def end(self) -> Step:
        step = self._runner.end()
        self._num_open -= 1
        self._since = None if self._num_open else time.thread_time()
        self.num_draws += len(step.tokens)
        self.num_left += sum(token is None for token in step.tokens)
        return step

    def _called(self) -> None:
        if self._since is not None:
            self.waited_s += time.thread_time() - self._since
            self._since = None


class Round(NamedTuple):
    waited_us: float  # a token
    left: float  # share of the draws of begun steps that was left to the sampler
    speed: float  # tokens a second


def take_round(loaded: Loaded, rule: dict[str, Any], num_ruled: int) -> Round:
    watched = Watched(loaded.runner)
    scheduler = Scheduler(watched, loaded.vocab, CHUNK, time.perf_counter)
    for number in range(NUM_SEQUENCES):
        ruled = rule if number < num_ruled else {}
        asked = {name: ruled[name] for name in _OF_REQUEST if name in ruled}
        request = CompletionRequest(
            request_id=f"{number}",
            model="bench",
            prompts=(Prompt((f"Number {number} begins a story of a long day by the sea: ",)),),
            max_tokens=MAX_TOKENS,
            use_cache=False,
            sampling=Sampling(
                seed=number,
                temperature=0.8,
                ignore_eos=True,
                **{name: value for name, value in ruled.items() if name not in asked},
            ),
            **asked,
        )
        scheduler.add(prepare(request, loaded.model))
    begun = time.perf_counter()
    clock = time.perf_counter
    while True:
        began_s = clock()
        batch = scheduler.next_batch()
        if batch is None:
            break
        for _ in steps.run(scheduler, watched, batch, lambda: True, clock, began_s):
            pass
    num_tokens = NUM_SEQUENCES * MAX_TOKENS
    left = watched.num_left / max(1, watched.num_draws)
    speed = num_tokens / (time.perf_counter() - begun)
    return Round(watched.waited_s / num_tokens * 1e6, left, speed)


def best(rounds: dict[str, list[Round]]) -> dict[str, float]:
    """Of each, and the speeds beside that without the rule."""
    speeds = {name: max(each.speed for each in taken) for name, taken in rounds.items()}
    waited = {f"waited us, {n}": min(r.waited_us for r in taken) for n, taken in rounds.items()}
    left = {"left to the sampler": min(each.left for each in rounds["all"])}
    shares = {f"speed, {name}": speeds[name] / speeds["none"] for name in ("one", "all")}
    return {name: round(value, 3) for name, value in (waited | left | shares).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default="default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kind", choices=KINDS, action="append", help="of rule; several may be")
    options = parser.parse_args()
    kinds = options.kind or [*KINDS]
    loaded = loader_of("cpu", model_path(options.model))()
    rounds: dict[str, dict[str, list[Round]]] = {k: {n: [] for n in NUM_RULED} for k in kinds}
    for number in range(options.rounds + 1):
        for kind in kinds:
            for name, num_ruled in NUM_RULED.items():
                taken = take_round(loaded, KINDS[kind], num_ruled)
                if number:  # the first warms up
                    rounds[kind][name].append(taken)
    loaded.runner.close()
    figures = {kind: best(by) for kind, by in rounds.items()}
    for kind, found in figures.items():
        print(f"{kind}: " + ", ".join(f"{name} {value}" for name, value in found.items()))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
