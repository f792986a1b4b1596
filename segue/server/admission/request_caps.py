"""Upper bounds for one request, in every dialect. Checked once, before the engine gets the request."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from segue.bounds import LONGEST_MIDDLE, MAX_LOGPROBS, MAX_N, RANKED_CANDIDATES
from segue.dialects.base import Call, Operation
from segue.dialects.fields.kinds import Mismatch
from segue.errors import InvalidField
from segue.server.field_names import engine_name
from segue.types import CompletionRequest, Constraint

# Of each number that is counted below: the cap on it, and what the dialects' tables have as its largest.
_NUMBERS = {
    "n": ("n", MAX_N),
    "best_of": ("best_of", MAX_N),
    **dict.fromkeys(
        ("logprobs", "prompt_logprobs", "shape.prompt_logprobs", "shape.top_logprobs"),
        ("logprobs", MAX_LOGPROBS),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Caps:
    """What a request may have at most. Each is the setting max_ and its name."""

    n: int = 128
    best_of: int = 128
    prompts: int = 1024
    choices: int = 4096  # candidates over all prompts
    stops: int = 64
    logprobs: int = 100
    logit_bias: int = 1024
    grammar_chars: int = 256 << 10
    total_tokens: int = 1 << 20  # to generate at most, over all candidates

    def told_by(self, operation: Operation) -> Operation:
        """The operation; where it refuses a number, its words name this server's bound, if that is the smaller one."""
        caps = {
            spelling: cap
            for row in operation.table.rows
            for cap, most in [_NUMBERS.get(row.target, ("", 0))]
            if cap and getattr(self, cap) < most
            for spelling in row.spellings
        }

        def complaint(path: str, wrong: Mismatch) -> str:
            if path not in caps:
                return operation.complaint(path, wrong)
            words = operation.complaint(path, wrong.below(getattr(self, caps[path])))
            return f"{words}; at most {self._most(caps[path])}"

        return dataclasses.replace(operation, complaint=complaint)

    def check(self, call: Call) -> None:
        """Raises InvalidField, with the name the client used."""
        for field, count, cap, what in _counts(call.request):
            if count > getattr(self, cap):
                raise _refuse(call, field, f"may be at most {self._most(cap, what)}")

        constraint = call.request.constraint
        if constraint is not None and _size(constraint) > self.grammar_chars:
            message = f"may be at most {self._most('grammar_chars', ' characters')}"
            raise InvalidField(f"{constraint.param} {message}", param=constraint.param)

    def _most(self, cap: str, what: str = "") -> str:
        """The cap as a message tells it, with the flag that moves it."""
        return f"{getattr(self, cap)}{what} on this server (--max-{cap.replace('_', '-')})"

    def check_length(self, call: Call, context_length: int, has_fim: bool) -> None:
        """The bounds that depend on the model. Raises InvalidField."""
        request = call.request
        longest = context_length if request.max_tokens is None else request.max_tokens
        num_drawn = candidates(request, has_fim)
        if num_drawn > request.num_candidates and request.max_tokens is None:
            longest = LONGEST_MIDDLE
        num_candidates = len(request.prompts) * num_drawn
        if num_candidates > self.choices:
            message = f"times {num_drawn} candidates may be at most {self._most('choices')}"
            raise _refuse(call, "prompts", message)
        if min(longest, context_length) * num_candidates > self.total_tokens:
            most = self._most("total_tokens", " tokens")
            message = f"times {num_candidates} candidates may be at most {most}"
            raise _refuse(call, "max_tokens", message)

    def bounded(self, request: CompletionRequest) -> CompletionRequest:
        """The request, whose answers end at this server's bound where they go on past their context."""
        if request.shift is None:
            return request
        most = self.total_tokens // (len(request.prompts) * request.num_candidates)
        return replace(request, shift=replace(request.shift, most_tokens=most))


def _counts(request: CompletionRequest) -> Iterator[tuple[str, int, str, str]]:
    """Of each field that is counted: how many it has, the cap on that, and what is counted."""
    num_prompts, num_candidates = len(request.prompts), request.num_candidates
    yield "n", request.n, "n", ""
    yield "best_of", request.best_of or 0, "best_of", ""
    yield "prompts", num_prompts, "prompts", " prompts"
    field = "n" if request.best_of is None else "best_of"
    yield field, num_prompts * num_candidates, "choices", " times the number of prompts"
    yield "stop", len(request.stop), "stops", " strings"
    yield "logprobs", request.logprobs or 0, "logprobs", ""
    yield "prompt_logprobs", request.prompt_logprobs or 0, "logprobs", ""
    num_biases = len(request.sampling.logit_bias) + len(request.sampling.text_bias)
    yield "sampling.logit_bias", num_biases, "logit_bias", " tokens and texts"


def candidates(request: CompletionRequest, has_fim: bool) -> int:
    """Candidates per prompt. Infill on a model without FIM tokens draws more than it returns."""
    if (
        request.infill is None
        or request.infill.method(has_fim) != "ranked"
        or request.max_tokens == 0
    ):
        return request.num_candidates
    return max(request.best_of or RANKED_CANDIDATES, request.n)


def _size(constraint: Constraint) -> int:
    value = constraint.value
    return sum(map(len, [value] if isinstance(value, str) else value))


def _refuse(call: Call, target: str, message: str) -> InvalidField:
    name = call.given.get(target, engine_name(target))
    return InvalidField(f"{name} {message}", param=name)
