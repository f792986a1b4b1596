"""Which of a model's own sampling defaults a system keeps to, and a request with them.

A field has the request's value, else the server's (`--default`), else the model's, else the dialect's.
"""

from collections.abc import Container
from dataclasses import KW_ONLY, dataclass
from typing import Any

from msgspec import structs

from segue.types import CompletionRequest, ModelDefaults

# What has no effect where do_sample is false; top_k is 1 then.
_DRAWING = ("temperature", "top_p", "min_p")


@dataclass(frozen=True)
class OfModel:
    """The fields of Sampling that a system reads from a model's files, and how."""

    names: tuple[str, ...]
    _: KW_ONLY
    is_greedy_kept: bool = False  # do_sample false takes the likeliest token
    is_bounded: bool = False  # max_new_tokens bounds every answer
    is_special_kept: bool = False  # skip_special_tokens leaves control tokens out of texts

    def fill(
        self, request: CompletionRequest, own: ModelDefaults, settled: Container[str]
    ) -> CompletionRequest:
        """`settled`: targets that the request or the server has set."""
        taken = {name: own.sampling[name] for name in self.names if name in own.sampling}
        if own.is_greedy and self.is_greedy_kept:
            taken = {name: value for name, value in taken.items() if name not in _DRAWING}
            taken["top_k"] = 1
        values: dict[str, Any] = {
            name: value for name, value in taken.items() if f"sampling.{name}" not in settled
        }
        filled = structs.replace(request, sampling=structs.replace(request.sampling, **values))
        if self.is_special_kept and own.show_special is not None and "show_special" not in settled:
            filled = structs.replace(filled, show_special=own.show_special)
        if own.max_tokens is None or not self.is_bounded:
            return filled
        asked = own.max_tokens if request.max_tokens is None else request.max_tokens
        return structs.replace(filled, max_tokens=min(asked, own.max_tokens))
