"""Ollama's fields: those of `/api/generate`, with its options, and the few its `/v1/completions` reads."""

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from segue.bounds import MAX_INT32, MAX_INT64, MAX_NUMBER, MAX_TEXT_CHARS, MIN_DIVISOR
from segue.dialects.fields.constraint_fields import CONSTRAINTS
from segue.dialects.fields.duration import Duration
from segue.dialects.fields.kinds import (
    Boolean,
    Integer,
    Mismatch,
    Number,
    OnlyEmpty,
    Stops,
    Text,
    TokenIds,
    When,
)
from segue.dialects.fields.table import Draft, Field, Table
from segue.dialects.openai import fields as openai
from segue.dialects.templates import go_template
from segue.types import CUT_FIRST, Prompt, Truncation

MAX_TOP = 20

# Where it does not say otherwise, Ollama samples like this.
DEFAULT_TOP_K = 40
DEFAULT_WINDOW = 64
DEFAULT_KEPT = 4


def plain_name(name: str) -> str:
    """A name without a tag means the tag `latest`, and the other way round."""
    return name.removesuffix(":latest")


@dataclass(frozen=True)
class Thinking:
    """Only false passes: no model here reports its thinking apart from its answer."""

    def read(self, value: Any) -> bool:
        if value is not False:
            raise Mismatch("false", value, because="the model does not support thinking")
        return value

    def schema(self) -> dict[str, Any]:
        return {"const": False}


@dataclass(frozen=True)
class LoadablePrompt:
    """One text. An empty text asks for the model to be loaded and for no completion."""

    def read(self, value: Any) -> tuple[Prompt, ...]:
        text = Text(MAX_TEXT_CHARS).read(value)
        return (Prompt((text,)),) if text else ()

    def schema(self) -> dict[str, Any]:
        return Text(MAX_TEXT_CHARS).schema()


MODEL = Field("model", Text(256), "The name of a served model.", "model", required=True)
PROMPT = Field(
    "prompt",
    LoadablePrompt(),
    "The text; empty, the model is only loaded, or unloaded with keep_alive 0.",
    "prompts",
    default=(),
)


def _option(name: str, kind: Any, doc: str, target: str = "", **more: Any) -> Field:
    return Field(f"options.{name}", kind, doc, target, **more)


def _number(name: str, doc: str, target: str, default: float) -> Field:
    kind = Number(-MAX_NUMBER, MAX_NUMBER)
    return _option(name, kind, doc, f"sampling.{target}", default=default)


def _share(name: str, doc: str, default: float) -> Field:
    kind = Number(0, 1, clamp=True)
    return _option(name, kind, doc, f"sampling.{name}", default=default)


OPTIONS = (
    _option(
        "num_predict",
        Integer(-1, MAX_INT32, meaning={-1: None}, clamp=True),
        "Tokens to generate; -1 until the context is full.",
        "max_tokens",
        default=None,
    ),
    _option(
        "num_keep",
        Integer(-1, MAX_INT32, clamp=True),
        "Tokens at the start that truncation keeps.",
        "shape.num_keep",
    ),
    _option("stop", Stops(), "Texts that end the answer.", "stop"),
    _option(
        "seed",
        Integer(-MAX_INT64 - 1, MAX_INT64, meaning={-1: UNSET}),
        "The same seed and request give the same answer; -1 draws one.",
        "sampling.seed",
    ),
    _option(
        "temperature",
        Number(0, MAX_NUMBER, clamp=True),
        "0 is greedy.",
        "sampling.temperature",
        default=0.8,
    ),
    _option(
        "top_k",
        Integer(0, MAX_INT32, clamp=True),
        "Draw from the k likeliest tokens; 0 is off.",
        "sampling.top_k",
        default=DEFAULT_TOP_K,
    ),
    _share("top_p", "Nucleus sampling.", 0.9),
    _share("min_p", "Drop tokens below this share of the best.", 0.0),
    _share("typical_p", "Keep tokens about as surprising as expected.", 1.0),
    _option(
        "repeat_last_n",
        Integer(-1, MAX_INT32, clamp=True),
        "Tokens the penalties look back on; 0 is off, -1 is all of them.",
        "sampling.penalty_window",
        default=DEFAULT_WINDOW,
    ),
    _option(
        "repeat_penalty",
        Number(MIN_DIVISOR, MAX_NUMBER),
        "Divides the logits of tokens that occurred; 1 is off.",
        "sampling.repetition_penalty",
    ),
    _number("presence_penalty", "Against tokens that occurred.", "presence_penalty", 0.0),
    _number(
        "frequency_penalty", "Against tokens, by how often they occurred.", "frequency_penalty", 0.0
    ),
)

