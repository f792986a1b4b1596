"""The engines' figures under vLLM's names: what gateways, autoscalers and dashboards for vLLM read."""

from collections.abc import Iterator, Mapping

from segue.dialects.rendering.loaded import Loaded
from segue.dialects.rendering.prometheus import (
    Histogram,
    Metric,
    accepted_by_place,
    exposition,
    head,
    histograms,
    label,
    lines,
)
from segue.types import Buckets

METRICS = (
    Metric(
        "vllm:num_requests_running",
        "gauge",
        "Sequences that are computed now.",
        lambda s: s.running,
    ),
    Metric("vllm:num_requests_waiting", "gauge", "Sequences that wait.", lambda s: s.waiting),
    Metric(
        "vllm:kv_cache_usage_perc",
        "gauge",
        "How much of the KV memory running sequences have; 1 is all of it. Cached prefixes make room.",
        lambda s: s.cells_running / max(1, s.cells_total),
    ),
    Metric("vllm:prompt_tokens_total", "counter", "Prompt tokens read.", lambda s: s.prompt_tokens),
    Metric(
        "vllm:prompt_tokens_cached_total",
        "counter",
        "Of these, tokens that the prefix cache had.",
        lambda s: s.cached_tokens,
    ),
    Metric(
        "vllm:generation_tokens_total",
        "counter",
        "Tokens generated.",
        lambda s: s.completion_tokens,
    ),
    Metric(
        "vllm:prefix_cache_queries_total",
        "counter",
        "Prompt tokens that were looked up in the prefix cache.",
        lambda s: s.prompt_tokens,
    ),
    Metric(
        "vllm:prefix_cache_hits_total",
        "counter",
        "Of these, tokens that were found.",
        lambda s: s.cached_tokens,
    ),
    Metric(
        "vllm:num_preemptions_total",
        "counter",
        "Sequences computed again.",
        lambda s: s.preemptions,
    ),
    Metric(
        "vllm:spec_decode_num_drafts_total",
        "counter",
        "Times that tokens were guessed ahead.",
        lambda s: s.drafts,
    ),
    Metric(
        "vllm:spec_decode_num_draft_tokens_total",
        "counter",
        "Tokens guessed ahead.",
        lambda s: s.draft_tokens,
    ),
    Metric(
        "vllm:spec_decode_num_accepted_tokens_total",
        "counter",
        "Guesses that turned out right.",
        lambda s: s.draft_accepted,
    ),
)


HISTOGRAMS: tuple[Histogram[Loaded], ...] = (
    Histogram(
        "vllm:time_to_first_token_seconds",
        "From a request to its first token.",
        lambda m: m.served.first_s,
    ),
    Histogram(
        "vllm:inter_token_latency_seconds",
        "From a token of a choice to the next.",
        lambda m: m.served.gap_s,
    ),
    Histogram(
        "vllm:request_time_per_output_token_seconds",
        "The mean of that for each choice.",
        lambda m: m.served.token_s,
    ),
    Histogram(
        "vllm:e2e_request_latency_seconds",
        "From a request to the end of its answer.",
        lambda m: m.served.whole_s,
    ),
    Histogram(
        "vllm:request_queue_time_seconds", "How long requests waited.", lambda m: m.served.queue_s
    ),
    Histogram(
        "vllm:request_prefill_time_seconds",
        "From there to the first token of a choice.",
        lambda m: m.served.prompt_s,
    ),
    Histogram(
        "vllm:request_decode_time_seconds",
        "From the first token of a choice to its last.",
        lambda m: m.served.decode_s,
    ),
    Histogram(
        "vllm:request_inference_time_seconds", "Both together.", lambda m: m.served.inference_s
    ),
    Histogram(
        "vllm:request_prompt_tokens", "Tokens of a prompt.", lambda m: m.served.prompt_tokens
    ),
    Histogram(
        "vllm:request_generation_tokens", "Tokens of a choice.", lambda m: m.served.answer_tokens
    ),
    Histogram(
        "vllm:request_max_num_generation_tokens",
        "Tokens of a request's longest choice.",
        lambda m: m.served.longest_tokens,
    ),
    Histogram(
        "vllm:iteration_tokens_total",
        "Tokens of a step.",
        lambda m: Buckets(
            (), (m.stats.steps,), m.stats.prefilled_tokens + m.stats.completion_tokens
        ),
    ),
)
_SUCCESS = "vllm:request_success_total"
_CACHE = "vllm:cache_config_info"


def page(models: Mapping[str, Loaded]) -> str:
    """The page in Prometheus' text format. `models`: by name."""
    by_labels = {labels(number, name): each for number, (name, each) in enumerate(models.items())}
    stats = {own: each.stats for own, each in by_labels.items()}
    parts = [
        exposition(METRICS, stats),
        accepted_by_place("vllm:spec_decode_num_accepted_tokens_per_pos_total", stats),
        lines(_reasons(by_labels)),
        histograms(HISTOGRAMS, by_labels),
        lines(_memory(by_labels)),
    ]
    return "".join(parts)


def _reasons(models: Mapping[str, Loaded]) -> Iterator[str]:
    yield from head(_SUCCESS, "counter", "Choices that ended, by why they did.")
    for own, each in models.items():
        for reason, number in each.served.reasons.items():
            yield f'{_SUCCESS}{own[:-1]},finished_reason="{reason}"}} {number:.12g}'


def _memory(models: Mapping[str, Loaded]) -> Iterator[str]:
    """Settings as labels of a 1: with them, a router reckons how many prefixes a server holds."""
    yield from head(_CACHE, "gauge", "The KV memory, in blocks of tokens.")
    for own, each in models.items():
        block = each.info.kv_block
        told = {
            "block_size": block,
            "num_gpu_blocks": each.info.kv_tokens // block,
            "enable_prefix_caching": True,
        }
        written = ",".join(f'{name}="{value}"' for name, value in told.items())
        yield f"{_CACHE}{own[:-1]},{written}}} 1"


def labels(number: int, model: str) -> str:
    return f'{{engine="{number}",model_name={label(model)}}}'
