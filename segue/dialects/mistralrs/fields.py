"""mistral.rs's fields of `/v1/completions`, and how its sampler reads them."""

from dataclasses import dataclass
from typing import Any

from segue.bounds import MAX_N, MAX_NUMBER, MAX_REPEATED_CHARS, MIN_DIVISOR
from segue.dialects.fields.adapter_fields import ADAPTER
from segue.dialects.fields.constraint_fields import CONSTRAINTS, TYPED_GRAMMAR
from segue.dialects.fields.infill_fields import check_prompts
from segue.dialects.fields.kinds import Boolean, Endless, Integer, LogitBias, Number, Text
from segue.dialects.fields.model_defaults import OfModel
from segue.dialects.fields.prompt_kinds import OnePrompt
from segue.dialects.fields.sampler_fields import PENALTIES, SAMPLERS
from segue.dialects.fields.table import Draft, Field
from segue.dialects.fields.tools import TOOL_ROWS, call_tool
from segue.dialects.openai import fields as openai
from segue.types import Sampling, Step

# As its sampler goes about it.
ORDER: tuple[Step, ...] = (
    "dry", "penalties", "logit_bias", "temperature", "top_k", "top_p", "min_p",
)  # fmt: skip


@dataclass(frozen=True)
class Share:
    """A share of the probability. 0 and below, 1 and above turn the filter off, whichever of them would cut most."""

    off: float

    def read(self, value: Any) -> float:
        share = Number(-MAX_NUMBER, MAX_NUMBER, clamp=True).read(value)
        return share if 0 < share < 1 else self.off

    def schema(self) -> dict[str, Any]:
        return {"type": "number"}


FIELDS = openai.FIELDS.pick("logprobs", "best_of", "stream", "user", "seed", "suffix").extend(
    Field(
        "model",
        Text(256),
        "A served name, or `default`.",
        "model",
        default="default",
        nullable=False,
    ),
    Field(
        "prompt", OnePrompt(may_be_empty=True), "The text to complete.", "prompts", required=True
    ),
    Field(
        "max_tokens",
        Endless(1),
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
    *openai.FIELDS.pick("stop").rows,
    Field(
        "temperature",
        Number(0, MAX_NUMBER, clamp=True),
        "0 is greedy.",
        "sampling.temperature",
    ),
    Field("top_p", Share(1.0), "Nucleus sampling; 0 and 1 are off.", "sampling.top_p"),
    Field(
        "top_k",
        Endless(0),
        "Draw from the k likeliest tokens; 0 is off.",
        "sampling.top_k",
    ),
    Field(
        "min_p",
        Share(0.0),
        "Drop tokens less likely than this share of the best; 0 and 1 are off.",
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
        LogitBias(MAX_NUMBER, clamp=True),
        "Added to the logits, by token id.",
        "sampling.logit_bias",
    ),
    TYPED_GRAMMAR,
    *CONSTRAINTS.pick("response_format").rows,
    *TOOL_ROWS,
    ADAPTER,
    *openai.FIELDS.pick("truncate_sequence").rows,
    *SAMPLERS.pick(
        "dry_multiplier",
        "dry_base",
        "dry_allowed_length",
        "dry_sequence_breakers",
    ).rows,
    Field(
        "ignore_eos",
        Boolean(),
        "Go on after the model's end token.",
        "sampling.pass_eos",
        nullable=False,
    ),
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


def set_order(draft: Draft) -> None:
    draft.values["sampling.order"] = ORDER
    draft.values["sampling.repetition_last"] = True


def allow_no_repetition(draft: Draft) -> None:
    """Its DRY counts repetitions from one token on: with a length of 0, one of n tokens costs multiplier * base^n.

    Ours with 0 counts all tokens that occurred, as llama.cpp's does. With 1 it does not, and the multiplier makes up
    for the step.
    """
    multiplier, length = "sampling.dry_multiplier", "sampling.dry_allowed_length"
    if draft.values.get(length) == 0:
        base = draft.values.get("sampling.dry_base", Sampling().dry_base)
        draft.values[multiplier] = draft.values.get(multiplier, 0.0) * base
        draft.values[length] = 1
        draft.waived |= {multiplier, length}  # no default is put in their place


def score_echoed_prompt(draft: Draft) -> None:
    if draft.values.get("echo"):
        draft.values["prompt_logprobs"] = draft.values.get("logprobs")


def check_suffix(draft: Draft) -> None:
    """It is returned behind each choice, whole."""
    if "infill" not in draft.values:
        return
    parts = draft.values["infill"].suffix.parts
    num_chars = sum(len(part) for part in parts if isinstance(part, str))
    draft.values["shape.told_chars"] = num_chars
    size = num_chars * draft.values["n"]
    if size > MAX_REPEATED_CHARS:
        raise draft.refuse(
            "infill",
            f"would bring {size} characters, once behind each choice: at most {MAX_REPEATED_CHARS}",
        )


RULES = (
    check_prompts,
    keep_the_best,
    check_suffix,
    openai.check_candidates,
    set_order,
    allow_no_repetition,
    score_echoed_prompt,
    call_tool,
)
