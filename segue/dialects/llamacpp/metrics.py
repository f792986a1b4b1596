"""The engine's figures under llama.cpp's names, in Prometheus' text format."""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from segue.types import Stats


class Metric(NamedTuple):
    name: str
    kind: Literal["counter", "gauge"]
    doc: str
    read: Callable[[Stats], float]


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds else 0.0


METRICS = (
    Metric(
        "prompt_tokens_total",
        "counter",
        "Prompt tokens computed.",
        lambda stats: stats.prompt_tokens - stats.cached_tokens,
    ),
    Metric(
        "prompt_tokens_cached_total",
        "counter",
        "Prompt tokens taken from the cache.",
        lambda stats: stats.cached_tokens,
    ),
    Metric(
        "tokens_predicted_total",
        "counter",
        "Tokens generated.",
        lambda stats: stats.completion_tokens,
    ),
    Metric(
        "prompt_seconds_total",
        "counter",
        "Time spent on prompts.",
        lambda stats: stats.prompt_s,
    ),
    Metric(
        "tokens_predicted_seconds_total",
        "counter",
        "Time spent on answers.",
        lambda stats: stats.decode_s,
    ),
    Metric(
        "prompt_tokens_seconds",
        "gauge",
        "Prompt tokens computed a second, over all prompts.",
        lambda stats: _rate(stats.prompt_tokens - stats.cached_tokens, stats.prompt_s),
    ),
    Metric(
        "predicted_tokens_seconds",
        "gauge",
        "Tokens generated a second, over all answers.",
        lambda stats: _rate(stats.completion_tokens, stats.decode_s),
    ),
    Metric("n_decode_total", "counter", "Steps of the model.", lambda stats: stats.steps),
    Metric(
        "n_tokens_max",
        "counter",
        "Tokens of the longest sequence, prompt and answer.",
        lambda stats: stats.longest,
    ),
    Metric(
        "n_busy_slots_per_decode",
        "gauge",
        "Sequences in a step of the model, on average.",
        lambda stats: stats.stepped / stats.steps if stats.steps else 0.0,
    ),
    Metric(
        "spec_decode_num_drafts_total",
        "counter",
        "Times that tokens were guessed ahead.",
        lambda stats: stats.drafts,
    ),
    Metric(
        "spec_decode_num_draft_tokens_total",
        "counter",
        "Tokens guessed ahead.",
        lambda stats: stats.draft_tokens,
    ),
    Metric(
        "spec_decode_num_accepted_tokens_total",
        "counter",
        "Guesses that turned out right.",
        lambda stats: stats.draft_accepted,
    ),
    Metric(
        "requests_processing",
        "gauge",
        "Sequences that are computed now.",
        lambda stats: stats.running,
    ),
    Metric("requests_deferred", "gauge", "Sequences that wait.", lambda stats: stats.waiting),
)


def exposition(metrics: Iterable[Metric], stats: Stats) -> str:
    lines: list[str] = []
    for metric in metrics:
        name = f"llamacpp:{metric.name}"
        lines += [f"# HELP {name} {metric.doc}", f"# TYPE {name} {metric.kind}"]
        lines.append(f"{name} {metric.read(stats):.12g}")
    return "\n".join(lines) + "\n"
