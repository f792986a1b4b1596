"""The engines' figures under vLLM's names: what gateways, autoscalers and dashboards for vLLM read."""

from segue.dialects.rendering.prometheus import Metric, label

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


def labels(number: int, model: str) -> str:
    return f'{{engine="{number}",model_name={label(model)}}}'
