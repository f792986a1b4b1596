"""Bytes of tokens → text, never half a character. Invalid bytes become U+FFFD."""

import codecs


class Detokenizer:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, piece: bytes) -> str:
        return self._decoder.decode(piece)

    def flush(self) -> str:
        """The end of the output: an unfinished character becomes one U+FFFD."""
        return self._decoder.decode(b"", final=True)


def decode(pieces: list[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "replace")
