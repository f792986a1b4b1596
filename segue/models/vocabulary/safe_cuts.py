"""Cuts a text where no token can reach across, in vocabularies that do not split texts into words.

That is before a space, if no token of the vocabulary has a space after the character that stands before it.
"""

import re
from collections.abc import Iterable

from segue.models.vocabulary.byte_spelling import MARK

_INNER = re.compile(f"[^{MARK}](?={MARK})")


class SafeCuts:
    """Each part is merged by itself, with the same tokens as in the whole text. Many parts come again."""

    def __init__(self, merged: Iterable[str]) -> None:
        """`merged`: every text that can come of merges."""
        crossed = {
            character for text in merged if MARK in text for character in _INNER.findall(text)
        }
        kept = "".join(map(re.escape, sorted({MARK, *crossed})))
        self._seam = re.compile(f"(?<=[^{kept}])(?={MARK})")

    def part(self, text: str) -> list[str]:
        return self._seam.split(text)
