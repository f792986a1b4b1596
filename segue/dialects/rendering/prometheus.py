"""Figures of engines in Prometheus' text format, under the names that a system has for them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from segue.types import Stats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metric(NamedTuple):
    name: str
    kind: Literal["counter", "gauge"]
    doc: str
    read: Callable[[Stats], float]


def exposition(metrics: Iterable[Metric], stats: Mapping[str, Stats]) -> str:
    """`stats`: by the labels of an engine, as they are written: `{model="x"}`, or nothing."""
    lines: list[str] = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.doc}", f"# TYPE {metric.name} {metric.kind}"]
        lines += [f"{metric.name}{labels} {metric.read(s):.12g}" for labels, s in stats.items()]
    return "\n".join(lines) + "\n"


def label(text: str) -> str:
    """A value of a label."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
