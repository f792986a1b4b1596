"""How long an answer took, as llama.cpp's server reports it."""

from typing import Any

from segue.dialects.rendering.tally import Tally
from segue.types import Delta, Finished, Progress, Prompted


def timings(prompts: list[Prompted], choices: list[Finished]) -> dict[str, Any]:
    """Tokens are summed; these prompts and choices ran side by side, so the longest time counts."""
    num_cached = sum(prompt.num_cached for prompt in prompts)
    num_prompt = sum(len(prompt.tokens) for prompt in prompts) - num_cached
    num_predicted = sum(choice.num_tokens for choice in choices)
    # The first token of a choice comes with its prompt: only the later ones are steps.
    num_steps = sum(max(choice.num_tokens - 1, 0) for choice in choices)
    prompt_s = max((choice.prompt_s for choice in choices), default=0.0)
    decode_s = max((choice.decode_s for choice in choices), default=0.0)
    return {
        "cache_n": num_cached,
        "prompt_n": num_prompt,
        **_rates("prompt", prompt_s, num_prompt),
        "predicted_n": num_predicted,
        **_rates("predicted", decode_s, num_steps),
    }


def _rates(phase: str, seconds: float, count: int) -> dict[str, float]:
    return {
        f"{phase}_ms": seconds * 1000,
        f"{phase}_per_token_ms": seconds * 1000 / count if count else 0.0,
        f"{phase}_per_second": count / seconds if seconds else 0.0,
    }


def timings_so_far(prompt: Prompted, num_tokens: int, delta: Delta) -> dict[str, Any]:
    so_far = Finished(
        delta.choice,
        "length",
        "max_tokens",
        num_tokens,
        prompt_s=prompt.prompt_s,
        decode_s=delta.decode_s,
    )
    return timings([prompt], [so_far])


def timings_of_reading(progress: Progress) -> dict[str, Any]:
    """While a prompt is read nothing is generated yet."""
    num_read = progress.num_read - progress.num_cached
    return {
        "cache_n": progress.num_cached,
        "prompt_n": num_read,
        **_rates("prompt", progress.prompt_s, num_read),
        "predicted_n": 0,
        **_rates("predicted", 0.0, 0),
    }


def all_timings(tally: Tally) -> dict[str, Any]:
    return timings(tally.prompts, [choice.finished for choice in tally.choices])
