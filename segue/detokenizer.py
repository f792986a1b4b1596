"""Bytes of tokens → text, never half a character. Invalid bytes become U+FFFD."""

import codecs


class Detokenizer:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_between = True  # no character is begun
        self.num_before = 0  # characters of the last push that stand before its piece

    def push(self, piece: bytes) -> str:
        """The characters that are whole now. `num_before` of them came from earlier pieces alone.

        That is one U+FFFD, where the piece does not go on with the character that was begun.
        """
        self.num_before = 0
        if self._is_between:
            try:
                return piece.decode()
            except UnicodeDecodeError:
                return self._decode(piece)
        if not piece:
            return ""
        first = self._decode(piece[:1])
        self.num_before = len(first) - self._is_between
        return first + self._decode(piece[1:])

    def _decode(self, piece: bytes) -> str:
        text = self._decoder.decode(piece)
        held = self._decoder.getstate()[0]
        if held[:1] == b"\xed" and held[1:] >= b"\xa0":
            # Python's decoder waits for the rest of a surrogate, though no character begins with these bytes.
            text, held = text + self._decoder.decode(b"", final=True), b""
        self._is_between = not held
        return text

    def flush(self) -> str:
        """The end of the output: an unfinished character becomes one U+FFFD."""
        self._is_between = True
        return self._decoder.decode(b"", final=True)


def decode(pieces: list[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "replace")
