"""Rows about tokens: which of them a prompt gets, which a text shows, which an answer names."""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from segue.dialects.fields import Draft, Field
from segue.dialects.kinds import Boolean


@dataclass(frozen=True)
class Not:
    """A boolean that the core knows the other way round."""

    def read(self, value: Any) -> bool:
        return not Boolean().read(value)

    def schema(self) -> dict[str, Any]:
        return Boolean().schema()


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
        "Leave control tokens out of the text; true unless told.",
        "show_special",
    ),
    Field(
        "include_stop_str_in_output",
        Boolean(),
        "Whether the stop string or token that ended a choice is part of its text.",
        "include_stop",
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


def mark_special(draft: Draft) -> None:
    if draft.values.get("shape.add_special") is False:
        prompts = draft.values["prompts"]
        draft.values["prompts"] = tuple(replace(prompt, add_special=False) for prompt in prompts)
