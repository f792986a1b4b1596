import asyncio

import pytest

from segue.engine.fleet import Fleet, Member
from segue.engine.seam import Engine
from segue.engine.supervisor import Supervisor
from segue.errors import UnknownModel
from segue.runners.fake import FakeLoader


def member(name: str, *aliases: str) -> tuple[Member, list[str]]:
    started: list[str] = []

    async def start() -> Engine:
        started.append(name)
        supervisor = Supervisor(FakeLoader(name), 64)
        await supervisor.start()
        return supervisor

    return Member(name, aliases, start), started


def test_names_and_strictness() -> None:
    a, _ = member("a", "first")
    b, _ = member("b")
    one, two = Fleet([a]), Fleet([a, b])
    assert two.names == ["a", "first", "b"]
    assert one._find("anything") is a
    assert two._find("default") is a
    assert two._find("first") is a
    with pytest.raises(UnknownModel, match="served: a, first, b"):
        two._find("c")
    with pytest.raises(UnknownModel):
        Fleet([a], strict=True)._find("anything")


def test_started_once_on_first_use_and_unloaded_when_idle() -> None:
    async def main() -> None:
        one, started = member("one")
        other, other_started = member("other")
        fleet = Fleet([one, other], keep_alive_s=0.2)
        assert fleet.loaded("one") is None
        assert not fleet.is_loading("one")
        opening = asyncio.gather(*(fleet.open("one") for _ in range(5)))
        await asyncio.sleep(0)
        assert fleet.is_loading("one")
        engines = await opening
        assert not fleet.is_loading("one")
        assert len(set(map(id, engines))) == 1
        assert (started, other_started) == (["one"], [])
        async with asyncio.timeout(20):
            while fleet.loaded("one") is not None:
                await asyncio.sleep(0.02)
        await fleet.open("one")
        assert started == ["one", "one"]
        await fleet.close()

    asyncio.run(main())
