"""The claim of batch invariance is tried; what is reported is what was found."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from segue.distributed.vllm import VllmEngine
from tests.distributed.stand_in import StandIn


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

    asyncio.run(asyncio.wait_for(check(), 30))


def _undecided(info: Any) -> Any:
    return msgspec.structs.replace(info, deterministic=False)
