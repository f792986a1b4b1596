"""The fields of the root dialect: OpenAI's defaults, the fields of all six under all their names."""

from dataclasses import replace

from msgspec import UNSET

from segue.bounds import (
    MAX_BIAS,
    MAX_CANDIDATES,
    MAX_INT32,
    MAX_INT64,
    MAX_LOGPROBS,
    MAX_N,
    MAX_TEXT_CHARS,
    MIN_DIVISOR,
)
from segue.dialects.base import INTERVAL, PING
from segue.dialects.fields.adapter_fields import ADAPTER, LORA
from segue.dialects.fields.constraint_fields import CONSTRAINTS, LAZY, begin_at_trigger
from segue.dialects.fields.duration import Duration, Milliseconds
from segue.dialects.fields.infill_fields import GAP_ROWS, check_prompts, describe_gap
from segue.dialects.fields.kinds import (
    Boolean,
    Endless,
    Integer,
    Number,
    NumTop,
    Stops,
    Text,
    Texts,
    When,
)
from segue.dialects.fields.prompt_kinds import Prompts, Suffix
from segue.dialects.fields.sampler_fields import SAMPLERS, TOKEN_LIMITS, Biases, Breakers
from segue.dialects.fields.search_fields import BEAMS, LENGTH_PENALTY, PRIORITY, check_beams
from segue.dialects.fields.table import Draft, Field, Table
from segue.dialects.fields.token_fields import (
    ASKED,
    DISCARD,
    KEEP,
    REPETITION,
    SHIFT,
    TOKEN_ROWS,
    check_asked,
    keep_start,
    mark_special,
    truncate,
)
from segue.dialects.fields.tools import TOOL_ROWS, call_tool
from segue.errors import UnknownModel
from segue.types import Truncation

# What clients of other servers send as text.
_KINDS = {"dry_sequence_breakers": Breakers(Texts(64, 64))}

