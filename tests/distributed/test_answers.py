import asyncio

import pytest

from segue.distributed import answers
from segue.distributed.answers import answered
from segue.errors import EngineDied
from tests.distributed.stand_in import StandIn


async def number() -> int:
    await asyncio.sleep(0)
    return 5


async def error() -> int:
    raise KeyError("its own")


def test_what_comes_back_comes_through() -> None:
    llm = StandIn()
    assert asyncio.run(answered(llm, number())) == 5
    with pytest.raises(KeyError):
        asyncio.run(answered(llm, error()))
    llm.errored = True
    assert asyncio.run(answered(llm, number())) == 5  # it was in time


def test_nobody_waits_for_a_dead_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_LOOK_S", 0.001)

    async def main() -> None:
        llm, call = StandIn(), asyncio.get_running_loop().create_future()
        asking = asyncio.ensure_future(answered(llm, call))
        await asyncio.sleep(0)
        llm.errored = True
        with pytest.raises(EngineDied):
            await asking
        assert call.cancelled()

    asyncio.run(main())


def test_who_asks_may_leave() -> None:
    async def main() -> None:
        call = asyncio.get_running_loop().create_future()
        asking = asyncio.ensure_future(answered(StandIn(), call))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert call.cancelled()

    asyncio.run(main())
