"""`/infill`: what an editor knows around its cursor, as llama.vim and its kin send it."""

from dataclasses import dataclass
from typing import Any

from segue.dialects.fields import Draft, Field
from segue.dialects.kinds import Mismatch
from segue.dialects.llamacpp.fields import NATIVE_FIELDS
from segue.dialects.prompt_kinds import MixedText
from segue.types import Infill, Prompt, Snippet

MAX_SNIPPETS = 1024


@dataclass(frozen=True)
class Snippets:
    """Parts of other files: {"text": ..., "filename": ...}. What else an editor notes is passed by."""

    def read(self, value: Any) -> tuple[Snippet, ...]:
        if type(value) is not list or len(value) > MAX_SNIPPETS:
            raise Mismatch(f"a list of at most {MAX_SNIPPETS} snippets", value)
        return tuple(_snippet(entry, f"[{i}]") for i, entry in enumerate(value))

    def schema(self) -> dict[str, Any]:
        text = {"type": "string"}
        properties = {"text": text, "filename": text}
        one = {"type": "object", "properties": properties, "required": ["text"]}
        return {"type": "array", "items": one, "maxItems": MAX_SNIPPETS}


def _snippet(entry: Any, at: str) -> Snippet:
    if type(entry) is not dict or type(entry.get("text")) is not str:
        raise Mismatch("an object with a text", entry, at)
    filename = entry.get("filename", "")
    if type(filename) is not str:
        raise Mismatch("a string", filename, f"{at}.filename")
    return Snippet(entry["text"], filename)


INFILL_FIELDS = NATIVE_FIELDS.extend(
    Field(
        "input_prefix",
        MixedText(),
        "The lines before the cursor's.",
        "shape.input_prefix",
        required=True,
    ),
    Field(
        "input_suffix",
        MixedText(),
        "Everything after the cursor.",
        "shape.input_suffix",
        required=True,
    ),
    Field(
        "prompt",
        MixedText(),
        "What stands left of the cursor in its line.",
        "shape.prompt",
        default=(),
    ),
    Field(
        "input_extra",
        Snippets(),
        "Parts of other files, the least wanted first.",
        "shape.input_extra",
        default=(),
    ),
)


def lay_out_gap(draft: Draft) -> None:
    """Source code is read as text, even where it spells a special token."""
    take = draft.values.pop
    before = (*take("shape.input_prefix"), *take("shape.prompt"))
    suffix = Prompt(take("shape.input_suffix"), parse_special=False)
    draft.values["prompts"] = (Prompt(before, parse_special=False),)
    draft.values["infill"] = Infill(suffix=suffix, snippets=take("shape.input_extra"))
