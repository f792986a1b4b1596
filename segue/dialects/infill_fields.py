"""What stands after the cursor, where a completion is to go between."""

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from segue.dialects.fields import Field
from segue.dialects.kinds import Text
from segue.types import Infill, Prompt

MAX_SUFFIX_CHARS = 2**24


@dataclass(frozen=True)
class Suffix:
    """A text; an empty one is none. It is code or prose, so no control token is read in it."""

    def read(self, value: Any) -> Any:
        text = Text(MAX_SUFFIX_CHARS).read(value)
        suffix = Prompt((text,), add_special=False, parse_special=False)
        return Infill(suffix=suffix) if text else UNSET

    def schema(self) -> dict[str, Any]:
        return Text(MAX_SUFFIX_CHARS).schema()


SUFFIX = Field("suffix", Suffix(), "The text after: the answer goes between.", "infill")
