from prometheus_client.parser import text_string_to_metric_families

from segue.dialects.rendering.prometheus import Metric, accepted_by_place, exposition, label
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


def test_right_guesses_are_told_by_their_place() -> None:
    name = "x:accepted_total"
    text = accepted_by_place(name, {"": Stats(draft_accepted_at=(9, 2)), '{model="a"}': Stats()})
    (family,) = text_string_to_metric_families(text)
    read = [(each.labels, each.value) for each in family.samples]
    assert read == [({"position": "0"}, 9), ({"position": "1"}, 2)]
    (labelled, _) = accepted_by_place(name, {'{model="a"}': Stats(draft_accepted_at=(1,))}).split(
        "\n"
    )[2:]
    assert labelled == 'x:accepted_total{model="a",position="0"} 1'
    assert accepted_by_place(name, {"": Stats()}) == ""
