"""Fields about tokens: special ones in prompts and texts, ids in answers, those whose scores are told, repeated ones,
those dropped for room."""

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from segue.bounds import MAX_INT32, MAX_INT64
from segue.dialects.fields.kinds import Boolean, Integer, Lax, Mismatch, TokenIds
from segue.dialects.fields.table import Draft, Field
from segue.types import Repetition, Shift, Truncation


@dataclass(frozen=True)
class Not:
    """A boolean whose core field has the opposite meaning."""

    def read(self, value: Any) -> bool:
        return not Boolean().read(value)

    def schema(self) -> dict[str, Any]:
        return Boolean().schema()


@dataclass(frozen=True)
class TruncationSide:
    """Which end of a prompt is cut: "left" is its start."""

    def read(self, value: Any) -> str:
        if value not in ("left", "right"):
            raise Mismatch('"left" or "right"', value)
        return "start" if value == "left" else "end"

    def schema(self) -> dict[str, Any]:
        return {"enum": ["left", "right"]}


@dataclass(frozen=True)
class Patterns:
    """vLLM's object for a text that repeats itself. A largest size of 0, which is the default, is none.

    Names that nobody knows are refused: one may have been meant for another, and then nothing would end.
    """

    def read(self, value: Any) -> Any:
        if type(value) is not dict or value.keys() - set(_PATTERNS):
            raise Mismatch(f"an object with {', '.join(_PATTERNS)} alone", value)
        largest, smallest, count = (self._number(name, value.get(name, 0)) for name in _PATTERNS)
        if smallest > largest:
            raise Mismatch(
                f"at most max_pattern_size, which is {largest}", smallest, f".{_PATTERNS[1]}"
            )
        if not largest:
            return UNSET
        if count < 2:
            raise Mismatch("at least 2", count, f".{_PATTERNS[2]}")
        return Repetition(max_size=largest, min_size=max(smallest, 1), min_count=count)

    def _number(self, name: str, value: Any) -> int:
        try:
            number: int = Lax(Integer(0, MAX_INT32)).read(value)
        except Mismatch as wrong:
            raise wrong.inside(f".{name}") from None
        return number

    def schema(self) -> dict[str, Any]:
        number = Integer(0, MAX_INT32).schema()
        properties = dict.fromkeys(_PATTERNS, number)
        return {"type": "object", "properties": properties, "additionalProperties": False}


_PATTERNS = ("max_pattern_size", "min_pattern_size", "min_count")

REPETITION = Field(
    "repetition_detection",
    Patterns(),
    "End a choice whose last tokens are a pattern of max_pattern_size tokens or fewer, min_count times in a row.",
    "repetition",
)

# Whether answers shift. A server sets it too, where requests say nothing of it (--context-shift).
SHIFTS = "shape.shifts"
NUM_KEPT = "shape.num_keep"
NUM_DROPPED = "shape.num_discard"

SHIFT = Field(
    "shift",
    Boolean(),
    "Whether an answer goes on where the context is full, for ten of them: half of what follows the first n_keep goes.",
    SHIFTS,
    default=False,
)
KEEP = Field(
    "n_keep",
    Integer(-1, MAX_INT32),
    "Tokens at the start that stay where a prompt is cut or a context shifts; then BOS besides, and -1 is the prompt.",
    NUM_KEPT,
)
DISCARD = Field(
    "n_discard",
    Integer(0, MAX_INT32),
    "Tokens after these that a shift drops each time; 0 is half of what is there.",
    NUM_DROPPED,
)


