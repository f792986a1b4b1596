"""llama.cpp's fields, defaults and limits."""

from dataclasses import dataclass, replace
from typing import Any

from msgspec import UNSET

from segue.bounds import (
    MAX_INT32,
    MAX_LOGPROBS,
    MAX_N,
    MAX_NUMBER,
    MAX_REPEATED_CHARS,
    MIN_DIVISOR,
)
from segue.dialects.fields.adapter_fields import LORA
from segue.dialects.fields.closed_schemas import ListedOnly
from segue.dialects.fields.constraint_fields import CONSTRAINTS, GBNF, LAZY, begin_at_trigger
from segue.dialects.fields.kinds import Boolean, Integer, Mismatch, Number, NumTop, Texts
from segue.dialects.fields.model_defaults import OfModel
from segue.dialects.fields.prompt_kinds import Prompts
from segue.dialects.fields.sampler_fields import PENALTIES, SAMPLERS, Biases
from segue.dialects.fields.short_numbers import ShortNumbers
from segue.dialects.fields.table import Draft, Field, complain, show
from segue.dialects.fields.token_fields import DISCARD, KEEP, keep_start
from segue.dialects.openai import fields as openai
from segue.types import CUT_FIRST, Prompt


@dataclass(frozen=True)
class PromptObjects:
    """What Prompts reads, and each text also as {"prompt_string": text}."""

    def read(self, value: Any) -> tuple[Prompt, ...]:
        if type(value) is not list:
            return Prompts(keeps_empty=True).read(_unwrap(value, ""))
        kinds = set(map(type, value))
        if {dict, int} <= kinds:
            raise Mismatch("token ids with texts, or a list of prompts", value)
        if dict in kinds:
            value = [_unwrap(entry, f"[{i}]") for i, entry in enumerate(value)]
        return Prompts(keeps_empty=True).read(value)

    def schema(self) -> dict[str, Any]:
        wrapped = {"type": "object", "properties": {"prompt_string": {"type": "string"}}}
        text, one, several = Prompts().schema()["anyOf"]
        any_of_them = {"anyOf": [*several["items"]["anyOf"], wrapped]}
        return {"anyOf": [text, one, wrapped, {"type": "array", "items": any_of_them}]}


def _unwrap(value: Any, at: str) -> Any:
    """The text of an object, which must be one: a number would be taken for a token id. All else is as it was."""
    if type(value) is not dict:
        return value
    if value.get("multimodal_data"):
        raise Mismatch("text", value, at, because="no model here takes images or sound")
    text = value.get("prompt_string", value)
    if text is not value and type(text) is not str:
        raise Mismatch("a string", text, f"{at}.prompt_string")
    return text


TIMINGS = replace(openai.TIMINGS, target="shape.timings_per_token", default=False)
ENDINGS = openai.FIELDS.pick("n_indent", "t_max_predict_ms", "return_progress", "sse_ping_interval")


def _as_llamacpp(row: Field) -> Field:
    """The row with its numbers clamped to their range; of integers only mirostat, and not adaptive_decay."""
    match row.name, row.kind:
        case "dry_base", _:
            return replace(row, kind=DryBase(), doc=f"{row.doc[:-1]}; below 1 is the default.")
        case "adaptive_decay", _:
            return row
        case _, Number() as number:
            return replace(row, kind=replace(number, clamp=True))
        case "mirostat", Integer() as integer:
            return replace(row, kind=replace(integer, clamp=True))
        case _:
            return row


@dataclass(frozen=True)
class DryBase:
    """One below 1 would make longer repetitions cheaper: it means the default."""

    def read(self, value: Any) -> Any:
        base = Number(-MAX_NUMBER, MAX_NUMBER, clamp=True).read(value)
        return base if base >= 1 else UNSET

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "maximum": MAX_NUMBER}


_NUM_SEEDS = 2**32


@dataclass(frozen=True)
class Seed:
    """Any integer, of which its lowest 32 bits count. All ones, and so -1, mean that one is drawn."""

    def read(self, value: Any) -> Any:
        seed = Integer(-(2**63), 2**64 - 1).read(value) % _NUM_SEEDS
        return UNSET if seed == _NUM_SEEDS - 1 else seed

    def schema(self) -> dict[str, Any]:
        return {"type": "integer"}


OWN_DEFAULTS = {
    "samplers": CUT_FIRST,
    "dry_penalty_last_n": 64,
}

