"""Tokens with their probabilities, as llama.cpp's server lists them."""

from collections.abc import Iterable
from typing import Any

from segue.dialects.rendering.chat_logprobs import entry
from segue.types import CompletionRequest, TokenScore


def entries(scores: Iterable[TokenScore], request: CompletionRequest) -> list[dict[str, Any]]:
    found = [entry(score, request.logprobs or 0) for score in scores]
    return [_as_probs(each) for each in found] if request.post_sampling_probs else found


def _as_probs(entry: dict[str, Any]) -> dict[str, Any]:
    """With post_sampling_probs: probabilities instead of log-probabilities, under other names."""
    tops = [_as_prob(top) for top in entry.pop("top_logprobs")]
    return {**_as_prob(entry), "top_probs": tops}


def _as_prob(entry: dict[str, Any]) -> dict[str, Any]:
    # numpy comes with it, for which `segue dialects` must not wait.
    from segue.exact_math import exp

    logprob = entry.pop("logprob")
    return {**entry, "prob": None if logprob is None else exp(logprob)}
