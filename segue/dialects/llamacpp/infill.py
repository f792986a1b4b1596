"""`/infill`: fields with the text around an editor's cursor, as llama.vim and similar plugins send them."""

from segue.dialects.fields.infill_fields import GAP_ROWS
from segue.dialects.fields.prompt_kinds import MixedText
from segue.dialects.fields.table import Draft, Field
from segue.dialects.llamacpp.fields import NATIVE_FIELDS
from segue.dialects.openai import fields as openai
from segue.types import Infill, Prompt

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
    *GAP_ROWS,
    *openai.FIELDS.pick("best_of").rows,
)


def lay_out_gap(draft: Draft) -> None:
    """Source code is read as text, even where it spells a special token."""
    take = draft.values.pop
    # At the start of a file there is an empty text, which still gets BOS if the model has one.
    before = (*take("shape.input_prefix"), *take("shape.prompt")) or ("",)
    suffix = Prompt(take("shape.input_suffix"), parse_special=False)
    draft.values["prompts"] = (Prompt(before, parse_special=False),)
    draft.values["infill"] = Infill(suffix=suffix)
