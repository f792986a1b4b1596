"""A bound on the number of prompt scores in one answer: every token and every alternative, once per choice."""

from collections.abc import Sequence

from segue.bounds import MAX_ANSWER_SCORES
from segue.errors import InvalidField
from segue.types import CompletionRequest


def check_prompt_scores(request: CompletionRequest, prompts: Sequence[Sequence[int]]) -> None:
    """Raise if there are too many. Called before anything is computed; generated tokens are counted later."""
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
