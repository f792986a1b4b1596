"""Numbers of few digits, as llama.cpp's converter of schemas writes them.

A number without bounds has at most 16 digits there before the point, after it and as its exponent. A small model that
has begun to write digits may not end by itself: without a bound it writes them until the answer is cut.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from segue.dialects.fields.kinds import Kind
from segue.types import Constraint, ConstraintKind

MAX_DIGITS = 16


@dataclass(frozen=True)
class ShortNumbers:
    """A kind whose constraints of these kinds have such numbers."""

    kind: Kind
    of: tuple[ConstraintKind, ...] = ("json_schema",)

    def read(self, value: Any) -> Any:
        found = self.kind.read(value)
        if not isinstance(found, Constraint) or found.kind not in self.of:
            return found
        return msgspec.structs.replace(found, max_digits=MAX_DIGITS)

    def schema(self) -> dict[str, Any]:
        return self.kind.schema()
