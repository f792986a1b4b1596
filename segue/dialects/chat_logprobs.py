"""Log-probabilities in the layout of chat completions: a list of entries, each with its bytes."""

from typing import Any

from segue.dialects.logprobs import finite
from segue.types import Alternative, TokenScore


def entry(score: TokenScore, num_top: int) -> dict[str, Any]:
    """One token with its alternatives. The first token of a prompt has null for a number."""
    return {
        **_token(score),
        "top_logprobs": [_token(other) for other in score.top[:num_top]],
    }


def _token(token: TokenScore | Alternative) -> dict[str, Any]:
    return {
        "id": token.token,
        "token": token.piece.decode(errors="replace"),
        "bytes": list(token.piece),
        "logprob": None if token.logprob is None else finite(token.logprob),
    }
