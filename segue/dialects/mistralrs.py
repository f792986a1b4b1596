"""mistral.rs: one text prompt, DRY and grammar fields of its own, speeds beside the usage."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from segue.bounds import MAX_INT32, MAX_N, MAX_NUMBER, MIN_DIVISOR
from segue.dialects import openai
from segue.dialects.base import Call, Companion, Dialect, Difference, Operation, Reply, Service
from segue.dialects.fields.adapter_fields import ADAPTER
from segue.dialects.fields.constraint_fields import CONSTRAINTS, TYPED_GRAMMAR
from segue.dialects.fields.kinds import Boolean, Integer, LogitBias, Number, Stops, Text, When
from segue.dialects.fields.model_defaults import OfModel
from segue.dialects.fields.prompt_kinds import OnePrompt
from segue.dialects.fields.sampler_fields import PENALTIES, SAMPLERS
from segue.dialects.fields.table import Draft, Field, Table
from segue.dialects.fields.tools import TOOL_ROWS, call_tool
from segue.dialects.rendering.logprobs import finite, token_text
from segue.dialects.rendering.tally import Tally
from segue.dialects.rendering.template import Template, hole
from segue.errors import InvalidField, PromptTooLong, SegueError, UnknownModel
from segue.types import CompletionRequest, Delta, Event, Finished, Prompted, TokenScore, Truncation

# --- fields --------------------------------------------------------------------------------------

FIELDS = openai.FIELDS.pick("logprobs", "best_of", "stream", "user", "seed", "suffix").extend(
    Field(
        "model",
        Text(256),
        "A served name, or `default`.",
        "model",
        default="default",
        nullable=False,
    ),
    Field("prompt", OnePrompt(), "The text to complete.", "prompts", required=True),
    Field(
        "max_tokens",
        Integer(1, MAX_INT32),
        "Tokens to generate; without it until the context is full.",
        "max_tokens",
        aliases=("max_completion_tokens",),
        default=None,
    ),
    Field("n", Integer(1, MAX_N), "Choices to generate.", "n", nullable=False),
    Field(
        "echo",
        Boolean(),
        "Return the prompt in front of the completion.",
        "echo",
        nullable=False,
    ),
    Field("stop", Stops(), "Text that ends a choice; it is not returned.", "stop"),
    Field(
        "temperature",
        Number(0, MAX_NUMBER, clamp=True),
        "0 is greedy.",
        "sampling.temperature",
    ),
    Field("top_p", Number(0, 1, clamp=True), "Nucleus sampling.", "sampling.top_p"),
    Field(
        "top_k",
        Integer(0, MAX_INT32),
        "Draw from the k likeliest tokens; 0 is off.",
        "sampling.top_k",
    ),
    Field(
        "min_p",
        Number(0, 1, clamp=True),
        "Drop tokens less likely than this share of the best.",
        "sampling.min_p",
    ),
    *PENALTIES.rows,
    Field(
        "repetition_penalty",
        Number(MIN_DIVISOR, MAX_NUMBER),
        "Divides the logits of tokens that occurred; 1 is off.",
        "sampling.repetition_penalty",
    ),
    Field(
        "logit_bias",
        LogitBias(MAX_NUMBER),
        "Added to the logits, by token id.",
        "sampling.logit_bias",
    ),
    TYPED_GRAMMAR,
    *CONSTRAINTS.pick("response_format").rows,
    *TOOL_ROWS,
    ADAPTER,
    Field(
        "truncate_sequence",
        When(Truncation()),
        "Drop the start of a prompt that is too long.",
        "truncation",
    ),
    *SAMPLERS.pick(
        "dry_multiplier",
        "dry_base",
        "dry_allowed_length",
        "dry_sequence_breakers",
    ).rows,
    replace(SAMPLERS.pick("ignore_eos").rows[0], nullable=False),
)

# A generation_config.json, as mistral.rs reads it.
OF_MODEL = OfModel(
    ("temperature", "top_k", "top_p", "min_p", "repetition_penalty"), is_greedy_kept=True
)


def keep_the_best(draft: Draft) -> None:
    """best_of is how many of the n are returned; in OpenAI's API it is how many are drawn. Both work here."""
    n = draft.values.get("n", 1)
    best_of = draft.values.get("best_of", n)
    draft.values["n"], draft.values["best_of"] = min(n, best_of), max(n, best_of)


def penalize_prompt(draft: Draft) -> None:
    draft.values["sampling.penalize_prompt"] = True


def score_echoed_prompt(draft: Draft) -> None:
    if draft.values.get("echo"):
        draft.values["prompt_logprobs"] = draft.values.get("logprobs")


RULES = (
    keep_the_best,
    openai.check_candidates,
    penalize_prompt,
    score_echoed_prompt,
    call_tool,
)

