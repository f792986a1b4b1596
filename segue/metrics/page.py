"""The Prometheus metrics: counters of the engines, read when the page is requested, and a few figures of requests.

Nothing is counted twice or a token at a time: engines keep plain totals (types.Stats), and a request is
observed once, at its end. Several server processes count in one file, each in a row of its own; the page has the sums,
whichever process answers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from segue.metrics import figures
from segue.processes.shared_numbers import SharedNumbers
from segue.types import Buckets, Served, Stats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NOTHING: Mapping[int, float] = MappingProxyType({})


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
    Row(
        "kv_tokens_running",
        "gauge",
        "Of these, of running sequences; the others are cached prefixes, which make room.",
        lambda s: s.cells_running,
    ),
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
    Row(
        "cancelled",
        "counter",
        "Requests ended early: the client left, or their time was up.",
        lambda s: s.cancelled,
    ),
    Row("failed", "counter", "Requests that failed in the model's process.", lambda s: s.failed),
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
        yield self._places()

    def _places(self) -> Metric:
        doc = "Guesses that were right, by their place in a draft."
        metric = CounterMetricFamily("segue_draft_accepted_at", doc, labels=["model", "position"])
        for model, stats in self._stats.items():
            for place, number in enumerate(stats.draft_accepted_at):
                metric.add_metric([model, f"{place}"], number)
        return metric


_STATUSES = range(100, 600)
# Histograms of the page, which are over all models: name, what it is of, and its name among the figures.
_SHOWN = (
    ("segue_time_to_first_token_seconds", "From the request to its first token.", "first_s"),
    ("segue_request_seconds", "From the request to the end of its answer.", "whole_s"),
    (
        "segue_inter_token_latency_seconds",
        "From a token of a choice to the next; tokens of one step share its time.",
        "gap_s",
    ),
)


class Metrics(Collector):
    """The metrics of one server. Labels are few and fixed: clients must not be able to add any.

    A process's row has the counts of statuses, and then a row of figures for each model.
    """

    def __init__(
        self,
        path: str | None,
        process: int,
        num_processes: int,
        models: Sequence[str],
    ) -> None:
        """`path`: the file that the server processes share. A process that is started again goes on in its row."""
        self._starts = {
            name: len(_STATUSES) + number * figures.ROW_SIZE for number, name in enumerate(models)
        }
        size = self._size = len(_STATUSES) + len(models) * figures.ROW_SIZE
        self._numbers = SharedNumbers(num_processes * size, path).values
        self._row = self._numbers[process * size : (process + 1) * size]

    def observe(self, status: int, model: str = "", told: Mapping[int, float] = NOTHING) -> None:
        """One request is over. `told`: its figures, by their places; it has none if it used no model."""
        self._row[status - _STATUSES.start] += 1
        if told and model in self._starts:
            start = self._starts[model]
            for place, number in told.items():
                self._row[start + place] += number

    def served(self, model: str) -> Served:
        """What became of a model's requests, in all processes."""
        start = self._starts[model]
        return figures.read(self._sums(range(start, start + figures.ROW_SIZE)))

    def _sums(self, places: Iterable[int]) -> list[float]:
        return [sum(self._numbers[place :: self._size]) for place in places]

    def collect(self) -> Iterator[Metric]:
        doc = "Answers by HTTP status; a stream that failed by that of its error."
        answers = CounterMetricFamily("segue_answers", doc, labels=["status"])
        for status, number in zip(_STATUSES, self._sums(range(len(_STATUSES))), strict=True):
            if number:
                answers.add_metric([f"{status}"], number)
        yield answers
        of_models = [self.served(model) for model in self._starts]
        for name, doc, field in _SHOWN:
            each: list[Buckets] = [getattr(served, field) for served in of_models]
            counts = map(sum, zip(*(one.counts for one in each), strict=True))
            ends = [*map(floatToGoString, each[0].ends), "+Inf"]
            buckets = list(zip(ends, accumulate(counts), strict=True))
            total = sum(one.sum for one in each)
            yield HistogramMetricFamily(name, doc, buckets=buckets, sum_value=total)

    def exposition(self, stats: Mapping[str, Stats]) -> str:
        """The page in Prometheus format. `stats`: of the models that are loaded."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Engines(stats))
        registry.register(self)
        return generate_latest(registry).decode()
