"""The engine's figures under llama.cpp's names, in Prometheus' text format."""

from segue.dialects.rendering.prometheus import Metric, accepted_by_place, exposition
from segue.types import Stats


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds else 0.0


METRICS = (
    Metric(
        "llamacpp:prompt_tokens_total",
        "counter",
        "Prompt tokens computed.",
        lambda stats: stats.prompt_tokens - stats.cached_tokens,
    ),
    Metric(
        "llamacpp:prompt_tokens_cached_total",
        "counter",
        "Prompt tokens taken from the cache.",
        lambda stats: stats.cached_tokens,
    ),
    Metric(
        "llamacpp:tokens_predicted_total",
        "counter",
        "Tokens generated.",
        lambda stats: stats.completion_tokens,
    ),
    Metric(
        "llamacpp:prompt_seconds_total",
        "counter",
        "Time spent on prompts.",
        lambda stats: stats.prompt_s,
    ),
    Metric(
        "llamacpp:tokens_predicted_seconds_total",
        "counter",
        "Time spent on answers.",
        lambda stats: stats.decode_s,
    ),
    Metric(
        "llamacpp:prompt_tokens_seconds",
        "gauge",
        "Prompt tokens computed a second, over all prompts.",
        lambda stats: _rate(stats.prompt_tokens - stats.cached_tokens, stats.prompt_s),
    ),
    Metric(
        "llamacpp:predicted_tokens_seconds",
        "gauge",
        "Tokens generated a second, over all answers.",
        lambda stats: _rate(stats.completion_tokens, stats.decode_s),
    ),
    Metric("llamacpp:n_decode_total", "counter", "Steps of the model.", lambda stats: stats.steps),
    Metric(
        "llamacpp:n_tokens_max",
        "counter",
        "Tokens of the longest sequence, prompt and answer.",
        lambda stats: stats.longest,
    ),
    Metric(
        "llamacpp:n_busy_slots_per_decode",
        "gauge",
        "Sequences in a step of the model, on average.",
        lambda stats: stats.stepped / stats.steps if stats.steps else 0.0,
    ),
    Metric(
        "llamacpp:spec_decode_num_drafts_total",
        "counter",
        "Times that tokens were guessed ahead.",
        lambda stats: stats.drafts,
    ),
    Metric(
        "llamacpp:spec_decode_num_draft_tokens_total",
        "counter",
        "Tokens guessed ahead.",
        lambda stats: stats.draft_tokens,
    ),
    Metric(
        "llamacpp:spec_decode_num_accepted_tokens_total",
        "counter",
        "Guesses that turned out right.",
        lambda stats: stats.draft_accepted,
    ),
    Metric(
        "llamacpp:requests_processing",
        "gauge",
        "Sequences that are computed now.",
        lambda stats: stats.running,
    ),
    Metric(
        "llamacpp:requests_deferred", "gauge", "Sequences that wait.", lambda stats: stats.waiting
    ),
)


def page(stats: Stats) -> str:
    own = {"": stats}
    by_place = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
    return exposition(METRICS, own) + accepted_by_place(by_place, own)