TOKEN_ROWS = (
    Field(
        "add_special_tokens",
        Boolean(),
        "Put BOS in front of text, if the model wants one.",
        "shape.add_special",
    ),
    Field(
        "skip_special_tokens",
        Not(),
        "Leave control tokens out of the text; by default true.",
        "show_special",
    ),
    Field(
        "include_stop_str_in_output",
        Boolean(),
        "Whether the stop string or token that ended a choice is part of its text.",
        "include_stop",
    ),
    Field(
        "truncate_prompt_tokens",
        Integer(-1, MAX_INT64, meaning={-1: None}),
        "Cut a longer prompt to so many tokens; -1 to what the context holds beside the answer.",
        "shape.truncate_to",
    ),
    Field(
        "truncation_side",
        TruncationSide(),
        'Where to cut: by default "left".',
        "shape.truncation_side",
    ),
    Field(
        "return_token_ids",
        Boolean(),
        "Report the ids of prompt and completion as prompt_token_ids and token_ids.",
        "shape.token_ids",
    ),
    Field(
        "return_tokens_as_token_ids",
        Boolean(),
        'Call tokens "token_id:7" in logprobs, so that no two are called alike.',
        "shape.tokens_as_ids",
    ),
)


MAX_ASKED = 128  # vLLM's MAX_LOGPROB_TOKEN_IDS

ASKED = Field(
    "logprob_token_ids",
    TokenIds(MAX_ASKED),
    "With logprobs: the tokens whose log-probabilities are reported of every generated token, in place of the "
    "likeliest.",
    "logprob_token_ids",
)


def check_asked(draft: Draft) -> None:
    """They stand where alternatives do, of tokens that are generated."""
    asked = draft.values.pop("logprob_token_ids", ())
    if not asked:
        return
    if draft.values.get("logprobs") is None:
        raise draft.refuse("logprob_token_ids", "can only be given together with logprobs")
    if draft.values.get("max_tokens") == 0:
        raise draft.refuse(
            "logprob_token_ids", "needs max_tokens of at least 1: they are of generated tokens"
        )
    if draft.values.get("beam_search"):
        raise draft.refuse("logprob_token_ids", "cannot be combined with use_beam_search")
    draft.values["logprob_token_ids"] = tuple(dict.fromkeys(asked))


def mark_special(draft: Draft) -> None:
    if draft.values.get("shape.add_special") is False:
        prompts = draft.values["prompts"]
        draft.values["prompts"] = tuple(replace(prompt, add_special=False) for prompt in prompts)


def truncate(draft: Draft) -> None:
    values = draft.values
    if "shape.truncate_to" in values:
        if "truncation" in values:
            given = draft.given["truncation"]
            raise draft.refuse("shape.truncate_to", f"cannot be given together with {given}")
        if values["shape.truncate_to"] == 0:
            raise draft.refuse("shape.truncate_to", "must leave a token: at least 1, or -1")
        if "infill" in values and values["shape.truncate_to"] is not None:
            # What stands around a gap is cut to the context, and nearest to the cursor it stays.
            sent = ("shape.truncate_to", "shape.truncation_side")
            draft.ignored += [draft.given[target] for target in sent if target in values]
            return
        side = values.get("shape.truncation_side", "start")
        values["truncation"] = Truncation(max_tokens=values["shape.truncate_to"], side=side)
    elif "shape.truncation_side" in values:
        draft.ignored.append(draft.given["shape.truncation_side"])


def keep_start(draft: Draft, num_kept: int = 0) -> None:
    """What stays where the start of a prompt is cut, and where a context shifts. `num_kept`: where nothing is said.

    What fills a gap does not shift: the layout around it would be lost. Nor do beams, and who asks for both is refused.
    """
    values, given = draft.values, draft.given
    kept = values.get(NUM_KEPT, num_kept)
    is_cut = "truncation" in values and values["truncation"].side == "start"
    if is_cut:
        values["truncation"] = replace(values["truncation"], num_kept=max(kept, 0))
    is_gap = "infill" in values or "shape.suffix" in values
    is_idle = is_gap or (values.get("beam_search") and SHIFTS not in given)
    if values.get(SHIFTS) and not is_idle:
        num_dropped = values.get(NUM_DROPPED, 0)
        values["shift"] = Shift(
            num_kept=kept, num_dropped=num_dropped, optional=SHIFTS not in given
        )
        return
    idle = {NUM_KEPT: not is_cut, NUM_DROPPED: True, SHIFTS: values.get(SHIFTS)}
    draft.ignored += [given[target] for target, is_so in idle.items() if is_so and target in given]
