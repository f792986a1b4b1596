"""The tokens of a GGUF file, checked before llama.cpp reads them: it ends the process where two are the same, and never
ends where no token of a vocabulary that goes by the longest match fits.
"""

from collections.abc import Sequence
from pathlib import Path

from segue.models.gguf import header
from segue.models.gguf.arrays import mapped, texts
from segue.models.vocabulary.longest_match import incomplete, unescaped

_TOKENS = "tokenizer.ggml.tokens"
_NAMELESS = b"[EMPTY]"  # llama.cpp numbers them


def damage(path: str | Path) -> str | None:
    """What is wrong with the tokens, if it would end the process, or it would never end. Raises ModelUnavailable."""
    read = header(path)
    if read.array_types.get(_TOKENS) != "":  # not texts: llama.cpp says so itself
        return None
    with mapped(path) as view:
        tokens = texts(view, read, _TOKENS)
    wrong = _twice(tokens)
    if wrong is None and read.metadata.get("tokenizer.ggml.model") == "rwkv":
        wrong = incomplete(unescaped(token.partition(b"\0")[0] or _NAMELESS) for token in tokens)
    return wrong


def _twice(tokens: Sequence[bytes]) -> str | None:
    named = [token for token in tokens if token]  # llama.cpp names those without a text itself
    if len({*named}) == len(named):
        return None
    seen: dict[bytes, int] = {}
    for number, token in enumerate(tokens):
        if token and seen.setdefault(token, number) != number:
            return f"tokens {seen[token]} and {number} are both {token!r:.40}"
    return None
