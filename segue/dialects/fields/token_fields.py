"""Fields about tokens: special tokens of prompts, control tokens in texts, token ids in answers."""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from segue.bounds import MAX_INT64
from segue.dialects.fields.kinds import Boolean, Integer, Mismatch
from segue.dialects.fields.table import Draft, Field
from segue.types import Truncation


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
