"""JSON of which few values change from chunk to chunk: everything else is encoded once.

A chunk of a stream differs from the one before by its text and by little else, so encoding the rest again would be most
of the work on a token.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_MARK = b"\0"  # is not in any JSON: strings have it escaped


def hole(name: str) -> msgspec.Raw:
    """A value of a template that is left open."""
    return msgspec.Raw(_MARK + name.encode() + _MARK)


class Template:
    def __init__(self, pattern: Any) -> None:
        """`pattern`: an object as msgspec encodes it, with holes for the values that change."""
        self._start, *rest = _encode(pattern).split(_MARK)
        names = [name.decode() for name in rest[::2]]
        self._rest = tuple(zip(names, rest[1::2], strict=True))  # each hole with what follows it

    def fill(self, values: Mapping[str, Any]) -> msgspec.Raw:
        """The object with these values in its holes, in JSON."""
        filled = self._start
        for name, after in self._rest:
            filled += _encode(values[name]) + after
        return msgspec.Raw(filled)
