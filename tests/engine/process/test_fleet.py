import asyncio
import math
import traceback

import pytest

from segue.engine.process.fleet import Fleet, Member
from segue.engine.process.supervisor import Supervisor
from segue.engine.seam import Engine
from segue.errors import ModelUnavailable, SetupError, Unavailable, UnknownModel
from segue.runners.fake import FakeLoader
from segue.types import CompletionRequest, Failed, ModelChange, ModelInfo, Prompt
from tests.support.fakes import INFO, ScriptedEngine
from tests.support.waiting import PATIENCE_S


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
    with pytest.raises(UnknownModel):
        one.resolve("anything", exact=True)
    assert [one.resolve(name, exact=True) for name in ("", "default", "first")] == ["a"] * 3


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
        await until_unloaded(fleet, "one")
        await fleet.open("one")
        assert started == ["one", "one"]
        await fleet.close()

    asyncio.run(main())


async def until_unloaded(fleet: Fleet, name: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while fleet.loaded(name) is not None:
            await asyncio.sleep(0.02)


def test_what_becomes_of_models_is_told() -> None:
    """Once each, when it is so: who looks then finds what was told."""

    async def main() -> None:
        heard: list[tuple[ModelChange | None, bool, bool]] = []

        def hear(change: ModelChange | None) -> None:
            heard.append((change, fleet.is_loading("one"), fleet.loaded("one") is not None))

        one, _ = member("one")
        fleet = Fleet([one, Member("bad", (), fail)])
        fleet.listen(hear)
        await asyncio.gather(fleet.open("one"), fleet.open("one"))
        with pytest.raises(SetupError):
            await fleet.open("bad")
        fleet.keep("one", 0)
        await until_unloaded(fleet, "one")
        await fleet.close()
        assert heard == [
            (ModelChange("one", "loading"), True, False),
            (ModelChange("one", "ok"), False, True),
            (ModelChange("bad", "loading"), False, True),
            (ModelChange("bad", "idle", failed=True), False, True),
            (ModelChange("one", "idle"), False, False),
            (None, False, False),
        ]

    asyncio.run(main())


async def fail() -> Engine:
    raise SetupError("no such file")


def test_a_client_says_how_long_to_keep_a_model() -> None:
    async def main() -> None:
        one, started = member("one")
        fleet = Fleet([one])
        fleet.keep("one", 0)  # nothing is loaded: nothing to unload, nothing to remember
        engine = await fleet.open("one")
        assert fleet.expires_s("one") is None
        fleet.keep("one", 3600)
        expires_s = fleet.expires_s("one")
        assert expires_s is not None
        assert 3600 - PATIENCE_S < expires_s <= 3600
        fleet.keep("one", math.inf)
        assert fleet.expires_s("one") is None
        assert fleet.loaded("one") is engine
        fleet.keep("one", 0)
        await until_unloaded(fleet, "one")
        await fleet.open("one")
        assert fleet.expires_s("one") is None, "the wish ended with the unload"
        assert started == ["one", "one"]
        await fleet.close()

    asyncio.run(main())


def test_a_wish_is_taken_back_while_a_request_runs() -> None:
    async def main() -> None:
        engine = ScriptedEngine(lambda _: [])
        engine.is_idle = False

        async def start() -> Engine:
            return engine

        fleet = Fleet([Member("one", (), start)])
        await fleet.open("one")
        await fleet.keep_in_all("one", 0)
        assert fleet.expires_s("one") == 0
        await fleet.keep_in_all("one", None)
        engine.is_idle = True
        assert fleet._unloading is not None
        await asyncio.wait([fleet._unloading])  # nothing is left to be watched
        assert fleet.loaded("one") is engine
        await fleet.close()

    asyncio.run(main())


def test_a_running_request_is_never_unloaded_under() -> None:
    async def main() -> None:
        one, _ = member("one")
        fleet = Fleet([one])
        engine = await fleet.open("one")
        prompts = (Prompt(("a",)),)
        request = CompletionRequest(
            request_id="r", model="one", prompts=prompts, max_tokens=None, stop=()
        )
        events = engine.submit(request)
        await anext(events)
        fleet.keep("one", 0)
        async for event in events:
            assert not isinstance(event, Failed)
        await until_unloaded(fleet, "one")
        await fleet.close()

    asyncio.run(main())


class Loads:
    """Starts that end when told to, counted."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.num_begun = 0
        self.num_running = 0
        self.most_at_once = 0

    async def start(self) -> Engine:
        self.num_begun += 1
        self.num_running += 1
        self.most_at_once = max(self.most_at_once, self.num_running)
        try:
            await self.may_end.wait()
        finally:
            self.num_running -= 1
        return ScriptedEngine(lambda _: [])


def test_a_load_belongs_to_the_fleet_not_to_whoever_came_first() -> None:
    async def main() -> None:
        loads = Loads()
        fleet = Fleet([Member("one", (), loads.start)])
        for _ in range(5):  # five clients that do not wait for it
            impatient = asyncio.create_task(fleet.open("one"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            impatient.cancel()
            await asyncio.wait([impatient])
            assert fleet.is_loading("one")
        patient = asyncio.create_task(fleet.open("one"))
        await asyncio.sleep(0)
        loads.may_end.set()
        assert await patient is fleet.loaded("one")
        assert (loads.num_begun, loads.most_at_once) == (1, 1)
        await fleet.close()

    asyncio.run(main())


def test_a_wish_holds_for_a_model_that_is_still_being_loaded() -> None:
    """Whoever asked for it to be unloaded at once may not wait for the load: it stayed loaded for ever."""

    async def main() -> None:
        loads = Loads()
        one = Member("one", (), loads.start)
        fleet = Fleet([one])
        impatient = asyncio.create_task(fleet.open("one"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        impatient.cancel()
        fleet.keep("one", 0)
        loads.may_end.set()
        assert one.loading is not None
        await asyncio.wait([one.loading])
        assert one.failure is None
        await until_unloaded(fleet, "one")
        await fleet.close()

    asyncio.run(main())


def test_a_wish_ends_with_a_load_that_fails() -> None:
    async def main() -> None:
        may_end = asyncio.Event()

        async def start() -> Engine:
            await may_end.wait()
            raise ModelUnavailable("no such file")

        fleet = Fleet([Member("one", (), start)])
        opening = asyncio.create_task(fleet.open("one"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        fleet.keep("one", 0)
        assert fleet.kept_s("one") == 0
        may_end.set()
        await asyncio.wait([opening])
        assert fleet.kept_s("one") is None
        await fleet.close()

    asyncio.run(main())


def test_closing_ends_a_load() -> None:
    async def main() -> None:
        loads = Loads()
        fleet = Fleet([Member("one", (), loads.start)])
        opening = asyncio.create_task(fleet.open("one"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await fleet.close()
        assert loads.num_running == 0
        with pytest.raises(Unavailable, match="shutting down"):
            await opening  # its client is still there, and is told
        with pytest.raises(Unavailable, match="shutting down"):
            await fleet.open("one")
        assert loads.num_begun == 1

    asyncio.run(main())


def test_an_error_of_loading_does_not_grow_with_those_who_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("segue.engine.process.fleet._FIRST_PAUSE_S", 60.0)

    async def main() -> None:
        num_tries = 0

        async def start() -> Engine:
            nonlocal num_tries
            num_tries += 1
            raise ModelUnavailable("no such file")

        fleet = Fleet([Member("one", (), start)])
        lengths = set()
        for _ in range(20):
            with pytest.raises(ModelUnavailable, match="no such file") as raised:
                await fleet.open("one")
            lengths.add(len(traceback.extract_tb(raised.value.__traceback__)))
        assert num_tries == 1, "not tried again with every request"
        assert max(lengths) < 10

    asyncio.run(main())


def test_a_model_is_known_before_it_is_loaded_and_after() -> None:
    async def main() -> None:
        one, started = member("one")
        looked: list[str] = []

        def look() -> ModelInfo:
            looked.append("one")
            return INFO

        one.look = look
        two, _ = member("two")
        fleet = Fleet([one, two], keep_alive_s=0.05)
        assert fleet.known("one") is None
        for _ in range(2):
            await fleet.look()
        assert (fleet.known("one"), fleet.known("two")) == (INFO, None)
        assert (looked, started) == (["one"], [])
        info = (await fleet.open("one")).info
        assert info != INFO
        assert fleet.known("one") == info
        await until_unloaded(fleet, "one")
        assert fleet.known("one") == info
        await fleet.close()

    asyncio.run(main())


def test_a_file_that_cannot_be_read_tells_nothing() -> None:
    def look() -> ModelInfo:
        raise ModelUnavailable("damaged")

    one, _ = member("one")
    one.look = look
    fleet = Fleet([one])
    asyncio.run(fleet.look())
    assert fleet.known("one") is None
