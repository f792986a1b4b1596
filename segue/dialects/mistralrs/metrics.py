"""The engines' figures under mistral.rs' names, and those of requests."""

from collections.abc import Iterator, Mapping

from segue.dialects.rendering.loaded import Loaded
from segue.dialects.rendering.prometheus import (
    Histogram,
    Metric,
    exposition,
    head,
    histograms,
    label,
    lines,
)

METRICS = (
    Metric(
        "mistralrs_sequences_running",
        "gauge",
        "Sequences that are computed now.",
        lambda s: s.running,
    ),
    Metric("mistralrs_sequences_waiting", "gauge", "Sequences that wait.", lambda s: s.waiting),
    Metric(
        "mistralrs_sequences_capacity",
        "gauge",
        "Sequences there is a place for, cached ones included.",
        lambda s: s.slots_total,
    ),
    Metric(
        "mistralrs_tokens_processed_total",
        "counter",
        "Tokens computed, of prompts and answers.",
        lambda s: s.prefilled_tokens + s.completion_tokens,
    ),
    Metric(
        "mistralrs_prefix_cache_evictions_total",
        "counter",
        "Cached prefixes given up.",
        lambda s: s.evictions,
    ),
    Metric(
        "mistralrs_paged_preemptions_total",
        "counter",
        "Sequences computed again.",
        lambda s: s.preemptions,
    ),
    Metric(
        "mistralrs_speculative_drafts_total",
        "counter",
        "Times that tokens were guessed ahead.",
        lambda s: s.drafts,
    ),
    Metric(
        "mistralrs_speculative_draft_tokens_proposed_total",
        "counter",
        "Tokens guessed ahead.",
        lambda s: s.draft_tokens,
    ),
    Metric(
        "mistralrs_speculative_draft_tokens_accepted_total",
        "counter",
        "Guesses that turned out right.",
        lambda s: s.draft_accepted,
    ),
)
HISTOGRAMS: tuple[Histogram[Loaded], ...] = (
    Histogram(
        "http_request_duration_seconds",
        "From a request to the end of its answer.",
        lambda m: m.served.whole_s,
    ),
    Histogram(
        "mistralrs_time_to_first_token_seconds",
        "From a request to its first token.",
        lambda m: m.served.first_s,
    ),
    Histogram(
        "mistralrs_inter_token_latency_seconds",
        "From a token of a choice to the next.",
        lambda m: m.served.gap_s,
    ),
)
_COMPLETED = "mistralrs_sequences_completed_total"
_REASONS = {"abort": "canceled"}  # what is called otherwise there


def page(models: Mapping[str, Loaded]) -> str:
    """The page in Prometheus' text format. `models`: by name."""
    by_labels = {f"{{model={label(name)}}}": each for name, each in models.items()}
    parts = [
        exposition(METRICS, {own: each.stats for own, each in by_labels.items()}),
        lines(_blocks(by_labels)),
        lines(_completed(by_labels)),
        histograms(HISTOGRAMS, by_labels),
    ]
    return "".join(parts)


def _blocks(models: Mapping[str, Loaded]) -> Iterator[str]:
    """The KV memory in blocks of tokens. Cached prefixes make room, and are not counted as used."""
    for name, doc in (("used", "Blocks of running sequences."), ("total", "Blocks there are.")):
        yield from head(f"mistralrs_kv_cache_blocks_{name}", "gauge", doc)
        for own, (info, stats, _) in models.items():
            cells = stats.cells_running if name == "used" else stats.cells_total
            yield f"mistralrs_kv_cache_blocks_{name}{own} {cells // info.kv_block}"


def _completed(models: Mapping[str, Loaded]) -> Iterator[str]:
    yield from head(_COMPLETED, "counter", "Choices that ended, by why they did.")
    for own, each in models.items():
        for reason, number in each.served.reasons.items():
            named = _REASONS.get(reason, reason)
            yield f'{_COMPLETED}{own[:-1]},reason="{named}"}} {number:.12g}'
