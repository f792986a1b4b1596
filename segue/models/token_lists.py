"""The tokens of a GGUF file, checked before llama.cpp reads them: it ends the process where two are the same, and never
ends where no token of a vocabulary that goes by the longest match fits.
"""

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path

from segue.models.gguf import GgufHeader, header
from segue.models.vocabulary.longest_match import incomplete, unescaped

_TOKENS = "tokenizer.ggml.tokens"
_U64 = struct.Struct("<Q")
_NAMELESS = b"[EMPTY]"  # llama.cpp numbers them


def damage(path: str | Path) -> str | None:
    """What is wrong with the tokens, if it would end the process, or it would never end. Raises ModelUnavailable."""
    read = header(path)
    if read.array_types.get(_TOKENS) != "":  # not texts: llama.cpp says so itself
        return None
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        tokens = strings(view, read, _TOKENS)
    wrong = _twice(tokens)
    if wrong is None and read.metadata.get("tokenizer.ggml.model") == "rwkv":
        wrong = incomplete(unescaped(token.partition(b"\0")[0] or _NAMELESS) for token in tokens)
    return wrong


def strings(view: mmap.mmap, read: GgufHeader, key: str) -> list[bytes]:
    """Of an array of texts, whose place was checked when the header was read."""
    start, end = read.array_places[key]
    data = view[start:end]
    texts, at, unpack = [], 0, _U64.unpack_from
    for _ in range(read.array_lengths[key]):
        start = at + 8
        at = start + unpack(data, at)[0]
        texts.append(data[start:at])
    return texts


def _twice(tokens: Sequence[bytes]) -> str | None:
    named = [token for token in tokens if token]  # llama.cpp names those without a text itself
    if len({*named}) == len(named):
        return None
    seen: dict[bytes, int] = {}
    for number, token in enumerate(tokens):
        if token and seen.setdefault(token, number) != number:
            return f"tokens {seen[token]} and {number} are both {token!r:.40}"
    return None
