"""The claim of batch invariance is tried; what is reported is what was found."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from segue.distributed.vllm import VllmEngine
from segue.errors import ModelUnavailable
from tests.distributed.stand_in import Dead, StandIn
from tests.support.waiting import PATIENCE_S


class Company(StandIn):
    """Its scores depend on how many requests run."""

    def _draw(self, row: Any, params: dict[str, Any], position: int) -> int:
        return 65 + len(self.open) % 3


@pytest.mark.parametrize(
    ("mode", "llm", "expected"),
    [("0", StandIn, False), ("1", StandIn, True), ("1", Company, False)],
)
def test_what_is_found_is_reported(
    mode: str, llm: type[StandIn], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", mode)
    stand_in = llm()
    launched = stand_in.launched()
    launched = replace(launched, info=_undecided(launched.info))

    async def check() -> None:
        async def launch() -> Any:
            return launched

        engine = VllmEngine(launch)
        await engine.start()
        assert engine.info.deterministic is expected
        assert bool(stand_in.asked) is (mode == "1")
        await engine.close()

    asyncio.run(asyncio.wait_for(check(), PATIENCE_S))


class Broken(StandIn):
    """It has no kernels for the mode."""

    async def add_request(self, *args: Any, **more: Any) -> Any:
        raise Dead


def test_an_engine_that_fails_on_it_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    stand_in = Broken()

    async def check() -> None:
        async def launch() -> Any:
            return stand_in.launched()

        with pytest.raises(ModelUnavailable, match="unset VLLM_BATCH_INVARIANT"):
            await VllmEngine(launch).start()

    asyncio.run(asyncio.wait_for(check(), PATIENCE_S))
    assert stand_in.is_shut_down


def _undecided(info: Any) -> Any:
    return msgspec.structs.replace(info, deterministic=False)
