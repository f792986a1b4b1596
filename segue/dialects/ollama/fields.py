"""Ollama's fields: those of `/api/generate`, with its options, and the few its `/v1/completions` reads."""

from dataclasses import replace
from typing import Any

from msgspec import UNSET

from segue.bounds import MAX_INT32, MAX_INT64, MAX_NUMBER, MAX_TEXT_CHARS, MIN_DIVISOR
from segue.dialects.fields.closed_schemas import ListedOnly
from segue.dialects.fields.constraint_fields import CONSTRAINTS
from segue.dialects.fields.duration import Duration
from segue.dialects.fields.kinds import (
    Boolean,
    Integer,
    Kind,
    Number,
    OnlyEmpty,
    Stops,
    Text,
    TokenIds,
    When,
)
from segue.dialects.fields.short_numbers import ShortNumbers
from segue.dialects.fields.table import Draft, Field, Table
from segue.dialects.fields.token_fields import NUM_KEPT, SHIFTS, keep_start
from segue.dialects.ollama.kinds import LoadablePrompt, Thinking, TruncatedInteger, Unset0
from segue.dialects.openai import fields as openai
from segue.dialects.templates import go_template
from segue.types import CUT_FIRST, Prompt, Repetition, Truncation

MAX_TOP = 20

# Where it does not say otherwise, Ollama samples like this.
DEFAULT_TOP_K = 40
DEFAULT_WINDOW = 64
DEFAULT_KEPT = 4

# What repeats one token so often ends.
ONE_TOKEN = Repetition(max_size=1, min_count=32)


def plain_name(name: str) -> str:
    """A name without a tag means the tag `latest`, and the other way round."""
    return name.removesuffix(":latest")


