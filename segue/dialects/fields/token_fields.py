"""Fields about tokens: special tokens of prompts, control tokens in texts, token ids in answers, repeated tokens."""

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from segue.bounds import MAX_INT32, MAX_INT64
from segue.dialects.fields.kinds import Boolean, Integer, Lax, Mismatch
from segue.dialects.fields.table import Draft, Field
from segue.types import Repetition, Truncation


@dataclass(frozen=True)
class Not:
    """A boolean whose core field has the opposite meaning."""

    def read(self, value: Any) -> bool:
        return not Boolean().read(value)

    def schema(self) -> dict[str, Any]:
        return Boolean().schema()


@dataclass(frozen=True)
class Side:
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
    Field("truncation_side", Side(), 'Where to cut: by default "left".', "shape.truncation_side"),
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
