"""A request prepared for vLLM: its job, as for the built-in engine, and the vLLM request of each candidate."""

from dataclasses import dataclass

from segue.distributed.events import RequestEvents
from segue.distributed.follow import Ask
from segue.distributed.grammars import lark
from segue.distributed.launch import Launched
from segue.distributed.mapping import Asked, check, parameters
from segue.engine.constraints.compiler import Compiler
from segue.engine.request.job import Job
from segue.engine.request.prepare import prepare
from segue.engine.request.sequence import Sequence as Candidate
from segue.engine.seam import Model
from segue.errors import InvalidField, PromptTooLong
from segue.types import CompletionRequest


@dataclass(frozen=True)
class VllmRequest:
    job: Job
    events: RequestEvents
    grammar: str | None  # in Lark


class VllmRequests:
    def __init__(self, launched: Launched) -> None:
        self.launched = launched
        self._compiler = Compiler(launched.vocab, launched.capabilities.vocab_size)

    def prepare(self, request: CompletionRequest) -> VllmRequest:
        """Prepare the request. Slow; may run on any thread. Raises RequestError."""
        vocab, limits = self.launched.vocab, self.launched.capabilities
        infill = request.infill
        method = None if infill is None else infill.method(vocab.fim is not None)
        if method == "ranked" and request.max_tokens != 0:
            raise InvalidField(
                "suffix: the vLLM engine fills in only with models that have tokens for it",
                "suffix",
            )
        grammar, text = None, None
        if request.constraint is not None:
            grammar = self._compiler.compile(request.constraint)
            text = lark(grammar.text, request.constraint.param)
        job = prepare(request, Model(vocab, limits))
        job.ignored = grammar.ignored if grammar else ()
        _check_room(job, limits.context_length)
        reach = max(each.num_prompt + each.max_tokens for each in job.sequences)
        check(request, reach)
        return VllmRequest(job, RequestEvents(job, vocab, grammar), text)

    def ask(self, prepared: VllmRequest, candidate: Candidate) -> Ask:
        """The vLLM request of one candidate."""
        job, request, launched = prepared.job, prepared.job.request, self.launched
        asked = Asked(
            seed=job.seed,
            candidate=candidate.candidate,
            max_tokens=candidate.max_tokens,
            num_alternatives=(request.logprobs or 0) if job.needs_scores else None,
            prompt_alternatives=candidate.num_top,
        )
        values = parameters(request, job.rules, asked)
        grammar = None if request.max_tokens == 0 else prepared.grammar
        return Ask(
            f"{request.request_id}-{candidate.prompt_index}-{candidate.candidate}",
            launched.prompt(candidate.tokens, request.cache_salt),
            launched.parameters(values, grammar),
        )


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
