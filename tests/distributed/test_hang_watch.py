"""What counts as a hang of vLLM's engine, and what does not. Looks are made by hand: no clock is read."""

import asyncio
import logging

import pytest

from segue.distributed.hang_watch import PATIENCE_S, WARM_STEPS, HangWatch
from tests.distributed.harness import run
from tests.distributed.stand_in import StandIn

LIMIT_S = 10.0


def warm() -> StandIn:
    llm = StandIn()
    llm.gauges.steps = WARM_STEPS
    return llm


async def looked(watch: HangWatch, count: int, interval_s: float = 1.0) -> None:
    """So many looks; an engine that is between two steps answers before the next."""
    for _ in range(count):
        watch.look(interval_s)
        for _ in range(3):
            await asyncio.sleep(0)


def test_a_step_that_does_not_end_is_a_hang(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "segue")

    async def check() -> None:
        llm = warm()
        watch = HangWatch(llm.launched(), LIMIT_S)
        await looked(watch, 3)
        llm.step = asyncio.Event()
        await looked(watch, 1 + 10)  # the first one asks
        assert not llm.errored
        await looked(watch, 1)
        assert llm.errored
        await looked(watch, 5)
        watch.stop()

    run(check())
    assert caplog.messages == ["vLLM's engine does not answer for 11.0 s: ended"]


def test_long_steps_one_after_another_are_none() -> None:
    """A long prompt: no token comes, but each of its chunks is a step."""

    async def check() -> None:
        llm = warm()
        watch = HangWatch(llm.launched(), LIMIT_S)
        for _ in range(5):
            llm.step = asyncio.Event()
            await looked(watch, 10)
            llm.step.set()
            await looked(watch, 0)
            await asyncio.sleep(0)
        assert not llm.errored
        watch.stop()

    run(check())


class Refusing(StandIn):
    async def is_paused(self) -> bool:
        await super().is_paused()
        raise RuntimeError("shutting down")


@pytest.mark.parametrize("kind", [StandIn, Refusing])
def test_an_engine_that_answers_is_not_ended_however_long_it_has_nothing_to_do(
    kind: type[StandIn],
) -> None:
    """It has no requests, or they wait, or it is paused: all the same to a call. An error is an answer, too."""

    async def check() -> None:
        llm = kind()
        llm.gauges.steps = WARM_STEPS
        watch = HangWatch(llm.launched(), LIMIT_S)
        await looked(watch, 1000)
        assert not llm.errored
        assert llm.num_calls == 1000
        watch.stop()

    run(check())


def test_one_call_at_a_time_is_open() -> None:
    async def check() -> None:
        llm = warm()
        llm.step = asyncio.Event()
        watch = HangWatch(llm.launched(), LIMIT_S)
        await looked(watch, 9)
        assert llm.num_calls == 1
        watch.stop()

    run(check())


@pytest.mark.parametrize(
    ("steps", "limit_s", "longest_s"),
    [
        (WARM_STEPS, LIMIT_S, LIMIT_S),
        (WARM_STEPS, None, PATIENCE_S),
        (0, None, PATIENCE_S),
        (0, LIMIT_S, PATIENCE_S),  # kernels are compiled at their first use
        (WARM_STEPS - 1, LIMIT_S, PATIENCE_S),
        (0, 2 * PATIENCE_S, 2 * PATIENCE_S),
    ],
)
def test_how_long_a_step_may_take(steps: int, limit_s: float | None, longest_s: float) -> None:
    async def check() -> None:
        llm = StandIn()
        llm.gauges.steps, llm.step = steps, asyncio.Event()
        watch = HangWatch(llm.launched(), limit_s)
        await looked(watch, 1 + 2, longest_s / 2)
        assert not llm.errored
        await looked(watch, 1, longest_s / 2)
        assert llm.errored
        watch.stop()

    run(check())
