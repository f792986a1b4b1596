from prometheus_client.parser import text_string_to_metric_families

from segue.dialects.rendering.prometheus import Metric, exposition, label
from segue.types import Stats

METRICS = (
    Metric("x:steps_total", "counter", "Steps.", lambda stats: stats.steps),
    Metric("x:running", "gauge", "Running.", lambda stats: stats.running / 3),
)


def test_it_is_what_prometheus_reads() -> None:
    name = 'a"b\\c\nd'
    text = exposition(METRICS, {f"{{model={label(name)}}}": Stats(steps=5, running=1), "": Stats()})
    steps, running = text_string_to_metric_families(text)
    assert [(each.labels, each.value) for each in steps.samples] == [({"model": name}, 5), ({}, 0)]
    assert running.samples[0].value == 0.333333333333
    assert (steps.type, running.type) == ("counter", "gauge")
