"""Headers that vLLM's completions know: a request's priority, and the engine's load for a balancer."""

from collections.abc import Iterator

import msgspec
import pytest

from segue.runners.fake import FakeLoader
from segue.server.report_headers import load_report
from segue.types import Stats
from tests.support.live import Live

PATH = "/vllm/v1/completions"
STATS = Stats(cells_used=110, cells_running=30, cells_total=120, waiting=4)


def test_the_load_in_both_formats() -> None:
    [(name, text)] = load_report(b"TEXT", STATS)
    assert name == b"endpoint-load-metrics"
    figures = {"kv_cache_usage_perc": 0.25, "num_requests_waiting": 4.0}
    assert text == b"TEXT " + b", ".join(
        f"named_metrics.{name}={value}".encode() for name, value in figures.items()
    )
    [(_, told)] = load_report(b"json", STATS)
    assert told.startswith(b"JSON ")
    assert msgspec.json.decode(told[5:]) == {"named_metrics": figures}
    assert load_report(b"yaml", STATS) == []
    assert load_report(b"text", Stats())[0][1].startswith(
        b"TEXT named_metrics.kv_cache_usage_perc=0.0"
    )


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    """Priorities are heeded, and the engine has none: one that reaches it is refused."""
    with Live(FakeLoader(), heeds_priorities=True) as live:
        yield live


def test_the_load_is_told_to_who_asks(live: Live) -> None:
    body = {"prompt": "ab", "max_tokens": 1}
    for path, wanted, is_told in (
        (PATH, "text", True),
        (PATH, "Json", True),
        (PATH, "", False),
        ("/v1/completions", "text", False),
    ):
        headers = {"endpoint-load-metrics-format": wanted}
        answer = live.client.post(path, json=body, headers=headers)
        assert answer.status_code == 200
        told = answer.headers.get("endpoint-load-metrics", "")
        assert told.startswith(wanted.upper() + " ") == is_told


@pytest.mark.parametrize(
    ("header", "field", "status"),
    [
        ("3", None, 400),
        ("-3", 0, 400),
        ("0", 5, 200),
        ("urgent", 0, 200),
        ("urgent", 5, 400),
        ("99999999999999999999", 0, 400),
        ("9" * 5000, 0, 200),
    ],
)
def test_a_priority_in_the_header_counts_before_the_field(
    live: Live, header: str, field: int | None, status: int
) -> None:
    body = {"prompt": "ab", "max_tokens": 1, "priority": 0 if field is None else field}
    answer = live.client.post(PATH, json=body, headers={"X-Vllm-Priority": header})
    assert answer.status_code == status
    if status == 400:
        assert answer.json()["error"]["param"] == "priority"


def test_the_header_is_of_vllms_dialect_and_where_priorities_are_heeded(live: Live) -> None:
    headers = {"X-Vllm-Priority": "3", "content-type": "application/json"}
    body = {"prompt": "ab", "max_tokens": 1}
    assert live.client.post("/v1/completions", json=body, headers=headers).status_code == 200
    for broken in (b"[]", b'"x"', b"null"):
        answer = live.client.post(PATH, content=broken, headers=headers)
        assert answer.status_code == 400
    with Live(FakeLoader()) as plain:
        assert plain.client.post(PATH, json=body, headers=headers).status_code == 200
