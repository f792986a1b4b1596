"""Tokens by the longest match, as RWKV's World vocabulary has them (`rwkv`): of what is left of a text, the longest
token that it begins with. Tokens are bytes, and written with escapes.
"""

from collections.abc import Iterable, Sequence

from segue.errors import Unsupported

_ESCAPED = {ord("t"): ord("\t"), ord("n"): ord("\n"), ord("r"): ord("\r")}
_BACKSLASH, _HEX, _SMALL_A, _ZERO = b"\\xa0"


def unescaped(text: bytes) -> bytes:
    """As llama.cpp reads them: two digits after `\\x`, whatever they are; what is cut short is left out."""
    if _BACKSLASH not in text:
        return text
    found, at = bytearray(), 0
    while at < len(text):
        byte = text[at]
        at += 1
        if byte != _BACKSLASH:
            found.append(byte)
        elif at < len(text):
            byte = text[at]
            at += 1
            if byte != _HEX:
                found.append(_ESCAPED.get(byte, byte))
            elif at + 2 <= len(text):
                found.append((_digit(text[at]) * 16 + _digit(text[at + 1])) & 255)
                at += 2
            else:
                break
    return bytes(found)


def _digit(byte: int) -> int:
    """What llama.cpp takes a character for, of which bytes above 127 are negative."""
    return byte - _SMALL_A + 10 if _SMALL_A <= byte < 128 else byte - _ZERO


def incomplete(pieces: Iterable[bytes]) -> str | None:
    """Why texts cannot all be tokens, or None. llama.cpp would search for ever where no token fits."""
    known = {*pieces}
    for first in sorted({piece[:1] for piece in known if piece}):
        if first not in known:
            return f"tokens begin with {first!r}, which is none itself"
    return None


class LongestMatch:
    def __init__(self, pieces: Sequence[bytes], unknown: int | None):
        """`unknown`: the token for bytes that no token begins with."""
        self._ids = {piece: token for token, piece in enumerate(pieces)}
        self._unknown = unknown
        self._lengths: dict[bytes, list[int]] = {}  # by the first two bytes, the longest first
        for length in sorted({len(piece) for piece in self._ids}, reverse=True):
            for first in {piece[:2] for piece in self._ids if len(piece) == length > 1}:
                self._lengths.setdefault(first, []).append(length)

    def __call__(self, text: str) -> list[int]:
        data, found, at = text.encode(), list[int](), 0
        ids, lengths = self._ids, self._lengths
        while at < len(data):
            for length in lengths.get(data[at : at + 2], ()):
                token = ids.get(data[at : at + length])
                if token is not None:
                    break
            else:
                length = 1
                token = ids.get(data[at : at + 1], self._unknown)
            if token is None:
                raise Unsupported("the model's vocabulary has no tokens for some of this text")
            found.append(token)
            at += length
        return found
