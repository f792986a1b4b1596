"""Splits long texts into blocks at special tokens, because llama.cpp's search for those takes quadratic time.

For every piece of text between two special tokens, llama.cpp searches all the rest of the text for each of them. A
block holds few pieces and little text, so all blocks together take linear time. The tokens are the same: text is never
merged across a special token, and blocks end where no special token strips the space beside it.
"""

import re
from collections.abc import Iterable

_MIN_CHARS = 4096  # shorter texts are one block
_MAX_SPECIALS = 64  # a block ends at the next possible position after so many, or so much text


class SpecialBlocks:
    def __init__(self, specials: Iterable[str]) -> None:
        texts = sorted(filter(None, specials), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, texts))) if texts else None

    def split(self, text: str) -> list[str]:
        """The blocks. Joined, they are the text."""
        if self._special is None or len(text) < _MIN_CHARS:
            return [text]
        blocks: list[str] = []
        start = num_specials = 0
        for found in self._special.finditer(text):
            num_specials += 1
            is_due = num_specials >= _MAX_SPECIALS or found.end() - start >= _MIN_CHARS
            if is_due and found.end() < len(text) and not text[found.end()].isspace():
                blocks.append(text[start : found.end()])
                start, num_specials = found.end(), 0
            elif num_specials >= 2 * _MAX_SPECIALS and start < found.start():
                blocks.append(text[start : found.start()])
                start, num_specials = found.start(), 1
        return [*blocks, text[start:]] if start < len(text) else blocks