FIELDS = Table(
    (
        Field("model", Text(256), "A served name or alias, or `default`.", "model"),
        Field(
            "prompt",
            Prompts(may_be_empty=True),
            "Text, token ids, a mix of both, or a list of prompts.",
            "prompts",
            required=True,
        ),
        Field(
            "suffix",
            Suffix(),
            "Text that follows: the answer fills the gap between prompt and suffix.",
            "infill",
        ),
        Field(
            "max_tokens",
            Endless(-1, {-1: None}),
            "Tokens to generate; -1 until the context is full, 0 only scores the prompt.",
            "max_tokens",
            aliases=("max_completion_tokens", "n_predict"),
        ),
        Field("n", Integer(1, MAX_N), "Choices returned for each prompt.", "n"),
        Field(
            "best_of",
            Integer(1, MAX_N),
            "Candidates drawn for each prompt; the n with the highest mean log-probability return. Where "
            "a gap is filled by ranking, 8 if it is not given.",
            "best_of",
        ),
        Field("stream", Boolean(), "Send the answer as it is written.", "stream"),
        Field(
            "stream_options.include_usage",
            Boolean(),
            "End the stream with a chunk that has the usage.",
            "shape.include_usage",
            default=False,
        ),
        Field(
            "stream_options.continuous_usage_stats",
            Boolean(),
            "Report the usage so far with every chunk; needs include_usage.",
            "shape.continuous_usage",
            default=False,
        ),
        Field(
            "stream_interval",
            Endless(1),
            "Tokens of each chunk of a stream after its first; the server's --stream-interval, if that is more.",
            f"shape.{INTERVAL}",
        ),
        Field(
            "sse_ping_interval",
            Integer(-1, MAX_INT32),
            "Seconds of silence after which a stream has a comment, or --sse-ping-interval; 0 and -1 are never.",
            f"shape.{PING}",
        ),
        Field("echo", Boolean(), "Return the prompt in front of the completion.", "echo"),
        Field(
            "logprobs",
            NumTop(MAX_LOGPROBS),
            "Alternatives reported for each token; 0 reports the chosen one only.",
            "logprobs",
        ),
        Field(
            "prompt_logprobs",
            NumTop(MAX_LOGPROBS),
            "The same for the tokens of the prompt, by token id.",
            "shape.prompt_logprobs",
            default=None,
        ),
        Field("stop", Stops(), "Text that ends a choice; it is not returned.", "stop"),
        Field(
            "seed",
            Integer(-MAX_INT64 - 1, MAX_INT64, meaning={-1: UNSET}),
            "The same seed and request give the same answer; -1 draws one.",
            "sampling.seed",
        ),
        Field("user", Text(MAX_TEXT_CHARS), "Accepted; nothing depends on it."),
        Field("temperature", Number(0, 2), "0 is greedy.", "sampling.temperature"),
        Field("top_p", Number(0, 1), "Nucleus sampling.", "sampling.top_p"),
        Field(
            "top_k",
            Endless(-1, {-1: 0}),
            "Draw from the k likeliest tokens; 0 and -1 are off.",
            "sampling.top_k",
        ),
        Field(
            "min_p",
            Number(0, 1),
            "Drop tokens less likely than this share of the best.",
            "sampling.min_p",
        ),
        Field(
            "presence_penalty",
            Number(-2, 2),
            "Against tokens that occurred.",
            "sampling.presence_penalty",
        ),
        Field(
            "frequency_penalty",
            Number(-2, 2),
            "Against tokens, by how often they occurred.",
            "sampling.frequency_penalty",
        ),
        Field(
            "repetition_penalty",
            Number(MIN_DIVISOR, 100),
            "Divides the logits of tokens that occurred; 1 is off.",
            "sampling.repetition_penalty",
            aliases=("repeat_penalty",),
        ),
        Field(
            "repeat_last_n",
            Integer(-1, MAX_INT32),
            "Tokens the penalties look back on; -1 is all of them.",
            "sampling.penalty_window",
        ),
        Field(
            "logit_bias",
            Biases(MAX_BIAS),
            "Added to the logits, by token id or text; false bans.",
            "sampling.logit_bias",
        ),
        Field(
            "truncate_sequence",
            When(Truncation()),
            "Drop the start of a prompt that is too long.",
            "truncation",
        ),
        Field(
            "n_indent",
            Integer(0, MAX_INT32),
            "End a choice at a later line that is indented by fewer blanks; 0 is off.",
            "min_indent",
        ),
        Field(
            "t_max_predict_ms",
            Milliseconds(),
            "End a choice at the first new line after so long; 0 and -1 are off.",
            "time_limit_s",
        ),
        Field(
            "return_progress",
            Boolean(),
            "Tell in a stream how far a prompt has been read.",
            "report_progress",
        ),
        LORA,
        ADAPTER,
        Field("cache_prompt", Boolean(), "Whether cached prefixes may be used.", "use_cache"),
        Field(
            "cache_salt", Text(128), "Share cached prefixes only with the same salt.", "cache_salt"
        ),
        Field(
            "keep_alive",
            Duration(),
            'How long the model stays loaded afterwards: seconds or "5m"; 0 unloads it.',
            "keep_s",
        ),
        *TOKEN_ROWS,
        *(replace(row, kind=_KINDS.get(row.name, row.kind)) for row in SAMPLERS.rows),
        *CONSTRAINTS.rows,
        *TOOL_ROWS,
    )
)


TIMINGS = Field(
    "timings_per_token",
    Boolean(),
    "Put the timings so far into every chunk.",
    "shape.timings",
)