def tagged_name(name: str) -> str:
    """As Ollama lists it: clients look for the tag."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


MODEL = Field("model", Text(256), "The name of a served model.", "model", required=True)
PROMPT = Field(
    "prompt",
    LoadablePrompt(),
    "The text; empty, the model is only loaded, or unloaded with keep_alive 0.",
    "prompts",
    default=(),
)


RENDERING = Field("_debug_render_only", Boolean(), "No effect: prompts are completed.")


def _option(name: str, kind: Any, doc: str, target: str = "", **more: Any) -> Field:
    return Field(f"options.{name}", kind, doc, target, **more)


def _share(name: str, doc: str, default: float, kind: Kind | None = None) -> Field:
    return _option(name, kind or _SHARE, doc, f"sampling.{name}", default=default)


def _idle(name: str, doc: str, kind: Kind | None = None) -> Field:
    """An option of loading: its type is checked, and it has no effect."""
    return _option(
        name, kind or TruncatedInteger(Integer(-MAX_INT64 - 1, MAX_INT64, clamp=True)), doc
    )


# Ollama's two routes take the same numbers: those out of range are moved into it.
_SHARE = Number(0, 1, clamp=True)
_HEAT = Number(0, MAX_NUMBER, clamp=True)
_PENALTY = Number(-MAX_NUMBER, MAX_NUMBER, clamp=True)
_BOUND = Integer(-1, MAX_INT32, meaning={-1: None, 0: None}, clamp=True)
_UNBOUNDED = "Tokens to generate; without it, or with 0 and below, ten contexts of them."


OPTIONS = (
    _option(
        "num_predict",
        TruncatedInteger(_BOUND),
        _UNBOUNDED,
        "max_tokens",
        default=None,
    ),
    _option(
        "num_keep",
        TruncatedInteger(Integer(-1, MAX_INT32, clamp=True)),
        "Tokens at the start that truncation and shifts of the context keep; of shifts, -1 is the prompt.",
        NUM_KEPT,
    ),
    _option("stop", Stops(), "Texts that end the answer.", "stop"),
    _option(
        "seed",
        TruncatedInteger(Integer(-MAX_INT64 - 1, MAX_INT64, meaning={-1: UNSET}, clamp=True)),
        "The same seed and request give the same answer; -1 draws one.",
        "sampling.seed",
    ),
    _option(
        "temperature",
        _HEAT,
        "0 is greedy.",
        "sampling.temperature",
        default=0.8,
    ),
    _option(
        "top_k",
        TruncatedInteger(Integer(0, MAX_INT32, clamp=True)),
        "Draw from the k likeliest tokens; 0 is off.",
        "sampling.top_k",
        default=DEFAULT_TOP_K,
    ),
    _share("top_p", "Nucleus sampling.", 0.9),
    _share("min_p", "Drop tokens below this share of the best.", 0.0),
    _share(
        "typical_p", "Keep tokens about as surprising as expected; 0 is off.", 1.0, Unset0(_SHARE)
    ),
    _option(
        "repeat_last_n",
        TruncatedInteger(Integer(-1, MAX_INT32, clamp=True)),
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
    _option(
        "presence_penalty",
        _PENALTY,
        "Against tokens that occurred.",
        "sampling.presence_penalty",
        default=0.0,
    ),
    _option(
        "frequency_penalty",
        _PENALTY,
        "Against tokens, by how often they occurred.",
        "sampling.frequency_penalty",
        default=0.0,
    ),
)

LOADING = (
    _idle("num_ctx", "No effect: --context-length is the server's."),
    _idle("num_batch", "No effect: --chunk-rows is the server's."),
    _idle("num_gpu", "No effect."),
    _idle("main_gpu", "No effect."),
    _idle("use_mmap", "No effect.", Boolean()),
    _idle("num_thread", "No effect: --threads is the server's."),
    _idle("draft_num_predict", "No effect."),
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
        Field(
            "shift",
            Boolean(),
            "Whether an answer goes on where the context is full: half of the tokens after the first num_keep go.",
            SHIFTS,
            default=True,
        ),
        Field("context", TokenIds(), "The context of an earlier answer.", "shape.context"),
        *(
            replace(row, kind=ShortNumbers(ListedOnly(row.kind)))
            for row in CONSTRAINTS.pick("format").rows
        ),
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
        RENDERING,
        *OPTIONS,
        *LOADING,
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


def load_at_once(draft: Draft) -> None:
    """That a model is loaded is one object, and no stream of them."""
    if not draft.values["prompts"]:
        draft.values["stream"] = False


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


def go_on(draft: Draft) -> None:
    """Where the context is full, unless the request says otherwise; but not with one token again and again."""
    draft.values.setdefault(SHIFTS, True)
    keep_start(draft, DEFAULT_KEPT)
    draft.values["repetition"] = ONE_TOKEN


GENERATE_RULES = (
    openai.name_a_model,
    report_scores,
    fill_from_the_start,
    load_at_once,
    check_raw,
    lay_out,
    go_on,
    sample_like_ollama,
)

# --- /v1/completions -----------------------------------------------------------------------------

TEXT = Table(
    (
        MODEL,
        PROMPT,
        Field(
            "max_tokens",
            _BOUND,
            _UNBOUNDED,
            "max_tokens",
            default=None,
        ),
        Field("stop", Stops(), "Text that ends the answer.", "stop"),
        Field("temperature", _HEAT, "0 is greedy.", "sampling.temperature", default=1.0),
        Field("top_p", Unset0(_SHARE), "Nucleus sampling; 0 is off.", "sampling.top_p"),
        Field(
            "presence_penalty",
            _PENALTY,
            "Against tokens that occurred.",
            "sampling.presence_penalty",
        ),
        Field(
            "frequency_penalty",
            _PENALTY,
            "Against tokens, by how often they occurred.",
            "sampling.frequency_penalty",
        ),
        Field(
            "logprobs",
            Integer(-MAX_INT64 - 1, MAX_TOP),
            "No effect: log-probabilities are reported by /api/generate.",
        ),
        *openai.FIELDS.pick("suffix", "stream", "stream_options.include_usage", "seed").rows,
        RENDERING,
    )
)


def default_top_k(draft: Draft) -> None:
    draft.values["sampling.top_k"] = DEFAULT_TOP_K
    draft.values["sampling.penalty_window"] = DEFAULT_WINDOW


TEXT_RULES = (
    openai.name_a_model,
    default_top_k,
    fill_from_the_start,
    go_on,
    sample_like_ollama,
    openai.name_idle_stream_options,
)
