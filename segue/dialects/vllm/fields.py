"""vLLM's fields of `/v1/completions`, with its ranges and what it refuses."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec import UNSET, structs

from segue.bounds import MAX_INT32, MAX_INT64, MAX_LOGPROBS, MAX_N, MIN_DIVISOR
from segue.dialects.base import Call
from segue.dialects.fields.closed_schemas import ListedOnly
from segue.dialects.fields.kinds import (
    Boolean,
    Integer,
    Kind,
    Lax,
    LaxFlag,
    Number,
    NumTop,
    OnlyEmpty,
    Stops,
    Text,
    Texts,
)
from segue.dialects.fields.model_defaults import OfModel
from segue.dialects.fields.search_fields import BEAMS, LENGTH_PENALTY, PRIORITY, check_beams
from segue.dialects.fields.table import Draft, Field, Table
from segue.dialects.fields.token_fields import (
    ASKED,
    MAX_ASKED,
    REPETITION,
    Not,
    check_asked,
    mark_special,
    truncate,
)
from segue.dialects.openai import fields as openai
from segue.dialects.vllm.idle import OF_REQUEST
from segue.dialects.vllm.kinds import LaxBias, LaxEndless, LaxPrompts, LaxTokenIds, Salt
from segue.errors import InvalidField
from segue.types import ModelInfo

VLLM_STOPS = 4  # VLLM_MAX_STOP_STRINGS
MAX_BAD_WORDS = 128
MAX_BAD_WORD_CHARS = 256


def _number(low: float, high: float, above_low: bool = False) -> Lax:
    return Lax(Number(low, high, above_low))


def _integer(low: int, high: int, meaning: dict[int, Any] | None = None) -> Lax:
    return Lax(Integer(low, high, meaning or {}))


LENGTH = (
    Field(
        "max_tokens",
        LaxEndless(0),
        "Tokens to generate; 0 scores the prompt and needs echo.",
        "max_tokens",
    ),
    Field(
        "min_tokens",
        _integer(0, MAX_INT32),
        "Before that many tokens nothing ends a choice.",
        "sampling.min_tokens",
        nullable=False,
    ),
    Field("n", _integer(1, MAX_N), "Choices for each prompt.", "n", nullable=False),
    Field("stop", Stops(VLLM_STOPS), "Text that ends a choice.", "stop"),
    Field("stop_token_ids", LaxTokenIds(), "Tokens that end a choice.", "sampling.stop_token_ids"),
    Field(
        "ignore_eos",
        Boolean(),
        "Go on after the model's end token.",
        "sampling.pass_eos",
        nullable=False,
    ),
)

SAMPLING = (
    Field(
        "seed",
        _integer(-MAX_INT64 - 1, MAX_INT64, {-1: UNSET}),
        "The same seed and request give the same answer; -1 draws one.",
        "sampling.seed",
    ),
    Field("temperature", _number(0, 2), "0 is greedy.", "sampling.temperature"),
    Field("top_p", _number(0, 1, above_low=True), "Nucleus sampling.", "sampling.top_p"),
    Field(
        "top_k",
        LaxEndless(-1, {-1: 0}),
        "Draw from the k likeliest tokens; 0 and -1 are off.",
        "sampling.top_k",
    ),
    Field("min_p", _number(0, 1), "Drop tokens below this share of the best.", "sampling.min_p"),
    Field(
        "presence_penalty",
        _number(-2, 2),
        "Against tokens that occurred.",
        "sampling.presence_penalty",
    ),
    Field(
        "frequency_penalty",
        _number(-2, 2),
        "Against tokens, by how often they occurred.",
        "sampling.frequency_penalty",
    ),
    Field(
        "repetition_penalty",
        _number(MIN_DIVISOR, 100),
        "Divides the logits of tokens that occurred; 1 is off.",
        "sampling.repetition_penalty",
    ),
    Field(
        "logit_bias",
        LaxBias(),
        "Added to the logits, by token id; clamped to ±100.",
        "sampling.logit_bias",
    ),
    Field(
        "bad_words",
        Texts(MAX_BAD_WORDS, MAX_BAD_WORD_CHARS),
        "Texts that are never completed.",
        "sampling.bad_words",
        nullable=False,
    ),
    Field(
        "allowed_token_ids",
        LaxTokenIds(),
        "Nothing else is drawn.",
        "sampling.allowed_token_ids",
    ),
)

ANSWER = (
    Field(
        "logprobs",
        NumTop(MAX_LOGPROBS),
        "Alternatives reported for each token; 0 reports the chosen one only.",
        "logprobs",
    ),
    Field(
        "prompt_logprobs",
        NumTop(MAX_LOGPROBS),
        "The same for the tokens of the prompt, by token id; streamed too.",
        "shape.prompt_logprobs",
        default=None,
    ),
    replace(ASKED, kind=LaxTokenIds(MAX_ASKED)),
    Field("cache_salt", Salt(), "Share cached prefixes only with the same salt.", "cache_salt"),
    Field(
        "request_id",
        Text(1024),
        "Becomes part of the answer's id.",
        "shape.request_id",
        nullable=False,
    ),
    Field(
        "return_weight_versions",
        Boolean(),
        "Say at the end of each choice which weights drew it: `default`, for they are never replaced here.",
        "shape.weight_versions",
        nullable=False,
    ),
)

SEARCH = (
    replace(BEAMS, nullable=False),
    *(replace(row, kind=Lax(row.kind), nullable=False) for row in (LENGTH_PENALTY, PRIORITY)),
)

REFUSED = (Field("prompt_embeds", OnlyEmpty("prompts are text or token ids"), "Not served."),)

_ROWS = openai.FIELDS.pick(
    "model",
    "prompt",
    "suffix",
    "structured_outputs",
    "response_format",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "echo",
    "stream",
    "stream_options.include_usage",
    "stream_options.continuous_usage_stats",
    "stream_interval",
    "user",
    "add_special_tokens",
    "skip_special_tokens",
    "include_stop_str_in_output",
    "truncate_prompt_tokens",
    "truncation_side",
    "return_token_ids",
    "return_tokens_as_token_ids",
).extend(*LENGTH, REPETITION, *SAMPLING, *ANSWER, *SEARCH, *REFUSED, *OF_REQUEST.rows)


# Of rows that other systems have too, what vLLM reads otherwise.
_KINDS: dict[str, Callable[[Kind], Kind]] = {
    "prompt": lambda _: LaxPrompts(),
    "truncate_prompt_tokens": Lax,
    "stream_interval": lambda _: LaxEndless(1),
    **dict.fromkeys(("structured_outputs", "response_format", "guided_json"), ListedOnly),
}
# skip_special_tokens is not among them: since 0.33, null is what the model's own settings say. In SamplingParams it is
# a flag still.
_NOT_NULL = {"add_special_tokens", "include_stop_str_in_output"}


def lenient(row: Field) -> Field:
    is_flag = isinstance(row.kind, (Boolean, Not))
    return replace(row, kind=LaxFlag(row.kind)) if is_flag else row


def _as_vllm(row: Field) -> Field:
    if row.name in _KINDS:
        row = replace(row, kind=_KINDS[row.name](row.kind))
    return lenient(replace(row, nullable=False) if row.name in _NOT_NULL else row)


FIELDS = Table(tuple(_as_vllm(row) for row in _ROWS.rows))

# A generation_config.json, as vLLM reads it.
OF_MODEL = OfModel(
    (
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
    ),
    is_bounded=True,
    is_special_kept=True,
)


# --- what one field asks of another --------------------------------------------------------------


def check_lengths(draft: Draft) -> None:
    max_tokens = draft.values.get("max_tokens", 16)
    if max_tokens == 0 and not draft.values.get("echo"):
        raise draft.refuse("max_tokens", "must be at least 1 unless echo is true")
    is_bounded = max_tokens is not None  # --default may leave answers without a bound
    # vLLM draws one where none is wanted, so that 1 is not too many.
    if is_bounded and draft.values.get("sampling.min_tokens", 0) > max(max_tokens, 1):
        raise draft.refuse(
            "sampling.min_tokens", f"must be at most max_tokens, which is {max_tokens}"
        )


def check_greedy(draft: Draft) -> None:
    is_greedy = draft.values.get("sampling.temperature", 1.0) == 0
    is_greedy = is_greedy and not draft.values.get("beam_search")
    if is_greedy and draft.values.get("n", 1) > 1:
        raise draft.refuse("n", "must be 1 with temperature 0: all choices would be the same")


def check_stream_options(draft: Draft) -> None:
    """Whatever stands in them, also null and what nobody knows."""
    if "stream_options" in draft.groups and not draft.values.get("stream"):
        raise draft.refuse("stream_options", "can only be given together with stream")


def keep_opening(draft: Draft) -> None:
    """Unless a side is named, vLLM's tokenizer cuts, and puts its BOS in front of what is left."""
    how = draft.values.get("truncation")
    if how is not None and "shape.truncation_side" not in draft.values:
        draft.values["truncation"] = structs.replace(how, keeps_bos=True)


def check_truncation(call: Call, info: ModelInfo) -> None:
    """More than the context holds is no cut."""
    how = call.request.truncation
    if how is not None and how.max_tokens is not None and how.max_tokens > info.context_length:
        name = call.given.get("shape.truncate_to", "truncate_prompt_tokens")
        raise InvalidField(
            f"{name} must be at most {info.context_length}, which is the context, or -1", param=name
        )


def name_idle_versions(draft: Draft) -> None:
    """Beams are not told by which weights they were found."""
    if draft.values.get("beam_search") and draft.values.get("shape.weight_versions"):
        draft.ignored.append(draft.given["shape.weight_versions"])


def score_stops(draft: Draft) -> None:
    """Log-probabilities are of all tokens, as token_ids and usage are."""
    draft.values["score_stops"] = True


RULES = (
    openai.check_candidates,
    openai.score_prompt,
    score_stops,
    openai.tell_ids,
    mark_special,
    truncate,
    keep_opening,
    check_lengths,
    check_asked,
    check_greedy,
    check_beams,
    name_idle_versions,
    check_stream_options,
    openai.name_idle_stream_options,
)
