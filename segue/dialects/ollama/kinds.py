"""Kinds of values that only Ollama's fields have."""

import math
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from segue.bounds import MAX_TEXT_CHARS
from segue.dialects.fields.kinds import Integer, Kind, Mismatch, Text
from segue.types import Prompt


@dataclass(frozen=True)
class Thinking:
    """Only false passes: no model here reports its thinking apart from its answer."""

    def read(self, value: Any) -> bool:
        if value is not False:
            raise Mismatch("false", value, because="the model does not support thinking")
        return value

    def schema(self) -> dict[str, Any]:
        return {"const": False}


@dataclass(frozen=True)
class TruncatedInteger:
    """An integer. Of a fraction it is what stands before the point, as Ollama reads its options."""

    kind: Integer

    def read(self, value: Any) -> Any:
        is_number = type(value) is float and math.isfinite(value)
        return self.kind.read(math.trunc(value) if is_number else value)

    def schema(self) -> dict[str, Any]:
        return self.kind.schema()


@dataclass(frozen=True)
class Unset0:
    """0 is the same as nothing: Ollama leaves such a value out where it passes it on."""

    kind: Kind

    def read(self, value: Any) -> Any:
        is_zero = type(value) in (int, float) and value == 0
        return UNSET if is_zero else self.kind.read(value)

    def schema(self) -> dict[str, Any]:
        return self.kind.schema()


@dataclass(frozen=True)
class LoadablePrompt:
    """One text. An empty text asks for the model to be loaded and for no completion."""

    def read(self, value: Any) -> tuple[Prompt, ...]:
        text = Text(MAX_TEXT_CHARS).read(value)
        return (Prompt((text,)),) if text else ()

    def schema(self) -> dict[str, Any]:
        return Text(MAX_TEXT_CHARS).schema()
