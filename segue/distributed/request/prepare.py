"""A request prepared for vLLM: its job, as for the built-in engine, and the vLLM request of each sequence."""

import asyncio
import contextlib
import itertools
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from segue.distributed.launch import MAX_BEAMS, Launched
from segue.distributed.logits.own_draws import Draw, needs_history, steps_only
from segue.distributed.request.events import WATCHED_TOP, RequestEvents
from segue.distributed.request.follow import Ask
from segue.distributed.request.grammars import lark
from segue.distributed.request.mapping import (
    CandidateParams,
    check,
    forced,
    has_own_order,
    is_drawn_here,
    parameters,
)
from segue.distributed.request.room import check_room
from segue.engine.constraints.compiler import Compiler
from segue.engine.constraints.threads.compile_threads import CompileJob, CompileThreads, Outcome
from segue.engine.request.job import Job
from segue.engine.request.prepare import prepare
from segue.engine.request.sequence import Sequence as Candidate
from segue.engine.seam import Model
from segue.engine.tokens import check_ids, longest_piece
from segue.errors import InvalidField, PromptTooLong
from segue.types import CompletionRequest, Constraint

# At most these are prepared on the event loop: a fraction of a millisecond.
_QUICK_CHARS = 1024
_QUICK_IDS = 4096
_QUICK_TEXTS = 8


@dataclass(frozen=True)
class VllmRequest:
    job: Job
    events: RequestEvents
    grammar: str | None  # in Lark
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)  # of its sequences


def is_quick(request: CompletionRequest) -> bool:
    """Whether preparing takes less time than the way to a thread and back, which delays the first token."""
    s = request.sampling
    if request.infill is not None or request.constraint is not None or s.dry_multiplier:
        return False
    if s.text_bias or s.bad_words or len(request.prompts) * request.num_candidates > _QUICK_TEXTS:
        return False
    parts = [part for prompt in request.prompts for part in prompt.parts]
    num_chars = sum(len(part) for part in parts if isinstance(part, str))
    num_ids = sum(len(part) for part in parts if not isinstance(part, str))
    return num_chars <= _QUICK_CHARS and num_ids <= _QUICK_IDS