GENERATE = Table(
    (
        MODEL,
        PROMPT,
        *openai.FIELDS.pick("suffix").rows,
        Field("system", Text(MAX_TEXT_CHARS), "The system message.", "shape.system"),
        Field(
            "template",
            Text(MAX_TEXT_CHARS),
            "A prompt template in Go's syntax; one with .Suffix is the layout of a gap, too.",
            "shape.template",
        ),
        Field("raw", Boolean(), "Take the prompt as it is.", "shape.raw", default=False),
        Field(
            "truncate",
            When(Truncation()),
            "Cut a prompt that is too long, after its first num_keep tokens.",
            "truncation",
        ),
        Field("context", TokenIds(), "The context of an earlier answer.", "shape.context"),
        *CONSTRAINTS.pick("format").rows,
        Field("images", OnlyEmpty("no model here sees images"), "Not served."),
        Field(
            "think",
            Thinking(),
            "Only false: the model's template is told to leave thinking out.",
            "shape.think",
        ),
        Field("stream", Boolean(), "Send the answer as it is written.", "stream", default=True),
        Field(
            "keep_alive",
            Duration(),
            'How long the model stays loaded afterwards: seconds or "5m"; 0 unloads it.',
            "keep_s",
        ),
        Field("logprobs", Boolean(), "Report log-probabilities.", "shape.logprobs"),
        Field(
            "top_logprobs",
            Integer(0, MAX_TOP),
            "Alternatives reported for each token.",
            "shape.num_top",
        ),
        *OPTIONS,
    )
)


# --- what one field asks of another --------------------------------------------------------------


def report_scores(draft: Draft) -> None:
    num_top = draft.values.get("shape.num_top", 0)
    if draft.values.get("shape.logprobs"):
        draft.values["logprobs"] = num_top
    elif num_top:
        draft.ignored.append("top_logprobs")


def fill_from_the_start(draft: Draft) -> None:
    """With a suffix, an empty prompt is the start of a file; it does not ask for the model to be loaded."""
    if "infill" in draft.values and not draft.values["prompts"]:
        draft.values["prompts"] = (Prompt(("",)),)


def check_raw(draft: Draft) -> None:
    """Drop empty values; refuse the others together with raw."""
    for target in ("shape.system", "shape.template", "shape.context"):
        if not draft.values.get(target):
            draft.values.pop(target, None)
        elif draft.values["shape.raw"]:
            raise draft.refuse(target, "has no place in a raw prompt")


def lay_out(draft: Draft) -> None:
    """A template that names .Suffix lays out a gap, otherwise the model's own tokens do. What is idle is named."""
    named = go_template.names(draft.values.get("shape.template", ""))
    if "infill" in draft.values and ".Suffix" in named:
        draft.values["shape.suffix"] = draft.values.pop("infill").suffix.parts[0]
    idle: tuple[str, ...] = ()
    if "infill" in draft.values:
        idle = ("shape.system", "shape.template", "shape.context")
    elif "shape.template" in draft.values and ".System" not in named:
        idle = ("shape.system",)
    draft.ignored += [draft.given[target] for target in idle if target in draft.values]


def sample_like_ollama(draft: Draft) -> None:
    draft.values["sampling.order"] = CUT_FIRST
    draft.values["sampling.penalize_prompt"] = True


def keep_start(draft: Draft) -> None:
    num_kept = max(draft.values.get("shape.num_keep", DEFAULT_KEPT), 0)
    if "truncation" in draft.values:
        draft.values["truncation"] = Truncation(num_kept=num_kept)
    elif "shape.num_keep" in draft.given:
        draft.ignored.append(draft.given["shape.num_keep"])


GENERATE_RULES = (
    report_scores,
    fill_from_the_start,
    check_raw,
    lay_out,
    keep_start,
    sample_like_ollama,
)

# --- /v1/completions -----------------------------------------------------------------------------

TEXT = Table(
    (
        MODEL,
        PROMPT,
        Field(
            "max_tokens",
            Integer(-1, MAX_INT32, meaning={-1: None, 0: None}, clamp=True),
            "Tokens to generate; 0 and below until the context is full.",
            "max_tokens",
            default=None,
        ),
        Field("stop", Stops(), "Text that ends the answer.", "stop"),
        Field("temperature", Number(0, 2), "0 is greedy.", "sampling.temperature", default=1.0),
        Field("top_p", Number(0, 1), "Nucleus sampling; 0 is off.", "sampling.top_p"),
        *openai.FIELDS.pick(
            "suffix",
            "stream",
            "stream_options.include_usage",
            "seed",
            "presence_penalty",
            "frequency_penalty",
        ).rows,
    )
)


def default_top_k(draft: Draft) -> None:
    draft.values["sampling.top_k"] = DEFAULT_TOP_K
    draft.values["sampling.penalty_window"] = DEFAULT_WINDOW
    if draft.values.get("sampling.top_p") == 0:
        del draft.values["sampling.top_p"]


TEXT_RULES = (
    default_top_k,
    fill_from_the_start,
    sample_like_ollama,
    openai.name_idle_stream_options,
)
