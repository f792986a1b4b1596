"""What the page needs to know about the server: the parameters, from the tables, and the dialects."""

from collections.abc import Sequence
from typing import Any

from segue.dialects.base import Dialect, Operation
from segue.dialects.fields.table import Field
from segue.dialects.reference.tables import entries
from segue.server.playground.snippets import LANGUAGES

# Fields for which the page has a control of its own.
_PLACED = frozenset(
    {
        "model",
        "prompt",
        "suffix",
        "stream",
        "stream_options.include_usage",
        "stream_options.continuous_usage_stats",
        "logprobs",
        "top_logprobs",
        "echo",
        "return_token_ids",
        "return_tokens_as_token_ids",
        "prompt_logprobs",
        "timings_per_token",
        "return_progress",
        "tools",
        "tool_choice",
        "user",
        "keep_alive",
    }
)
# The most used parameters, in this order; all others are in a collapsed section.
_FIRST = (
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "n",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)


def guide(source: Operation, dialects: Sequence[Dialect], version: str) -> dict[str, Any]:
    """The guide as JSON values. `source`: the operation that the page uses."""
    return {
        "version": version,
        "parameters": parameters(source),
        "dialects": [{"name": each.name, "system": each.system} for each in dialects],
        "languages": LANGUAGES,
    }


def parameters(source: Operation) -> list[dict[str, Any]]:
    documented = {entry.name: entry for entry in entries(source.table)}
    rows = [row for row in source.table.rows if _is_offered(row)]
    order = {name: place for place, name in enumerate(_FIRST)}
    rows.sort(key=lambda row: order.get(row.name, len(order)))
    return [
        {
            "name": row.name,
            "type": documented[row.name].type,
            "default": documented[row.name].default,
            "doc": row.doc,
            "schema": row.kind.schema(),
            "first": row.name in order,
        }
        for row in rows
    ]


def _is_offered(row: Field) -> bool:
    return bool(row.target) and row.name not in _PLACED and row.target != "constraint"
