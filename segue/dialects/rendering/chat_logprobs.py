"""Log-probabilities in the layout of chat completions: a list of entries, each with its bytes."""

from collections.abc import Iterable
from typing import Any

from segue.dialects.rendering.logprobs import finite
from segue.types import Alternative, TokenScore


def entry(score: TokenScore, num_top: int, with_id: bool = True) -> dict[str, Any]:
    """One token with its alternatives. The first token of a prompt has null for a number."""
    return {
        **token_entry(score, with_id),
        "top_logprobs": [token_entry(other, with_id) for other in score.top[:num_top]],
    }


def token_entry(token: TokenScore | Alternative, with_id: bool = False) -> dict[str, Any]:
    return {
        **({"id": token.token} if with_id else {}),
        "token": token.piece.decode(errors="replace"),
        "bytes": list(token.piece),
        "logprob": None if token.logprob is None else finite(token.logprob),
    }


class ChatLogprobs:
    """Implements text_completion.LogprobsWriter, as OpenAI's chat completions do."""

    def __init__(self, num_top: int):
        self._num_top = num_top

    def push(self, scores: Iterable[TokenScore]) -> dict[str, list[Any]]:
        return {"content": [entry(score, self._num_top, with_id=False) for score in scores]}
