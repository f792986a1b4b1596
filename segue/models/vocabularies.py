"""Whether two GGUF files have the same vocabulary, as a draft model must."""

from pathlib import Path

from segue.models import gguf
from segue.models.gguf.arrays import mapped

_TOKENS = "tokenizer.ggml.tokens"
_MOST_PADDED = 256  # tokens at the end that one file has and the other has not: padding


def difference(path: str | Path, other: str | Path) -> str | None:
    """Why tokens of one file are not those of the other; None if they are."""
    headers = [gguf.header(each) for each in (path, other)]
    counts = [header.array_lengths.get(_TOKENS, 0) for header in headers]
    if not all(counts):
        return "a file without a vocabulary has nothing to compare"
    if abs(counts[0] - counts[1]) > _MOST_PADDED:
        return f"one vocabulary has {counts[0]} tokens, the other {counts[1]}"
    first, second = (
        _bytes(each, header) for each, header in zip((path, other), headers, strict=True)
    )
    shorter = min(len(first), len(second))
    if first[:shorter] != second[:shorter]:
        return "their vocabularies have other tokens"
    return None


def _bytes(path: str | Path, header: gguf.GgufHeader) -> bytes:
    """The array of tokens as it is in the file: lengths and texts."""
    start, end = header.array_places[_TOKENS]
    with mapped(path) as view:
        return view[start:end]
