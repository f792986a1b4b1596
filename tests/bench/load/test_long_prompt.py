"""Streams beside a long prompt, against a real server with the fake runner."""

import json

import pytest

from segue.bench.load import long_prompt
from segue.runners.fake import FakeLoader
from tests.support.live import Live


def test_streams_and_a_prompt_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Live(FakeLoader(context_length=100_000, num_cells=1_000_000)) as live:
        monkeypatch.setattr(long_prompt, "SETTLING_S", 0.01)
        monkeypatch.setattr(long_prompt, "_story", lambda _: long_prompt._body("Once", 90_000))
        monkeypatch.setattr(long_prompt, "IDS", range(1, 100))
        monkeypatch.setattr(
            "sys.argv",
            ["long_prompt", live.url, "--streams", "1", "--streams", "3", "--prompt", "900"],
        )
        long_prompt.main()
    one, three = map(json.loads, capsys.readouterr().out.splitlines())
    assert (one["streams"], three["streams"], one["prompt"]) == (1, 3, 900)
    assert one["first_token_s"] >= 0


def test_what_arrives_together_counts_as_one() -> None:
    arrivals = [[1.0, 1.0004, 1.1, 1.3], [0.9, 1.2]]
    assert long_prompt._gaps(arrivals, 0.95, 2.0) == {"median": 200, "p90": 300, "worst": 300}
    assert long_prompt._gaps(arrivals, 1.0, 1.15) == {"median": 100, "p90": 100, "worst": 100}
    assert long_prompt._gaps([], 0.0, 2.0) == {}
