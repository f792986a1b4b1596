from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from segue.metrics.figures import Figures
from segue.metrics.page import ROWS, Metrics
from segue.types import Stats
from tests.support.metrics import one_process


def read(exposition: str) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }


def told(**observed: float) -> dict[int, float]:
    figures = Figures()
    for name, value in observed.items():
        figures.observe(name, value)
    return figures.numbers


def test_every_row_is_told_for_every_model() -> None:
    stats = {"a": Stats(running=3, prompt_tokens=5), "b": Stats(decode_s=1.5)}
    samples = read(one_process().exposition(stats))
    assert samples[("segue_running", ("a",))] == 3
    assert samples[("segue_prompt_tokens_total", ("a",))] == 5
    assert samples[("segue_decode_seconds_total", ("b",))] == 1.5
    assert sum(labels == ("a",) for _, labels in samples) == len(ROWS)


def test_every_figure_of_an_engine_has_a_row() -> None:
    """Each of them, set alone, shows."""
    for field in Stats.__struct_fields__:
        number: Any = (7,) if isinstance(getattr(Stats(), field), tuple) else 7
        samples = read(one_process().exposition({"a": Stats(**{field: number})}))
        assert 7 in samples.values(), field


def test_right_guesses_are_told_by_their_place() -> None:
    samples = read(one_process().exposition({"a": Stats(draft_accepted_at=(5, 2))}))
    assert samples[("segue_draft_accepted_at_total", ("a", "1"))] == 2


def test_requests_are_observed_once() -> None:
    metrics = one_process()
    metrics.observe(200, told=told(first_s=0.02, whole_s=0.3))
    metrics.observe(404)
    metrics.observe(200, told=told(whole_s=0.2))
    samples = read(metrics.exposition({}))
    assert samples[("segue_answers_total", ("200",))] == 2
    assert samples[("segue_answers_total", ("404",))] == 1
    assert samples[("segue_request_seconds_count", ())] == 2
    assert samples[("segue_time_to_first_token_seconds_count", ())] == 1
    assert samples[("segue_time_to_first_token_seconds_bucket", ("0.025",))] == 1


def test_processes_count_together_and_one_that_comes_again_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="numbers are shared where files can be locked")
    path = str(tmp_path / "metrics")
    one, two = (Metrics(path, process, 2, [""]) for process in (0, 1))
    one.observe(200, told=told(first_s=0.02))
    two.observe(200, told=told(first_s=0.2))
    two.observe(499)
    again = Metrics(path, 1, 2, [""])
    again.observe(200, told=told(first_s=400.0))
    assert one.exposition({}) == two.exposition({}) == again.exposition({})
    samples = read(one.exposition({}))
    assert samples[("segue_answers_total", ("200",))] == 3
    assert samples[("segue_answers_total", ("499",))] == 1
    buckets = {
        labels[0]: value for (name, labels), value in samples.items() if "first" in name and labels
    }
    assert [buckets[end] for end in ("0.01", "0.025", "0.1", "0.25", "300.0", "+Inf")] == [
        0,
        1,
        1,
        2,
        2,
        3,
    ]
    assert samples[("segue_time_to_first_token_seconds_sum", ())] == pytest.approx(400.22)


def test_models_are_counted_apart_and_shown_together(tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="numbers are shared where files can be locked")
    path, models = str(tmp_path / "metrics"), ("a", "b")
    one, two = (Metrics(path, process, 2, models) for process in (0, 1))
    one.observe(200, "a", told(gap_s=0.005))
    two.observe(200, "a", told(gap_s=5))
    two.observe(200, "b", told(gap_s=0.003))
    two.observe(200, "unknown", told(gap_s=1))
    assert [sum(one.served(model).gap_s.counts) for model in models] == [2, 1]
    assert one.served("a") == two.served("a")
    samples = read(one.exposition({}))
    name = "segue_inter_token_latency_seconds"
    found = {labels[0]: n for (each, labels), n in samples.items() if each == f"{name}_bucket"}
    assert [found[end] for end in ("0.0025", "0.005", "2.5", "+Inf")] == [0, 2, 2, 3]
    assert samples[(f"{name}_count", ())] == 3
    assert samples[(f"{name}_sum", ())] == pytest.approx(5.008)
