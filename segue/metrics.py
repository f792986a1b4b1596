"""The Prometheus metrics: counters of the engines, read when the page is requested, and a few figures of requests.

Nothing is counted twice or a token at a time: engines keep plain totals (types.Stats), and a request is
observed once, at its end. Several server processes count in one file, each in a row of its own; the page has the sums,
whichever process answers.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
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

from segue.processes.shared_numbers import SharedNumbers
from segue.types import Stats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_MILLISECONDS = (1, 2.5, 5, 7.5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 250, 500, 1000, 2500)
TOKEN_SECONDS = tuple(each / 1000 for each in _MILLISECONDS)


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


class _Histogram(NamedTuple):
    """Where a histogram is in a process's row: a count for each bucket and for what is above, then the sum."""

    name: str
    doc: str
    ends: tuple[float, ...]  # of its buckets
    start: int

    @property
    def sum_at(self) -> int:
        return self.start + len(self.ends) + 1


_STATUSES = range(100, 600)
_FIRST = _Histogram(
    "segue_time_to_first_token_seconds",
    "From the request to its first token.",
    _SECONDS,
    len(_STATUSES),
)
_WHOLE = _Histogram(
    "segue_request_seconds",
    "From the request to the end of its answer.",
    _SECONDS,
    _FIRST.sum_at + 1,
)
_GAPS = _Histogram(
    "segue_inter_token_latency_seconds",
    "From a token of a choice to the next; tokens of one step share its time.",
    TOKEN_SECONDS,
    _WHOLE.sum_at + 1,
)
_ROW_SIZE = _GAPS.sum_at + 1


class Metrics(Collector):
    """The metrics of one server. Labels are few and fixed: clients must not be able to add any."""

    def __init__(self, path: str | None = None, process: int = 0, num_processes: int = 1) -> None:
        """`path`: the file that the server processes share. A process that is started again goes on in its row."""
        self._numbers = SharedNumbers(num_processes * _ROW_SIZE, path).values
        self._row = self._numbers[process * _ROW_SIZE : (process + 1) * _ROW_SIZE]

    def observe(
        self,
        status: int,
        token_s: float | None = None,
        whole_s: float | None = None,
        gaps: Sequence[float] = (),
    ) -> None:
        """One request is over. None: it had no token, as when prompts are scored; it used no model.
        `gaps`: of its tokens, as the histogram is in a row."""
        self._row[status - _STATUSES.start] += 1
        for histogram, seconds in ((_FIRST, token_s), (_WHOLE, whole_s)):
            if seconds is not None:
                self._row[histogram.start + bisect_left(histogram.ends, seconds)] += 1
                self._row[histogram.sum_at] += seconds
        for place, number in enumerate(gaps, _GAPS.start):
            self._row[place] += number

    def collect(self) -> Iterator[Metric]:
        sums = [sum(self._numbers[place::_ROW_SIZE]) for place in range(_ROW_SIZE)]
        doc = "Answers by HTTP status; a stream that failed by that of its error."
        answers = CounterMetricFamily("segue_answers", doc, labels=["status"])
        for status, count in zip(_STATUSES, sums, strict=False):
            if count:
                answers.add_metric([f"{status}"], count)
        yield answers
        for histogram in (_FIRST, _WHOLE, _GAPS):
            counts, total = sums[histogram.start : histogram.sum_at], sums[histogram.sum_at]
            ends = [*map(floatToGoString, histogram.ends), "+Inf"]
            buckets = list(zip(ends, accumulate(counts), strict=True))
            yield HistogramMetricFamily(
                histogram.name, histogram.doc, buckets=buckets, sum_value=total
            )

    def exposition(self, stats: Mapping[str, Stats]) -> str:
        """The page in Prometheus format. `stats`: of the models that are loaded."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Engines(stats))
        registry.register(self)
        return generate_latest(registry).decode()
