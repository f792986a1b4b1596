"""The tokens of a GGUF file, checked before llama.cpp reads them: it ends the process where two are the same, and never
ends where no token of a vocabulary that goes by the longest match fits.
"""

from collections.abc import Sequence
from pathlib import Path

from segue.models.gguf import header
from segue.models.gguf.arrays import mapped, numbers, texts
from segue.models.vocabulary.longest_match import incomplete, unescaped

_TOKENS = "tokenizer.ggml.tokens"
_KINDS, _BYTE = "tokenizer.ggml.token_type", 6


def damage(path: str | Path) -> str | None:
    """What is wrong with the tokens, if it would end the process, or it would never end. Raises ModelUnavailable."""
    read = header(path)
    if read.array_types.get(_TOKENS) != "":  # not texts: llama.cpp says so itself
        return None
    with mapped(path) as view:
        tokens = named(texts(view, read, _TOKENS))
        has_kinds = read.array_types.get(_KINDS) == "i"
        kinds = numbers(view, read, _KINDS) if has_kinds else ()
    model = read.metadata.get("tokenizer.ggml.model")
    wrong = _twice(tokens) if tokens else "it has no tokens"
    if wrong is None and model == "rwkv":
        wrong = incomplete(map(unescaped, tokens))
    if wrong is None and model == "bert" and _BYTE in kinds:
        wrong = "some tokens are bytes, which this kind (bert) has not"
    return wrong


def named(tokens: Sequence[bytes]) -> Sequence[bytes]:
    """As llama.cpp has them: up to the first NUL, and those without a text by their number."""
    if all(tokens) and b"\0" not in b"".join(tokens):
        return tokens
    return [token.partition(b"\0")[0] or b"[EMPTY_%d]" % i for i, token in enumerate(tokens)]


def _twice(tokens: Sequence[bytes]) -> str | None:
    if len({*tokens}) == len(tokens):
        return None
    seen: dict[bytes, int] = {}
    for number, token in enumerate(tokens):
        if seen.setdefault(token, number) != number:
            return f"tokens {seen[token]} and {number} are both {token!r:.40}"
    return None
