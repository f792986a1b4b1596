"""The Prometheus metrics: counters of the engines, read when the page is requested, and a few figures of requests.

Nothing is counted twice or a token at a time: engines keep plain totals (types.Stats), and a request is
observed once, at its end.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from segue.types import Stats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Row(NamedTuple):
    """One metric of an engine. `_total` is appended to the name of a counter."""

    name: str
    kind: Literal["counter", "gauge"]
    doc: str
    read: Callable[[Stats], float]


ROWS = (
    Row("running", "gauge", "Sequences that are computed now.", lambda s: s.running),
    Row("waiting", "gauge", "Sequences that wait for a slot.", lambda s: s.waiting),
    Row("slots_used", "gauge", "Slots that hold a sequence.", lambda s: s.slots_used),
    Row("slots", "gauge", "Slots there are.", lambda s: s.slots_total),
    Row("kv_tokens_used", "gauge", "Tokens in the KV memory.", lambda s: s.cells_used),
    Row("kv_tokens", "gauge", "Tokens the KV memory can hold.", lambda s: s.cells_total),
    Row("steps", "counter", "Steps of the model.", lambda s: s.steps),
    Row("prompt_tokens", "counter", "Prompt tokens read.", lambda s: s.prompt_tokens),
    Row("cached_tokens", "counter", "Of these, from the prefix cache.", lambda s: s.cached_tokens),
    Row(
        "prefilled_tokens",
        "counter",
        "Prompt tokens computed, also for requests whose client left.",
        lambda s: s.prefilled_tokens,
    ),
    Row("completion_tokens", "counter", "Tokens generated.", lambda s: s.completion_tokens),
    Row("prompt_seconds", "counter", "Time spent on prompts.", lambda s: s.prompt_s),
    Row("decode_seconds", "counter", "Time spent on answers.", lambda s: s.decode_s),
    Row("draft_tokens", "counter", "Tokens guessed ahead.", lambda s: s.draft_tokens),
    Row("drafts", "counter", "Times that draft tokens were computed.", lambda s: s.drafts),
    Row(
        "sequences_stepped", "counter", "Sequences in a step, over all steps.", lambda s: s.stepped
    ),
    Row("longest_sequence_tokens", "gauge", "Tokens of the longest sequence.", lambda s: s.longest),
    Row("draft_accepted", "counter", "Guesses that were right.", lambda s: s.draft_accepted),
    Row("preemptions", "counter", "Sequences computed again.", lambda s: s.preemptions),
    Row("evictions", "counter", "Cached prefixes given up.", lambda s: s.evictions),
    Row("finished", "counter", "Requests answered in full.", lambda s: s.finished),
    Row("cancelled", "counter", "Requests whose client left.", lambda s: s.cancelled),
    Row("failed", "counter", "Requests that failed.", lambda s: s.failed),
    Row("restarts", "counter", "Times the model's process began again.", lambda s: s.restarts),
    Row("stats_age_seconds", "gauge", "Since the figures above were true.", lambda s: s.age_s),
)


class _Engines(Collector):
    def __init__(self, stats: Mapping[str, Stats]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        for row in ROWS:
            family = CounterMetricFamily if row.kind == "counter" else GaugeMetricFamily
            metric = family(f"segue_{row.name}", row.doc, labels=["model"])
            for model, stats in self._stats.items():
                metric.add_metric([model], row.read(stats))
            yield metric


class Metrics:
    """The metrics of one server. Labels are few and fixed: clients must not be able to add any."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._answers = Counter(
            "segue_answers", "Answers by HTTP status.", ["status"], registry=self._registry
        )
        self._answers_with: dict[int, Counter] = {}  # by status; looking up a label takes longer
        self._first = Histogram(
            "segue_time_to_first_token_seconds",
            "From the request to its first event.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._whole = Histogram(
            "segue_request_seconds",
            "From the request to the end of its answer.",
            buckets=_SECONDS,
            registry=self._registry,
        )

    def observe(self, status: int, first_s: float | None, whole_s: float) -> None:
        """One request is over. `first_s`: None if no model was used."""
        if status not in self._answers_with:
            self._answers_with[status] = self._answers.labels(f"{status}")
        self._answers_with[status].inc()
        if first_s is not None:
            self._first.observe(first_s)
            self._whole.observe(whole_s)

    def exposition(self, stats: Mapping[str, Stats]) -> str:
        """The page in Prometheus format. `stats`: of the models that are loaded."""
        engines = CollectorRegistry(auto_describe=False)
        engines.register(_Engines(stats))
        return (generate_latest(engines) + generate_latest(self._registry)).decode()