# --- answers -------------------------------------------------------------------------------------


class Completion:
    def __init__(self, call: Call):
        self._request = call.request
        self._suffix = _suffix(call.request)
        self._templates: dict[int, Template] = {}  # of a choice's chunks with text
        self._head: dict[str, Any] = {
            "id": call.stamp.public_id,
            "created": call.stamp.created,
            "model": call.model,
            "system_fingerprint": "local",
            "object": "text_completion",
        }

    def push(self, event: Event) -> list[Any]:
        match event:
            case Delta():
                return self._pieces(event.choice, event.text, event.scores or ())
            case Prompted() if self._request.echo:
                n = self._request.n
                choices = range(event.prompt * n, (event.prompt + 1) * n)
                text, scores = event.text or "", event.scores or ()
                return [each for i in choices for each in self._pieces(i, text, scores)]
            case Finished():
                end = self._chunk(_choice(event.choice, "", None, event.reason))
                suffix = self._pieces(event.choice, self._suffix, ()) if self._suffix else []
                return [*suffix, end]
            case _:
                return []

    def _pieces(self, index: int, text: str, scores: tuple[TokenScore, ...]) -> list[Any]:
        """A chunk can hold the log-probability of one token only: the rest follow without text."""
        entries = [self._entry(score) for score in scores]
        template = self._templates.get(index)
        if template is None:
            pattern = self._chunk(_choice(index, hole("text"), hole("logprobs")))
            template = self._templates[index] = Template(pattern)
        first = template.fill({"text": text, "logprobs": entries[0] if entries else None})
        return [first, *(template.fill({"text": "", "logprobs": each}) for each in entries[1:])]

    def _chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        return {**self._head, "choices": [choice]}

    def _entry(self, score: TokenScore) -> dict[str, Any]:
        top = score.top[: self._request.logprobs or 0]
        return {
            "token": token_text(score.piece),
            "logprob": None if score.logprob is None else finite(score.logprob),
            "bytes": list(score.piece),
            "top_logprobs": [
                {
                    "token": other.token,
                    "logprob": finite(other.logprob),
                    "bytes": token_text(other.piece),
                }
                for other in top
            ],
        }

    def fold(self, tally: Tally) -> Any:
        choices = [self._fold_choice(tally, index) for index in range(len(tally.choices))]
        return {**self._head, "choices": choices, "usage": render_usage(tally)}

    def _fold_choice(self, tally: Tally, index: int) -> dict[str, Any]:
        choice, prompt = tally.choices[index], tally.prompts[index // tally.n]
        text, scores = choice.text, choice.scores
        if self._request.echo:
            text, scores = (prompt.text or "") + text, [*(prompt.scores or ()), *scores]
        logprobs = None
        if self._request.logprobs is not None:
            logprobs = {"content": [self._entry(score) for score in scores]}
        return _choice(index, text + self._suffix, logprobs, choice.finished.reason)


def _suffix(request: CompletionRequest) -> str:
    """It returns the suffix behind the completion."""
    parts = request.infill.suffix.parts if request.infill else ()
    return "".join(part for part in parts if isinstance(part, str))


def _choice(index: int, text: Any, logprobs: Any, reason: str | None = None) -> dict[str, Any]:
    return {"finish_reason": reason, "index": index, "text": text, "logprobs": logprobs}


def render_usage(tally: Tally) -> dict[str, Any]:
    """Choices run side by side, so the longest time counts."""
    ends = [choice.finished for choice in tally.choices]
    prompt_s = max(end.prompt_s for end in ends)
    decode_s = max(end.decode_s for end in ends)
    num_prompt, num_decoded = tally.usage.prompt_tokens, tally.usage.completion_tokens
    total, total_s = num_prompt + num_decoded, prompt_s + decode_s
    return {
        "completion_tokens": num_decoded,
        "prompt_tokens": num_prompt,
        "total_tokens": total,
        "avg_tok_per_sec": _rate(total, total_s),
        "avg_prompt_tok_per_sec": _rate(num_prompt, prompt_s),
        "avg_compl_tok_per_sec": _rate(num_decoded, decode_s),
        "total_time_sec": total_s,
        "total_prompt_time_sec": prompt_s,
        "total_completion_time_sec": decode_s,
    }


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds else 0.0


UNPROCESSABLE = (InvalidField, PromptTooLong)


def _message(error: SegueError) -> str:
    if not isinstance(error, PromptTooLong):
        return error.message
    limit = error.details.get("n_ctx", "the context length")
    hint = "perhaps consider using `truncate_sequence`?"
    return f"Prompt sequence length is greater than {limit}, {hint} ({error.message})"


def error_reply(error: SegueError) -> Reply:
    status = 422 if isinstance(error, UNPROCESSABLE) else error.status
    return Reply({"message": _message(error)}, status)


def stream_error(error: SegueError) -> Reply:
    detail = {"message": _message(error), "type": "server_error", "param": None, "code": None}
    return Reply({"error": detail})


# --- companions ----------------------------------------------------------------------------------

STATUSES = {"ok": "loaded", "loading": "reloading", "idle": "unloaded"}


def _card(name: str, created: int) -> dict[str, Any]:
    about = {"object": "model", "owned_by": "local"}
    return {"id": name, **about, "created": created, "root": name}


async def models(service: Service, _: Mapping[str, Any]) -> Reply:
    """`default` first, which has no status of its own. An adapter names its model."""
    entries = [_card("default", service.card("").created)]
    for card in service.cards():
        parent = {"parent": card.parent} if card.parent else {}
        status = {"status": STATUSES[card.status]}
        entries.append({**_card(card.name, card.created), **parent, **status})
    return Reply({"object": "list", "data": entries})


STATUS_FIELDS = Table(
    (Field("model_id", Text(256), "The name of a model.", "model", required=True),)
)


async def status(service: Service, values: Mapping[str, Any]) -> Reply:
    name = values["model"]
    try:
        found = STATUSES[service.card(name).status]
    except UnknownModel:
        found = "not_found"
    return Reply({"model_id": name, "status": found})


async def health(service: Service, _: Mapping[str, Any]) -> Reply:
    return Reply("OK")


DIFFERENCES = (
    Difference(
        "The text of a choice keeps the white space it begins with.",
        "The system trims it, so that prompt and completion cannot be joined.",
    ),
    Difference(
        "Choices are in the order of their index, and `usage` covers all of them.",
        "The system orders by the time they ended and reports the last one's usage.",
    ),
    Difference(
        "`best_of` above `n` draws more candidates than it returns, as OpenAI's does; below `n` it is "
        "how many of the n return, ranked by mean log-probability.",
        "The system has the second meaning only, and ranks by the sum, which favours short answers.",
    ),
    Difference(
        "`suffix` is filled in for: the completion is made to lead up to it. It is returned behind the "
        "completion, in streams too.",
        "The system only appends it, so that the text before does not fit, and not in streams.",
    ),
    Difference(
        "`tool_choice` that requires a call makes the answer the JSON of that call, "
        '`{"name": ..., "arguments": ...}`.',
        "The system reads tools here and has no place for a call in the answer.",
    ),
    Difference(
        "`echo` works in streams too.",
        "The system leaves the prompt out of streams, so that they differ from whole answers.",
    ),
    Difference(
        "In a stream, a chunk holds one choice; each choice ends with its own chunk.",
        "The system waits until every choice has something, and loses pieces once one of them ended.",
    ),
    Difference(
        "An unknown model is answered with 404 where several are served (one that is alone answers to any name, unless "
        "`--strict-model`), `max_tokens: 0` with 422.",
        "The system answers 500, which tells clients to try again.",
    ),
    Difference(
        "Figures for Prometheus are at `/metrics` of the root, under Segue's names, the documents at `/docs`; "
        "there is no `/v1/system/info`.",
        "They are of the whole server, not of a dialect.",
    ),
    Difference(
        "Mistakes in a request are answered with their status, streamed or not, and always as "
        '`{"message": ...}`.',
        "The system starts streams with 200 before it looks, and writes some errors as plain text.",
    ),
    Difference(
        "`max_tokens` and `max_completion_tokens` may come together; the first counts.",
        "The system's JSON reader takes the second for a repetition of the first.",
    ),
    Difference(
        "`seed` and `response_format` are honoured.",
        "The system passes them by; a constraint that is passed by is worse than none.",
    ),
    Difference(
        "A model's own sampling defaults are those of `general.sampling.*` in its GGUF file, or of the file that "
        "`--generation-config` names; `suppress_tokens` has no effect.",
        "The system looks for `generation_config.json` beside the file, which has what the original model had.",
    ),
    Difference(
        "Ids are unique; `system_fingerprint` is `local` all the same.",
        "The system counts its answers from 0 with every start.",
    ),
)

MISTRALRS = Dialect(
    name="mistralrs",
    system="mistral.rs",
    operations=(
        Operation(
            "/v1/completions",
            "Complete a prompt.",
            FIELDS,
            Completion,
            RULES,
            of_model=OF_MODEL,
            stream_error=stream_error,
        ),
    ),
    companions=(
        Companion("GET", "/v1/models", "The served models.", models),
        Companion("POST", "/v1/models/status", "Whether one is loaded.", status, STATUS_FIELDS),
        Companion("GET", "/health", "Whether the server runs.", health, is_public=True),
        Companion("GET", "/", "The same.", health, is_public=True),
    ),
    error=error_reply,
    differences=DIFFERENCES,
)
