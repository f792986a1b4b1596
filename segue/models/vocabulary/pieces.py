"""The bytes of tokens, as llama.cpp writes them."""

import re
from collections.abc import Iterator, Sequence

from segue.models.vocabulary.byte_spelling import ALPHABET, MARK, is_spelled, read
from segue.models.vocabulary.tokens import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED

_RAW = (CONTROL, USER_DEFINED, UNKNOWN)
_HEX = re.compile("[0-9A-Fa-f]*")
_BYTES = {character: bytes([byte]) for byte, character in ALPHABET.items()}
# By the first four bits of a character: how many bytes it should have, and which bits of the first are its own.
_LENGTHS = {
    **dict.fromkeys(range(8), (1, 0x7F)),
    **dict.fromkeys((12, 13), (2, 0x1F)),
    14: (3, 0x0F),
    15: (4, 0x07),
}
_REPLACEMENT = 0xFFFD


def pieces(texts: Sequence[str], kinds: Sequence[int], is_byte_level: bool) -> list[bytes]:
    """`is_byte_level`: spelled in GPT-2's alphabet; otherwise with SentencePiece's spaces."""
    normal = _decoded if is_byte_level else _unmarked
    return [
        normal(text)
        if kind == NORMAL
        else _raw(text)
        if kind in _RAW
        else _byte(text)
        if kind == BYTE
        else b""
        for text, kind in zip(texts, kinds, strict=False)
    ]


def _raw(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _unmarked(text: str) -> bytes:
    return _raw(text.replace(MARK, " "))


def _byte(text: str) -> bytes:
    """Of "<0x0A>"; 0 where it is something else."""
    digits = _HEX.match(text[3:5])
    return bytes([int(digits[0] or "0", 16) if digits else 0])


def _decoded(text: str) -> bytes:
    return read(text) if is_spelled(text) else b"".join(_explained(_raw(text)))


def _explained(text: bytes) -> Iterator[bytes]:
    """With what is not of the alphabet named in brackets."""
    for point in _code_points(text):
        character = chr(point)
        known = _BYTES.get(character)
        if known is None:
            spelled = character.encode(errors="surrogatepass")
            known = b"[UNK_BYTE_0x" + spelled.hex().encode() + text + b"]"
        yield known


def _code_points(text: bytes) -> Iterator[int]:
    """Less strict than UTF-8: surrogates and forms that are too long pass."""
    at = 0
    while at < len(text):
        length, mask = _LENGTHS.get(text[at] >> 4, (1, 0))
        rest = text[at + 1 : at + length]
        is_whole = len(rest) == length - 1 and all(byte >> 6 == 2 for byte in rest)
        if mask == 0 or not is_whole or text[at] >= 0xF8:
            at += 1
            yield _REPLACEMENT
            continue
        point = text[at] & mask
        for byte in rest:
            point = point << 6 | byte & 0x3F
        at += length
        yield point if point <= 0x10FFFF else _REPLACEMENT
