"""Which texts a SentencePiece vocabulary can spell. llama.cpp ends the process at a character that it cannot."""

from collections.abc import Iterable

from segue.errors import Unsupported


class Spelling:
    """A character is a token, or each of its bytes is one; nearly every vocabulary has all bytes."""

    def __init__(self, pieces: Iterable[bytes]):
        self._pieces = {*pieces}
        self._missing = {byte for byte in range(256) if not self._has_byte(byte)}

    def _has_byte(self, byte: int) -> bool:
        return bytes([byte]) in self._pieces or b"<0x%02X>" % byte in self._pieces

    def check(self, text: str) -> None:
        """Raises Unsupported."""
        if not self._missing or not text:
            return
        for character in sorted({" ", *text}):  # llama.cpp may put a space in front
            spelt = character.encode(errors="replace")
            if spelt not in self._pieces and not self._missing.isdisjoint(spelt):
                raise Unsupported(f"the model's vocabulary has no tokens for {character!r}")
