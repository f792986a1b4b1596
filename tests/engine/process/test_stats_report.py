import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from segue.engine.process.stats_report import LastStats, StatsReport
from segue.engine.process.supervisor import Supervisor
from segue.engine.seam import Loaded, Logits, Span
from segue.runners.fake import FakeLoader, FakeRunner
from segue.types import Delta, Stats
from tests.engine.harness import Bench, ask


def test_figures_are_told_when_they_change_and_now_and_then() -> None:
    now = 0.0
    report = StatsReport(lambda: now)
    assert report.is_due((1, 0))
    assert not report.is_due((1, 0))
    assert report.is_due((2, 0))
    now = 0.2
    assert not report.is_due((2, 0))
    now = 0.3
    assert report.is_due((2, 0))
    assert report.is_due((2, 1))


def test_figures_are_told_when_a_request_comes_starts_or_ends() -> None:
    bench = Bench()
    idle = bench.scheduler.changing
    bench.submit(ask("hello", max_tokens=2))
    waiting = bench.scheduler.changing
    bench.step()
    running = bench.scheduler.changing
    assert bench.scheduler.changing == running, "a step alone changes nothing"
    while bench.step():
        pass
    bench.submit(cancelled := ask("hello"))
    bench.scheduler.cancel(cancelled.request_id)
    assert len({idle, waiting, running, bench.scheduler.changing}) == 4


def test_the_last_figures_have_an_age() -> None:
    now = 0.0
    last = LastStats(lambda: now)
    last.take(Stats(running=3))
    now = 5.0
    last.take(None)
    assert (last.stats.running, last.age_s) == (3, 5.0)
    last.confirm()
    assert (last.stats.running, last.age_s) == (3, 0.0)


class SlowRunner(FakeRunner):
    """Its second step takes long."""

    num_steps = 0

    def decode(self, spans: Sequence[Span]) -> Logits:
        self.num_steps += 1
        if self.num_steps > 1:
            time.sleep(600)
        return super().decode(spans)


@dataclass(frozen=True)
class SlowLoader:
    def __call__(self) -> Loaded:
        loaded = FakeLoader()()
        return loaded._replace(runner=SlowRunner(script=b"x"))


def test_figures_never_wait_for_a_long_step() -> None:
    """Nor do they freeze at what was before it."""

    async def main() -> None:
        supervisor = Supervisor(SlowLoader(), chunk_rows=64, step_timeout_s=600)
        await supervisor.start()
        events = supervisor.submit(ask("hello", max_tokens=None))
        async for event in events:
            if isinstance(event, Delta):
                break
        for _ in range(3):
            coroutine = supervisor.stats()
            with pytest.raises(StopIteration) as told:
                coroutine.send(None)  # it never waits: not even for one turn of the loop
            assert told.value.value.running == 1
        await events.aclose()
        await supervisor.close()

    asyncio.run(main())
