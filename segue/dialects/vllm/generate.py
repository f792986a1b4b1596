"""Tokens in, tokens out: a completion of token ids whose settings are vLLM's SamplingParams, as trainers ask for it."""

from dataclasses import dataclass, replace
from typing import Any

from segue.bounds import MAX_LOGPROBS, MAX_NUMBER
from segue.dialects.base import Operation
from segue.dialects.fields.kinds import Boolean, Mismatch, OnlyEmpty
from segue.dialects.fields.table import Draft, Field
from segue.dialects.openai import fields as openai
from segue.dialects.vllm import fields as vllm
from segue.dialects.vllm.generated import Generated
from segue.dialects.vllm.idle import OF_GENERATE, OF_SETTINGS
from segue.dialects.vllm.kinds import LaxBias, LaxEndless, LaxTokenIds, LaxTop
from segue.types import Prompt

MODES = ("tokens", "text")


@dataclass(frozen=True)
class TokenPrompt:
    """The one prompt, of tokens alone."""

    def read(self, value: Any) -> tuple[Prompt, ...]:
        tokens = LaxTokenIds().read(value)
        if not tokens:
            raise Mismatch("a list of token ids, one at least", value)
        return (Prompt((tokens,)),)

    def schema(self) -> dict[str, Any]:
        return {**LaxTokenIds().schema(), "minItems": 1}


class Mode:
    def read(self, value: Any) -> str:
        if value not in MODES:
            raise Mismatch(" or ".join(f'"{mode}"' for mode in MODES), value)
        return str(value)

    def schema(self) -> dict[str, Any]:
        return {"enum": list(MODES)}


# Each says what an answer has, so that one without it would be wrong.
_ASIDE = tuple(
    Field(name, OnlyEmpty(reason), "Not served.")
    for name, reason in (
        ("logprob_token_ids", "alternatives are the likeliest tokens here"),
        ("prompt_logprob_token_ids", "a prompt's alternatives are the likeliest tokens here"),
        ("prompt_logprob_start", "it needs prompt_logprob_token_ids, which are not served"),
        ("trace_decode_token_ids", "tokens are drawn here, none is prescribed"),
    )
)
_DETOKENIZE = Field("detokenize", Boolean(), "No effect: output_mode says whether there is text.")
_LENGTH = Field(
    "max_tokens",
    LaxEndless(1),
    "Tokens to generate; without it, until the context is full.",
    "max_tokens",
    default=None,
)

_SCORES, _PROMPT_SCORES = (
    replace(row, kind=LaxTop(MAX_LOGPROBS))
    for row in vllm.FIELDS.pick("logprobs", "prompt_logprobs").rows
)

_BIAS = Field(
    "logit_bias",
    LaxBias(MAX_NUMBER),
    "Added to the logits, by token id.",
    "sampling.logit_bias",
)

# SamplingParams, as far as /v1/completions has them too.
_SETTINGS = (
    *vllm.FIELDS.pick(
        *("n", "temperature", "top_p", "top_k", "min_p", "seed"),
        *("presence_penalty", "frequency_penalty", "repetition_penalty"),
        *("min_tokens", "stop", "stop_token_ids", "ignore_eos", "include_stop_str_in_output"),
        *("bad_words", "allowed_token_ids", "structured_outputs", "repetition_detection"),
        *("skip_special_tokens", "stream_interval"),
    ).rows,
    _SCORES,
    replace(
        _PROMPT_SCORES, doc="The same for the tokens of the prompt, by token id; not streamed."
    ),
    _LENGTH,
    _BIAS,
    vllm.lenient(_DETOKENIZE),
    *_ASIDE,
    *OF_SETTINGS,
)


# Of SamplingParams: what null is a value of. For what is not among these it is a mistake.
_NULLABLE = frozenset(
    (
        *("seed", "stop", "stop_token_ids", "max_tokens", "logprobs", "prompt_logprobs"),
        *("logit_bias", "bad_words", "allowed_token_ids", "structured_outputs"),
        *("repetition_detection", "stream_interval"),
        *(row.name for row in (*_ASIDE, *OF_SETTINGS) if row.nullable),
    )
)


def _setting(row: Field) -> Field:
    is_nullable = row.name in _NULLABLE
    return replace(row, name=f"sampling_params.{row.name}", nullable=is_nullable)


FIELDS = vllm.FIELDS.pick(
    *("model", "cache_salt", "priority", "request_id", "return_token_ids", "stream"),
    *("stream_options.include_usage", "stream_options.continuous_usage_stats"),
).extend(
    Field(
        "token_ids",
        TokenPrompt(),
        "The prompt; nothing is put in front.",
        "prompts",
        required=True,
        nullable=False,
    ),
    Field(
        "output_mode",
        Mode(),
        "`text`: choices have their text, too, and log-probabilities the texts of tokens.",
        "shape.output_mode",
        default="tokens",
        nullable=False,
    ),
    *map(_setting, _SETTINGS),
    *OF_GENERATE,
    *(
        Field(name, OnlyEmpty("there are no images here"), "Not served.")
        for name in ("features", "content_parts")
    ),
)


def name_idle_scores(draft: Draft) -> None:
    """A stream has no place for the scores of the prompt."""
    if draft.values.get("stream") and draft.values["shape.prompt_logprobs"] is not None:
        draft.values["shape.prompt_logprobs"] = None
        draft.ignored.append(draft.given["shape.prompt_logprobs"])


GENERATE = Operation(
    "/inference/v1/generate",
    "Complete a prompt of tokens, by tokens.",
    FIELDS,
    Generated,
    (
        openai.check_candidates,
        name_idle_scores,
        openai.score_prompt,
        vllm.score_stops,
        vllm.check_lengths,
        vllm.check_greedy,
        openai.name_idle_stream_options,
    ),
    exact_model=True,
)
