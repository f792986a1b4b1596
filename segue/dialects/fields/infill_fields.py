"""Fields of an infill request besides prefix and suffix. Most names are Segue's own.

llama.cpp has `input_extra`, and the order as a flag of the whole server; the others have none of it.
"""

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from segue.bounds import MAX_FILE_NAME_CHARS, MAX_SNIPPETS
from segue.dialects.fields.kinds import Mismatch, Text, Word
from segue.dialects.fields.table import Draft, Field
from segue.errors import InvalidField
from segue.types import Infill, Prompt, Snippet


@dataclass(frozen=True)
class Snippets:
    """Parts of other files: {"text": ..., "filename": ...}. Other members are ignored."""

    def read(self, value: Any) -> Any:
        if type(value) is not list or len(value) > MAX_SNIPPETS:
            raise Mismatch(f"a list of at most {MAX_SNIPPETS} snippets", value)
        return tuple(_snippet(entry, f"[{i}]") for i, entry in enumerate(value)) or UNSET

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


GAP_ROWS = (
    Field(
        "input_extra",
        Snippets(),
        "Parts of other files, the least wanted first.",
        "shape.snippets",
    ),
    Field(
        "infill_order",
        Word("auto", "psm", "spm", unset="auto"),
        "Segue's own: prefix first or suffix first, where the model has tokens for filling in the middle.",
        "shape.order",
    ),
    Field(
        "infill_mode",
        Word("auto", "fim", "ranked", unset="auto"),
        "Segue's own: by the model's tokens for it or nothing, or by ranking continuations.",
        "shape.mode",
    ),
    Field(
        "infill_repo",
        Text(MAX_FILE_NAME_CHARS),
        "Segue's own: the name of the repository that is being edited.",
        "shape.repo",
    ),
    Field(
        "infill_file",
        Text(MAX_FILE_NAME_CHARS),
        "Segue's own: the name of the file that is being edited.",
        "shape.filename",
    ),
)


def describe_gap(draft: Draft) -> None:
    """A request with any infill field is an infill request, even if its suffix is empty."""
    names = [row.target for row in GAP_ROWS]
    told = {name: value for name in names if (value := draft.values.pop(name, None))}
    if not told:
        return
    if told.get("shape.mode") == "ranked" and "shape.order" in told:
        message = (
            "cannot be given where infill_mode is ranked: only a model's own tokens have an order"
        )
        raise draft.refuse("shape.order", message)
    infill = draft.values.get("infill", Infill(suffix=Prompt((), parse_special=False)))
    fields = {name.removeprefix("shape."): value for name, value in told.items()}
    draft.values["infill"] = replace(infill, **fields)


def check_prompts(draft: Draft) -> None:
    """Nothing continues an empty text. Before a suffix it is the beginning of a file."""
    prompts: tuple[Prompt, ...] = draft.values["prompts"]
    empty = [index for index, prompt in enumerate(prompts) if not any(prompt.parts)]
    if empty and "infill" not in draft.values:
        at = f"[{empty[0]}]" if len(prompts) > 1 else ""
        message = f'prompt{at} must be a non-empty string or list of token ids, not ""'
        raise InvalidField(message, "prompt")
