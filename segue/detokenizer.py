"""Bytes of tokens → text, never half a character. Invalid bytes become U+FFFD."""

import codecs


class Detokenizer:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.num_before = 0  # characters of the last push that stand before its piece

    def push(self, piece: bytes) -> str:
        """The characters that are whole now. `num_before` of them came from earlier pieces alone.

        That is one U+FFFD, where the piece does not go on with the character that was begun.
        """
        self.num_before = 0
        if not self._decoder.getstate()[0] or not piece:
            return self._decoder.decode(piece)
        first = self._decoder.decode(piece[:1])
        is_begun = bool(self._decoder.getstate()[0])
        self.num_before = len(first) if is_begun else len(first) - 1
        return first + self._decoder.decode(piece[1:])

    def flush(self) -> str:
        """The end of the output: an unfinished character becomes one U+FFFD."""
        return self._decoder.decode(b"", final=True)


def decode(pieces: list[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "replace")
