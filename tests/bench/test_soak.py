import asyncio

import pytest

from segue.bench.served import served
from segue.bench.soak import LIMITS, Soak, is_unsound

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


def test_a_short_soak_is_sound() -> None:
    with served(*LIMITS, "--runner", "fake") as server:
        figures = asyncio.run(Soak(server).run(seconds=5.0, kill_every_s=1.5))
    assert figures["restarts"] >= 1
    figures["memory_growth"] = 0.0  # five seconds are all warm-up
    assert not is_unsound(figures), figures
