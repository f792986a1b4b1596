"""Figures of engines in Prometheus' text format, under the names that a system has for them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Generic, Literal, NamedTuple, TypeVar

from segue.types import Buckets, Stats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metric(NamedTuple):
    name: str
    kind: Literal["counter", "gauge"]
    doc: str
    read: Callable[[Stats], float]


Each = TypeVar("Each")


class Histogram(NamedTuple, Generic[Each]):
    name: str
    doc: str
    read: Callable[[Each], Buckets]


def exposition(metrics: Iterable[Metric], stats: Mapping[str, Stats]) -> str:
    """`stats`: by the labels of an engine, as they are written: `{model="x"}`, or nothing."""
    return lines(_of_engines(metrics, stats))


def _of_engines(metrics: Iterable[Metric], stats: Mapping[str, Stats]) -> Iterator[str]:
    for metric in metrics:
        yield from head(metric.name, metric.kind, metric.doc)
        for labels, each in stats.items():
            yield f"{metric.name}{labels} {metric.read(each):.12g}"


def accepted_by_place(name: str, stats: Mapping[str, Stats]) -> str:
    """Draft tokens that were right, by their place in a draft: nothing where none were. `stats`: as for exposition."""
    return lines(_of_places(name, {own: each.draft_accepted_at for own, each in stats.items()}))


def _of_places(name: str, counts: Mapping[str, Sequence[int]]) -> Iterator[str]:
    if any(counts.values()):
        yield from head(name, "counter", "Guesses that turned out right, by their place.")
    for own, each in counts.items():
        before = f"{own[:-1]}," if own else "{"
        for place, number in enumerate(each):
            yield f'{name}{before}position="{place}"}} {number:.12g}'


def histograms(rows: Iterable[Histogram[Each]], of: Mapping[str, Each]) -> str:
    """`of`: by labels, of which there are some."""
    return lines(_of_rows(rows, of))


def _of_rows(rows: Iterable[Histogram[Each]], of: Mapping[str, Each]) -> Iterator[str]:
    for row in rows:
        yield from head(row.name, "histogram", row.doc)
        for labels, each in of.items():
            yield from _samples(row.name, labels, row.read(each))


def _samples(name: str, labels: str, buckets: Buckets) -> Iterator[str]:
    ends = [*(repr(float(end)) for end in buckets.ends), "+Inf"]
    sums = list(accumulate(buckets.counts))
    for end, number in zip(ends, sums, strict=True):
        yield f'{name}_bucket{labels[:-1]},le="{end}"}} {number:.12g}'
    yield f"{name}_count{labels} {sums[-1]:.12g}"
    yield f"{name}_sum{labels} {buckets.sum:.12g}"


def lines(given: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in given)


def head(name: str, kind: str, doc: str) -> list[str]:
    return [f"# HELP {name} {doc}", f"# TYPE {name} {kind}"]


def label(text: str) -> str:
    """A value of a label."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
