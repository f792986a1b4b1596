"""Where a text of a vocabulary without words can be parted: before spaces that no token has after another character."""

import re
from collections.abc import Iterable

from segue.models.vocabulary.byte_spelling import MARK

_INNER = re.compile(f"[^{MARK}](?={MARK})")


class Seams:
    """Parts are merged each for itself, with the same tokens as the whole, and many come again."""

    def __init__(self, merged: Iterable[str]) -> None:
        """`merged`: every text that can come of merges."""
        crossed = {
            character for text in merged if MARK in text for character in _INNER.findall(text)
        }
        kept = "".join(map(re.escape, sorted({MARK, *crossed})))
        self._seam = re.compile(f"(?<=[^{kept}])(?={MARK})")

    def part(self, text: str) -> list[str]:
        return self._seam.split(text)