# Fields that only one other system has, too. Ollama's clients send their own body to any path.
ROOT = FIELDS.extend(
    *TOKEN_LIMITS,
    *GAP_ROWS,
    BEAMS,
    LENGTH_PENALTY,
    PRIORITY,
    ASKED,
    REPETITION,
    SHIFT,
    KEEP,
    DISCARD,
    TIMINGS,
    *LAZY,
    Field(
        "top_logprobs",
        Integer(0, MAX_LOGPROBS),
        "Alternatives reported for each token, where logprobs is true.",
        "shape.top_logprobs",
        default=None,
    ),
).with_aliases(
    max_tokens=("num_predict", "options.num_predict"),
    n=("n_cmpl",),
    n_keep=("num_keep", "options.num_keep"),
    logprobs=("n_probs",),
    return_token_ids=("return_tokens",),
    **{
        name: (f"options.{name}",)
        for name in (
            "stop",
            "seed",
            "temperature",
            "top_k",
            "top_p",
            "min_p",
            "typical_p",
            "repeat_last_n",
            "presence_penalty",
            "frequency_penalty",
        )
    },
    repetition_penalty=("options.repeat_penalty",),
)


# --- what one field asks of another --------------------------------------------------------------


def check_candidates(draft: Draft) -> None:
    n = draft.values.get("n", 1)
    best_of = draft.values.get("best_of", n)
    if best_of < n:
        raise draft.refuse("best_of", f"must be at least n, which is {n}")
    # Ranked infill draws more than n in any case, and tells how far it is meanwhile.
    is_gap = "infill" in draft.values
    if best_of > n and draft.values.get("stream") and not is_gap:
        raise draft.refuse("best_of", "cannot be streamed: the best are known only at the end")
    if best_of == n and not (is_gap and "best_of" in draft.given):
        draft.values.pop("best_of", None)
    num_prompts = len(draft.values["prompts"])
    if num_prompts * best_of > MAX_CANDIDATES:
        message = f"times {num_prompts} prompts must be at most {MAX_CANDIDATES}"
        raise draft.refuse("best_of" if best_of > n else "n", message)


def widen_logprobs(draft: Draft) -> None:
    """Merge top_logprobs, which Ollama and chat completions have beside a boolean, into logprobs."""
    num_top = draft.values.pop("shape.top_logprobs", None)
    if num_top is None:
        return
    if "logprobs" in draft.values:
        draft.values["logprobs"] = max(num_top, draft.values["logprobs"])
    else:
        draft.ignored.append(draft.given["shape.top_logprobs"])


def score_prompt(draft: Draft) -> None:
    """With echo and logprobs, prompt tokens are scored too."""
    wanted = [draft.values["shape.prompt_logprobs"]]
    if draft.values.get("echo"):
        wanted.append(draft.values.get("logprobs"))
    draft.values["prompt_logprobs"] = max((num for num in wanted if num is not None), default=None)


def score_returned(draft: Draft) -> None:
    """Where token ids are returned, each has its log-probability, also those inside a stop string."""
    draft.values["score_stops"] = draft.values.get("shape.token_ids", False)


def tell_ids(draft: Draft) -> None:
    """Those of the prompt stand in each of its choices, which the engine counts."""
    draft.values["tells_ids"] = draft.values.get("shape.token_ids", False)


def name_a_model(draft: Draft) -> None:
    """For systems where no name is that of no model; elsewhere it is that of the first one."""
    if not draft.values["model"]:
        raise UnknownModel("model '' not found", "model")


def name_idle_stream_options(draft: Draft) -> None:
    """They act in streams only, and usage so far is told only where usage is asked for."""
    idle: tuple[str, ...] = ()
    if not draft.values.get("stream"):
        streamed = ("include_usage", "continuous_usage", INTERVAL, PING)
        idle = tuple(f"shape.{name}" for name in streamed)
    elif not draft.values.get("shape.include_usage") and draft.values.get("shape.continuous_usage"):
        idle = ("shape.continuous_usage",)
    draft.ignored += [draft.given[target] for target in idle if target in draft.given]


RULES = (
    describe_gap,
    check_prompts,
    check_candidates,
    widen_logprobs,
    check_asked,
    score_prompt,
    score_returned,
    tell_ids,
    call_tool,
    begin_at_trigger,
    mark_special,
    truncate,
    check_beams,
    keep_start,
    name_idle_stream_options,
)