class VllmRequests:
    def __init__(self, launched: Launched) -> None:
        self.launched = launched
        self._compiler = Compiler(
            launched.vocab, launched.capabilities.vocab_size, is_followed=True
        )
        self._compile_threads = CompileThreads(self._compiler)
        longest_piece(launched.vocab)  # read once, here, not by the first request

    async def compile(self, constraint: Constraint) -> None:
        """Compile it, so that `prepare` finds it compiled. One that takes long delays no other request.

        Raises RequestError.
        """
        if self._compiler.known(constraint) is not None:
            return
        loop = asyncio.get_running_loop()
        coming: asyncio.Future[Outcome] = loop.create_future()

        def tell(outcome: Outcome) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
                loop.call_soon_threadsafe(
                    lambda: None if coming.done() else coming.set_result(outcome)
                )

        self._compile_threads.submit(CompileJob(constraint, tell, lambda: not coming.done()))
        outcome = await coming
        if isinstance(outcome, Exception):
            raise outcome

    def prepare(self, request: CompletionRequest) -> VllmRequest:
        """Prepare the request. Slow unless `is_quick`; may run on any thread. Raises RequestError."""
        vocab, limits = self.launched.vocab, self.launched.capabilities
        check(request)
        self._adapter(request)
        if request.logprob_token_ids and not self.launched.can_score_asked:
            raise InvalidField(
                "logprob_token_ids: vLLM's first model runner, that of CPUs, cannot do this without losing the "
                "scores of other requests in the same step",
                "logprob_token_ids",
            )
        if request.beam_search and request.num_candidates > MAX_BEAMS:
            field = "n" if request.best_of is None else "best_of"
            raise InvalidField(f"{field} is at most {MAX_BEAMS} with use_beam_search", field)
        grammar, text = None, None
        if request.constraint is not None:
            self._check_constraint(request, request.constraint.param)
            grammar = self._compiler.compile(request.constraint)
            text = lark(grammar.text, request.constraint.param)
        job = prepare(replace(request, shift=None), Model(vocab, limits))
        job.ignored = grammar.ignored if grammar else ()
        _check_room(job, limits.context_length)
        _check_shift(request, job, limits.context_length)
        if vocab.size > limits.vocab_size:
            _check_known(job, limits.vocab_size)
        self._check_sampler(job)
        room = self.launched.room
        if room is not None and request.max_tokens != 0 and not request.beam_search:
            check_room(room, request.sampling, job.rules, vocab)
        return VllmRequest(job, RequestEvents(job, vocab, grammar), text)

    def _check_sampler(self, job: Job) -> None:
        """While vLLM speculates, it cannot call all of Segue's logits processors. Raises InvalidField."""
        is_drawn_here = any(self._is_drawn_here(job, sequence) for sequence in job.sequences)
        if is_drawn_here and not self.launched.can_draw:
            raise InvalidField(
                "this request needs Segue's own sampler, which vLLM cannot call while it speculates "
                "(speculative_config)"
            )
        draws = job.request.max_tokens != 0 and not is_drawn_here and not job.request.beam_search
        if draws and not self.launched.can_cut and has_own_order(job.request.sampling):
            raise InvalidField(
                "this request filters tokens before it scales by the temperature, which vLLM's first "
                "model runner cannot do while it speculates (speculative_config)"
            )

    def _check_constraint(self, request: CompletionRequest, param: str) -> None:
        infill = request.infill
        is_ranked = (
            infill is not None and infill.method(self.launched.vocab.fim is not None) == "ranked"
        )
        if is_ranked and request.max_tokens != 0:
            raise InvalidField(
                f"{param}: the vLLM engine cannot constrain a middle that is chosen by ranking "
                "(a suffix, with a model that has no tokens for it)",
                param,
            )

    def ask(self, prepared: VllmRequest, candidate: Candidate) -> Ask:
        """The vLLM request of one sequence."""
        request = prepared.job.request
        name = f"{request.request_id}-{candidate.prompt_index}-{next(prepared.numbers)}"
        if candidate.is_probe:
            return self._probe(prepared.job, candidate, name)
        if candidate.num_next:
            asked = CandidateParams(None, 0, 1, self._most(candidate.num_next), None)
            return self._ask(request, name, candidate.tokens, forced(request, asked), None)
        job = prepared.job
        num_top = max(request.logprobs or 0, WATCHED_TOP if candidate.watched else 0)
        asked = CandidateParams(
            seed=request.sampling.seed,
            candidate=candidate.candidate,
            max_tokens=candidate.max_tokens,
            num_alternatives=self._most(num_top) if job.needs_scores else None,
            prompt_alternatives=None
            if candidate.num_top is None
            else self._most(candidate.num_top),
            draw=_draw(job, candidate, name) if self._is_drawn_here(job, candidate) else None,
        )
        values = parameters(request, job.rules, asked)
        grammar = None if request.max_tokens == 0 else prepared.grammar
        return self._ask(request, name, candidate.tokens, values, grammar)

    def _most(self, num_alternatives: int) -> int:
        """So many of them as there are tokens: vLLM's engine dies of a request for more."""
        return min(num_alternatives, self.launched.capabilities.vocab_size)

    def _ask(
        self,
        request: CompletionRequest,
        name: str,
        tokens: list[int],
        values: dict[str, Any],
        grammar: str | None,
    ) -> Ask:
        prompt = self.launched.prompt(tokens, request.cache_salt)
        made = self.launched.parameters(values, grammar)
        adapter = self._adapter(request)
        return Ask(name, prompt, made, adapter=adapter, priority=request.priority)

    def _adapter(self, request: CompletionRequest) -> Any:
        """vLLM's LoRA request. It takes one adapter, and has no scale of its own. Raises InvalidField."""
        wanted = request.adapters or ()
        if not wanted:
            return None
        [first, *others] = wanted
        found = self.launched.adapters.get(str(first.name))
        if others or found is None or first.scale not in (None, 1.0):
            raise InvalidField(
                "lora: the vLLM engine takes one adapter for a request, by its name and at scale 1",
                "lora",
            )
        return found

    def _is_drawn_here(self, job: Job, candidate: Candidate) -> bool:
        sampler = candidate.sampler
        if sampler.branch is not None or sampler.openings is not None:
            return True
        reach = candidate.num_prompt + candidate.max_tokens
        return candidate.max_tokens > 0 and is_drawn_here(job.request.sampling, reach)

    def _probe(self, job: Job, probe: Candidate, name: str) -> Ask:
        """Score the tokens from `score_from` on, and the watched one after them, by drawing them."""
        known, given = probe.tokens[: probe.score_from], probe.tokens[probe.score_from :]
        draw = Draw(key=name, num_prompt=len(known), forced=(*given, *probe.watched))
        asked = CandidateParams(None, 0, len(draw.forced), 0, None, draw.packed())
        return self._ask(job.request, name, known, forced(job.request, asked), None)


def _draw(job: Job, candidate: Candidate, name: str) -> bytes:
    sampling, openings = steps_only(job.request.sampling, job.rules), candidate.sampler.openings
    breakers = tuple((token, tuple(tails)) for token, tails in job.rules.breakers.items())
    return Draw(
        key=name,
        sampling=sampling,
        seed=job.seed,
        candidate=candidate.candidate,
        num_prompt=candidate.num_prompt,
        prompt=tuple(candidate.tokens) if needs_history(sampling) else (),
        ends=tuple(job.rules.ends),
        breakers=breakers,
        branch=candidate.sampler.branch,
        openings=None if openings is None else tuple(openings.tolist()),
    ).packed()


def _check_room(job: Job, context: int) -> None:
    """Raise if a prompt fills the context: vLLM generates a token even if only the prompt is scored."""
    for candidate in job.sequences:
        if candidate.num_prompt >= context:
            raise PromptTooLong(
                f"the prompt has {candidate.num_prompt} tokens, but vLLM's context holds {context}, "
                "at least one of them for the answer",
                "prompt",
                details={"n_prompt_tokens": candidate.num_prompt, "n_ctx": context},
            )


def _check_shift(request: CompletionRequest, job: Job, context: int) -> None:
    """Raise if the answer might have to shift: vLLM cannot be asked again in the middle of one, with the same draws."""
    if request.shift is None or request.shift.optional or request.max_tokens == 0:
        return
    wanted, longest = request.max_tokens, max(each.num_prompt for each in job.sequences)
    if wanted is None or longest + wanted > context:
        raise InvalidField(
            "shift: the vLLM engine cannot do this: an answer ends where the context is full. Leave it out, or ask "
            "for fewer tokens",
            "shift",
        )


def _check_known(job: Job, vocab_size: int) -> None:
    """Raise if a prompt has a token that the tokenizer knows and the weights do not: vLLM's engine dies of it."""
    for candidate in job.sequences:
        if candidate.leader is None:
            check_ids(candidate.tokens, vocab_size, "prompt")