COMMON = openai.FIELDS.pick("model", "stream", "stop", "cache_prompt").extend(
    *(_as_llamacpp(row) for row in SAMPLERS.with_defaults(**OWN_DEFAULTS).rows),
    Field(
        "logit_bias",
        Biases(MAX_NUMBER, clamp=True),
        "Added to the logits, by token id or text; false bans.",
        "sampling.logit_bias",
    ),
    Field(
        "prompt",
        PromptObjects(),
        "Text, token ids, a mix of both, or a list of prompts.",
        "prompts",
        required=True,
    ),
    Field(
        "n_predict",
        Integer(-1, MAX_INT32, meaning={-1: None}),
        "Tokens to generate; without it, or with -1, until the context is full; 0 only reads the prompt.",
        "max_tokens",
        aliases=("max_completion_tokens", "max_tokens"),
        default=None,
    ),
    Field(
        "n_cmpl",
        Integer(1, MAX_N),
        "Choices returned for each prompt.",
        "n",
        aliases=("n",),
    ),
    Field(
        "n_probs",
        NumTop(MAX_LOGPROBS, is_off_from_zero=True),
        "Alternatives reported for each token; 0 and below report nothing.",
        "logprobs",
        aliases=("logprobs",),
    ),
    Field(
        "seed",
        Seed(),
        "The same seed and request give the same answer; its lowest 32 bits count, and -1 draws one.",
        "sampling.seed",
    ),
    Field(
        "temperature",
        Number(0, MAX_NUMBER, clamp=True),
        "0 and below are greedy.",
        "sampling.temperature",
        default=0.8,
    ),
    Field(
        "top_k",
        Integer(0, MAX_INT32, clamp=True),
        "Draw from the k likeliest tokens; 0 and below are off.",
        "sampling.top_k",
        default=40,
    ),
    Field("top_p", Number(0, 1, clamp=True), "Nucleus sampling.", "sampling.top_p", default=0.95),
    Field(
        "min_p",
        Number(0, 1, clamp=True),
        "Drop tokens less likely than this share of the best.",
        "sampling.min_p",
        default=0.05,
    ),
    Field(
        "repeat_penalty",
        Number(MIN_DIVISOR, MAX_NUMBER),
        "Divides the logits of tokens that occurred; 1 is off.",
        "sampling.repetition_penalty",
        default=1.0,
    ),
    Field(
        "repeat_last_n",
        Integer(-1, MAX_INT32),
        "Tokens the penalties look back on; -1 is all of them.",
        "sampling.penalty_window",
        default=64,
    ),
    *(_as_llamacpp(row) for row in PENALTIES.rows),
    *ENDINGS.rows,
    GBNF,
    *LAZY,
    *(
        replace(row, kind=ShortNumbers(ListedOnly(row.kind), of=("json_schema", "json_object")))
        for row in CONSTRAINTS.pick("json_schema", "response_format").rows
    ),
    TIMINGS,
    LORA,
    replace(
        KEEP,
        doc="With --context-shift: tokens at the start, besides BOS, that stay; -1 is the prompt.",
    ),
    replace(
        DISCARD, doc="With it: tokens after these that go each time; 0 is half of what is there."
    ),
    Field(
        "id_slot",
        Integer(-1, MAX_INT32, meaning={-1: UNSET}),
        "What the slot is called that keeps prompt and answer, for POST /slots/{id_slot}; -1: nothing.",
        "client_slot",
    ),
)

OPENAI_FIELDS = COMMON.extend(*openai.FIELDS.pick("echo", "suffix").rows)

NATIVE_FIELDS = COMMON.extend(
    Field(
        "return_tokens",
        Boolean(),
        "Put the token ids into the answer.",
        "shape.return_tokens",
        default=False,
    ),
    Field(
        "response_fields",
        Texts(256, 256),
        "Only these fields of the answer; `timings/prompt_n` is one inside another.",
        "shape.response_fields",
        default=(),
    ),
)


def complain_as_schema(path: str, wrong: Mismatch) -> str:
    """In llama.cpp's own words: editors look for them to explain the limit on n_cmpl."""
    if wrong.bounds is None:
        return f"Field '{path}': {complain('value', wrong)}"
    low, high = wrong.bounds
    got = show(wrong.value)
    return f"Field '{path}': Value must be between {low} <= value <= {high}, but got {got}"


# `general.sampling.*` of a GGUF file, as its server reads them.
OF_MODEL = OfModel(
    (
        "order",
        "top_k",
        "top_p",
        "min_p",
        "xtc_probability",
        "xtc_threshold",
        "temperature",
        "penalty_window",
        "repetition_penalty",
        "mirostat",
        "mirostat_tau",
        "mirostat_eta",
    )
)

# --- rules ---------------------------------------------------------------------------------------


def sample_as_llamacpp(draft: Draft) -> None:
    """Presence and frequency penalties count prompt tokens too."""
    draft.values["sampling.penalize_prompt"] = True


def score_echoed_prompt(draft: Draft) -> None:
    if draft.values.get("echo"):
        draft.values["prompt_logprobs"] = draft.values.get("logprobs")


def tell_prompt(draft: Draft) -> None:
    """Native answers repeat the prompt's text, unless response_fields leaves it out."""
    wanted = draft.values["shape.response_fields"]
    draft.values["echo"] = not wanted or "prompt" in wanted


CHARS_OF_ENTRY = 40  # what an entry of a list takes besides its text: {"bias":-1.5,"token":1234}


def check_settings(draft: Draft) -> None:
    """Native answers tell with each choice what was asked for, with all its texts."""
    values = draft.values
    wanted = values["shape.response_fields"]
    if wanted and not any(path.partition("/")[0] == "generation_settings" for path in wanted):
        return
    constraint = values.get("constraint")
    entries = [each.value for each in values["shape.grammar_triggers"]]
    for listed in ("stop", "sampling.dry_sequence_breakers"):
        entries += values.get(listed, ())
    for numbered in ("sampling.logit_bias", "preserved"):
        entries += [""] * len(values.get(numbered, ()))
    num_chars = sum(map(len, entries)) + CHARS_OF_ENTRY * len(entries)
    num_chars += len(constraint.value) if constraint else 0
    values["shape.told_chars"] = num_chars
    size = num_chars * len(values["prompts"]) * values.get("n", 1)
    if size > MAX_REPEATED_CHARS:
        raise draft.refuse(
            "n" if "n" in draft.given else "prompts",
            f"would bring {size} characters of grammar, triggers, biases and stop, at most {MAX_REPEATED_CHARS}: each "
            "choice tells them, unless response_fields leaves generation_settings out",
        )


COMMON_RULES = (openai.check_candidates, sample_as_llamacpp, keep_start, begin_at_trigger)
OPENAI_RULES = (*COMMON_RULES, score_echoed_prompt)
NATIVE_RULES = (*COMMON_RULES, tell_prompt, check_settings)
