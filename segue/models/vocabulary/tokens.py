"""The tokens of a GGUF file as they are written there: texts, kinds, scores and merges."""

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segue.errors import ModelUnavailable
from segue.models import token_lists
from segue.models.gguf import GgufHeader, arrays

TOKENS, MERGES = "tokenizer.ggml.tokens", "tokenizer.ggml.merges"
_KINDS, _SCORES = "tokenizer.ggml.token_type", "tokenizer.ggml.scores"

# tokenizer.ggml.token_type
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


@dataclass(frozen=True)
class Tokens:
    texts: Sequence[str]  # bytes that are no UTF-8 as surrogates
    kinds: Sequence[int]
    scores: Sequence[float]
    merges: Sequence[str]  # both parts, with a space between them


def read_tokens(path: str | Path, header: GgufHeader) -> Tokens:
    """Raises ModelUnavailable."""
    count = header.array_lengths.get(TOKENS, 0)
    with arrays.mapped(path) as view:
        texts = _texts(view, header, TOKENS)
        merges = _texts(view, header, MERGES)
        kinds = _numbers(view, header, _KINDS, "i") or [NORMAL] * count
        scores = _numbers(view, header, _SCORES, "fi") or [0.0] * count
    for name, values in ((_KINDS, kinds), (_SCORES, scores)):
        if len(values) < count:
            raise ModelUnavailable(f"{path} has {count} tokens, but {name} has {len(values)}")
    named = [text or f"[EMPTY_{token}]" for token, text in enumerate(texts)]
    if not count or len({*named}) < count:
        wrong = token_lists.damage(path)
        raise ModelUnavailable(f"{path} has a vocabulary that cannot be used: {wrong}")
    return Tokens(named, kinds[:count], scores[:count], merges)


def _texts(view: mmap.mmap, header: GgufHeader, key: str) -> list[str]:
    if header.array_types.get(key) != "":
        if key in header.array_lengths:
            raise ModelUnavailable(f"{key} is not a list of texts")
        return []
    # llama.cpp reads a text up to its first NUL.
    return [
        text.partition(b"\0")[0].decode(errors="surrogateescape")
        for text in arrays.texts(view, header, key)
    ]


def _numbers(view: mmap.mmap, header: GgufHeader, key: str, codes: str) -> Sequence[Any]:
    if key not in header.array_lengths:
        return ()
    if header.array_types[key] not in [*codes]:
        raise ModelUnavailable(f"{key} is not a list of such numbers")
    return arrays.numbers(view, header, key)
