"""Starts of vLLM's engine: its adapters are loaded, and one that is not served does not stay."""

import asyncio
from typing import Any

import pytest

from segue.distributed.launch import Launched
from segue.distributed.vllm import VllmEngine
from segue.errors import ModelUnavailable, Unavailable
from tests.distributed.harness import run
from tests.distributed.stand_in import StandIn


def engine_of(*llms: StandIn | Exception) -> VllmEngine:
    """Each start takes the next one."""
    waiting = iter(llms)

    async def launch() -> Launched:
        following = next(waiting)
        if isinstance(following, Exception):
            raise following
        return following.launched()

    return VllmEngine(launch)


async def until_up(engine: VllmEngine) -> None:
    while True:
        try:
            await engine.stats()
            return
        except Unavailable:
            await asyncio.sleep(0.01)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("answers", "vllm"):
        monkeypatch.setattr(f"segue.distributed.{module}._LOOK_S", 0.01)
    monkeypatch.setattr("segue.distributed.vllm.next_pause", lambda *_: 0.0)


def test_adapters_are_loaded_before_anything_is_served() -> None:
    async def check() -> None:
        llm = StandIn()
        llm.adapters = {"poet": "one", "clerk": "two"}
        engine = engine_of(llm)
        await engine.start()
        assert llm.loaded == ["one", "two"]
        await engine.close()

    run(check())


def test_an_adapter_that_does_not_fit_is_told_at_the_start() -> None:
    """Else the first request for it would end vLLM's engine, and each one after a restart."""

    async def check() -> None:
        llm = StandIn()
        llm.adapters, llm.unfit = {"poet": "one", "giant": "two"}, ("two",)
        with pytest.raises(ModelUnavailable, match="the adapter giant: rank 32 is greater"):
            await engine_of(llm).start()
        assert llm.is_shut_down

    run(check())


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("call", ["get_supported_tasks", "add_lora"])
def test_an_engine_that_dies_of_a_call_is_not_waited_for(call: str) -> None:
    """vLLM never answers such a call."""

    async def check() -> None:
        first, second, third = llms = [StandIn() for _ in range(3)]
        for llm in llms:
            llm.adapters = {"poet": "one"}
        first.dies_of = second.dies_of = call
        engine = engine_of(*llms)
        with pytest.raises(ModelUnavailable, match="ended unexpectedly"):
            await engine.start()
        assert first.is_shut_down

        running = StandIn()
        engine = engine_of(running, second, third)
        await engine.start()
        running.errored = True
        await until_up(engine)
        assert second.is_shut_down
        assert (await engine.stats()).restarts == 2
        await engine.close()

    run(check())


def test_an_engine_whose_vocabulary_fails_is_shut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("segue.distributed.vllm.VllmRequests", fail)

    async def check() -> None:
        llm = StandIn()
        with pytest.raises(MemoryError):
            await engine_of(llm).start()
        assert llm.is_shut_down

    run(check())


class Stuck(StandIn):
    def shutdown(self, timeout: float | None = None) -> None:
        if self.errored:
            raise OSError("its process cannot be reached")


@pytest.mark.usefixtures("soon")
def test_whatever_fails_in_a_restart_another_follows() -> None:
    async def check() -> None:
        first = Stuck()
        engine = engine_of(first, OSError("too many open files"), StandIn())
        await engine.start()
        first.errored = True
        await until_up(engine)
        assert (await engine.stats()).restarts == 2
        await engine.close()

    run(check())
