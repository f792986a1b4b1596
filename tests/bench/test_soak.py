import asyncio
import json
from types import SimpleNamespace

import pytest

from segue.bench import soak
from segue.bench.harness.served import Served, served
from segue.bench.soak import LIMITS, Resident, Soak, is_unsound, memory_figures

SOUND = {"leaked_slots": 0, "changed": 0, "broken": 0, "memory_growth": 0.01, "finished": 9}


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({}, False),
        ({"leaked_slots": 1}, True),
        ({"changed": 1}, True),
        ({"broken": 1}, True),
        ({"memory_growth": 0.2}, True),
        ({"finished": 0}, True),
    ],
)
def test_what_counts_as_unsound(figures: dict[str, float], expected: bool) -> None:
    assert is_unsound({**SOUND, **figures}) is expected


def test_a_killed_workers_memory_is_not_judged() -> None:
    """It begins anew; without kills what the worker gains counts."""
    mib = 2**20
    samples = [Resident(float(i), 100 * mib, (100 + i) * mib) for i in range(300)]
    figures = memory_figures(samples, has_kills=True)
    assert (figures["memory_growth"], figures["end_to_warm"]) == (0, 1)
    assert not any("worker" in name for name in figures)
    figures = memory_figures(samples, has_kills=False)
    assert figures["memory_growth"] == pytest.approx(400 / 300 - 1, abs=1e-4)
    assert (figures["worker_mib_warm"], figures["worker_mib_end"]) == (160, 340)
    assert figures["end_to_warm"] == pytest.approx(440 / 260, abs=1e-4)


def test_a_moments_peak_is_no_growth() -> None:
    mib = 2**20
    samples = [Resident(i, (100 + 900 * (i % 50 == 0)) * mib, 0) for i in range(1, 300)]
    assert memory_figures(samples, has_kills=True)["memory_growth"] == 0


def test_a_server_that_has_not_noticed_has_not_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    """`back after 0.08 s` was said of a worker that takes seconds to start."""
    served_before = b'segue_restarts_total{model="m"} 1.0\n'
    script = [
        ("/health", 200, b""),
        ("/metrics", 200, served_before),
        ("/health", 503, b""),
        ("/health", 200, b""),
        ("/metrics", 200, b'segue_restarts_total{model="m"} 2.0\n'),
    ]

    async def get(self: Soak, path: str) -> SimpleNamespace:
        wanted, status, body = script.pop(0)
        assert path == wanted
        return SimpleNamespace(status=status, body=body)

    monkeypatch.setattr(Soak, "_get", get)
    asyncio.run(Soak(Served("", 0, 0))._recovery(1))
    assert script == []


def test_a_short_soak_is_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    # It comes where a restart is slow. Somewhere a process may have 256 files open, and pytest has some.
    monkeypatch.setattr(soak, "BURST", 80)
    with served(*LIMITS, "--runner", "fake") as server:
        figures = asyncio.run(Soak(server).run(seconds=1.0, kill_every_s=1.0, min_restarts=1))
    assert figures["restarts"] >= 1
    figures["memory_growth"] = 0.0  # a few seconds are all warm-up
    assert not is_unsound(figures), json.dumps(figures)
