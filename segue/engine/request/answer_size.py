"""Bounds on what of prompts is told once per choice: scores of tokens and alternatives, ids, and texts around a gap.

Checked before anything is computed; generated tokens are counted later.
"""

from collections.abc import Sequence

from segue.bounds import CHARS_OF_ID, MAX_ANSWER_SCORES, MAX_REPEATED_CHARS
from segue.errors import InvalidField
from segue.types import CompletionRequest


def check_prompt_scores(request: CompletionRequest, prompts: Sequence[Sequence[int]]) -> None:
    """Raise if there are too many."""
    if not (request.echo or request.prompt_logprobs is not None):
        return
    num_tokens = sum(map(len, prompts))
    num_scores = num_tokens * request.n * (1 + (request.prompt_logprobs or 0))
    if num_scores > MAX_ANSWER_SCORES:
        name = "echo" if request.echo else "prompt_logprobs"
        raise InvalidField(
            f"{name} would bring {num_scores} scores: {num_tokens} prompt tokens, times {request.n} "
            f"choices, times the alternatives; an answer may hold {MAX_ANSWER_SCORES}. Ask for fewer "
            "alternatives, choices or prompts at once",
            name,
        )


def check_repeated(
    request: CompletionRequest, prompts: Sequence[Sequence[int]], texts: Sequence[str]
) -> None:
    """Raise if it is too much. `texts`: those around gaps, which are told whole, however much of them was read."""
    size = CHARS_OF_ID * sum(map(len, prompts)) if request.tells_ids else 0
    size += sum(map(len, texts)) if request.echo else 0
    if size * request.n > MAX_REPEATED_CHARS:
        name = "n" if request.n > 1 else "prompt"
        raise InvalidField(
            f"{name} would bring {size * request.n} characters of prompts ({CHARS_OF_ID} for a token id), at most "
            f"{MAX_REPEATED_CHARS}: each choice tells its prompt's, so ask for fewer choices or prompts at once",
            name,
        )
