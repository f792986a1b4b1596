"""The parent and its processes, here as tasks of one program: what holds for one holds for all."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from multiprocessing.process import BaseProcess
from typing import Any, cast

import pytest

from segue.engine.process.adapter_list import AdapterList
from segue.engine.process.client import OnCrash
from segue.engine.process.fleet import Fleet, Member
from segue.engine.seam import Engine
from segue.errors import InvalidField, ModelUnavailable, SetupError
from segue.processes import messages
from segue.processes.channel import Channel
from segue.processes.parent import Parent, Plan
from segue.processes.shared_fleet import SharedFleet
from segue.server.transport.listen import bind
from segue.types import Adapter, ModelChange, ServedAdapter
from tests.support.fakes import ScriptedEngine
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "send_fds"), reason="connections cannot be passed on here"
)


class Process:
    """In place of a BaseProcess: its body is a task of the test's own loop."""

    def __init__(self, group: "Group", number: int, control: socket.socket) -> None:
        self.group = group
        self.number = number
        self.control = control.dup()
        self.pid: int | None = None
        self.exitcode: int | None = None
        self.loop = asyncio.get_running_loop()
        self.fleet: SharedFleet | None = None
        self.is_stopped = asyncio.Event()
        self.is_up = asyncio.Event()
        self.is_hung = False

    def start(self) -> None:
        self.pid = 1000 + len(self.group.processes)
        self.body = asyncio.run_coroutine_threadsafe(self._main(), self.loop)

    async def _main(self) -> None:
        if self.group.is_broken:
            self.control.close()
            self.exitcode = 3
            return
        self.channel = await Channel.over(self.control, self._answer)
        self.fleet = SharedFleet(
            self.group.members(),
            self.group.keep_alive_s,
            False,
            attach=self._attach,
            call=self.channel.call,
        )
        serving = asyncio.create_task(self.channel.serve())
        await self.channel.call(messages.Started())
        self.is_up.set()
        await asyncio.wait(
            [serving, asyncio.create_task(self.is_stopped.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        await self.fleet.close()
        self.exitcode = self.exitcode or 0
        serving.cancel()

    async def _answer(self, message: messages.Message) -> messages.Answer:
        if isinstance(message, messages.Stop):
            self.is_stopped.set()
            return None
        if isinstance(message, messages.Ping) and self.is_hung:
            await asyncio.Event().wait()
        assert self.fleet is not None
        return await self.fleet.answer(message)

    async def _attach(self, address: str, on_crash: OnCrash) -> Engine:
        assert address == "socket of tiny"
        self.on_crash = on_crash
        return ScriptedEngine(lambda _: [])

    def die(self) -> None:
        self.exitcode = -9
        self.is_stopped.set()

    def join(self, timeout: float | None = None) -> None:
        self.body.result(timeout)

    def is_alive(self) -> bool:
        return not self.body.done()

    def kill(self) -> None:
        self.group.killed.append(self.number)
        self.loop.call_soon_threadsafe(self.die)


class Group:
    def __init__(self, keep_alive_s: float | None = None, hang_s: float = 600.0) -> None:
        self.keep_alive_s = keep_alive_s
        self.is_broken = False
        self.processes: list[Process] = []
        self.forgotten: list[int] = []
        self.killed: list[int] = []
        self.may_load = asyncio.Event()
        self.may_load.set()
        self.load_error: Exception | None = None
        self.num_loads = 0
        self.fleet = Fleet(self.members(), keep_alive_s)
        plan = Plan(
            num_processes=2,
            spawn=lambda number, control, source: cast("BaseProcess", self._spawn(number, control)),
            addresses={"tiny": "socket of tiny"},
            forget=self.forgotten.append,
            drain_s=0.0,
            hang_s=hang_s,
        )
        self.parent = Parent(self.fleet, bind("127.0.0.1", 0), plan)

    def members(self) -> list[Member]:
        adapters = AdapterList([ServedAdapter("a", "a.gguf"), ServedAdapter("b", "b.gguf")])
        return [Member("tiny", (), self._load, adapters)]

    async def _load(self) -> Engine:
        self.num_loads += 1
        await self.may_load.wait()
        if self.load_error is not None:
            raise self.load_error
        return ScriptedEngine(lambda _: [])

    def _spawn(self, number: int, control: socket.socket) -> Process:
        self.processes.append(Process(self, number, control))
        return self.processes[-1]

    @property
    def fleets(self) -> list[SharedFleet]:
        """Of living processes, by number."""
        alive = [each for each in self.processes if not each.is_stopped.is_set()]
        return [each.fleet for each in sorted(alive, key=lambda p: p.number) if each.fleet]


@contextlib.asynccontextmanager
async def running(keep_alive_s: float | None = None, hang_s: float = 600.0) -> AsyncIterator[Group]:
    group = Group(keep_alive_s, hang_s)
    group.parent.start()
    async with asyncio.timeout(PATIENCE_S):
        await group.parent.is_up.wait()
        yield group
        await group.parent.stop()


async def until(is_so: Callable[[], Any]) -> None:
    while not is_so():
        await asyncio.sleep(0.005)


def applied(fleet: Fleet) -> list[float]:
    return [adapter.applied for adapter in fleet.adapters("tiny")]


def test_a_model_that_one_opens_is_up_in_all() -> None:
    async def main() -> None:
        async with running() as group:
            one, two = group.fleets
            group.may_load.clear()
            opening = asyncio.create_task(one.open("tiny"))
            await until(lambda: two.is_loading("tiny"))
            assert group.fleet.is_loading("tiny")
            assert two.loaded("tiny") is None
            group.may_load.set()
            await opening
            await until(lambda: two.loaded("tiny"))
            assert group.num_loads == 1

    asyncio.run(main())


def test_why_a_load_failed_is_raised_where_it_was_asked_for() -> None:
    async def main() -> None:
        async with running() as group:
            group.load_error = ModelUnavailable("no such file")
            with pytest.raises(ModelUnavailable, match="no such file"):
                await group.fleets[1].open("tiny")

    asyncio.run(main())


def test_adapters_are_applied_in_all_when_the_call_returns() -> None:
    async def main() -> None:
        async with running() as group:
            one, two = group.fleets
            await one.apply_adapters("tiny", (Adapter("a", 0.5),))
            assert applied(one) == applied(two) == applied(group.fleet) == [0.5, 0.0]
            with pytest.raises(InvalidField, match="no adapter 7"):
                await two.apply_adapters("tiny", (Adapter(7, 1.0),))
            assert applied(two) == [0.5, 0.0]

    asyncio.run(main())


def test_a_process_that_ended_comes_again_and_knows_what_the_others_know() -> None:
    async def main() -> None:
        async with running() as group:
            await group.fleets[0].open("tiny")
            await group.fleets[0].apply_adapters("tiny", (Adapter("b", 2.0),))
            group.fleets[0].keep("tiny", 3600.0)
            await until(lambda: all(fleet.expires_s("tiny") for fleet in group.fleets))
            group.processes[1].die()
            await until(lambda: len(group.processes) == 3)
            await group.processes[2].is_up.wait()
            again = group.processes[2].fleet
            assert again is not None
            assert group.forgotten == [1]
            assert applied(again) == [0.0, 2.0]
            await until(lambda: again.loaded("tiny"))
            assert 3500 < (again.expires_s("tiny") or 0) <= 3600

    asyncio.run(main())


def test_a_model_is_unloaded_once_no_process_uses_it() -> None:
    async def main() -> None:
        async with running() as group:
            one, two = group.fleets
            heard: list[ModelChange | None] = []
            two.listen(heard.append)
            await one.open("tiny")
            await until(lambda: two.loaded("tiny"))
            busy = cast("Any", two.loaded("tiny"))
            busy.is_idle = False
            one.keep("tiny", 0.0)  # as a client of the first process asks
            await until(lambda: two.expires_s("tiny") is not None)
            for _ in range(3):  # asked again and again, it stays while the second is at work
                assert (await group.parent.idle_s("tiny")) < 0
                assert group.fleet.loaded("tiny") is not None
            busy.is_idle = True
            await until(lambda: group.fleet.loaded("tiny") is None)
            assert one.loaded("tiny") is None
            assert two.loaded("tiny") is None
            assert heard == [ModelChange("tiny", status) for status in ("loading", "ok", "idle")]
            await two.open("tiny")
            assert group.num_loads == 2
            assert two.expires_s("tiny") is None, "the wish ended with the unload"

    asyncio.run(main())


def test_an_unload_that_waits_is_known_to_all_and_taken_back_by_any() -> None:
    """A load that another process was asked for right after was refused, or answered by a model that then went."""

    async def main() -> None:
        async with running() as group:
            one, two = group.fleets
            await one.open("tiny")
            await until(lambda: two.loaded("tiny"))
            busy = cast("Any", one.loaded("tiny"))
            busy.is_idle = False
            await one.keep_in_all("tiny", 0)
            assert (one.expires_s("tiny"), two.expires_s("tiny")) == (0, 0)
            await two.keep_in_all("tiny", None)
            assert (one.expires_s("tiny"), two.expires_s("tiny")) == (None, None)
            assert group.fleet.kept_s("tiny") is None
            busy.is_idle = True
            watching = group.fleet._unloading
            assert watching is not None
            await asyncio.wait([watching])  # nothing is left to be watched
            assert two.loaded("tiny") is not None
            assert group.num_loads == 1

    asyncio.run(main())


def test_a_process_that_just_used_a_model_keeps_it_for_all() -> None:
    """It is asked a second time before it is unloaded: a use in between is seen."""

    async def main() -> None:
        async with running() as group:
            one, two = group.fleets
            await one.open("tiny")
            await until(lambda: two.loaded("tiny"))
            assert not await group.parent.leave("tiny", 1000.0)
            assert one.loaded("tiny") is not None
            two._find("tiny").used_at -= 2000
            # The second leaves, the first does not.
            assert not await group.parent.leave("tiny", 1000.0)
            assert two.loaded("tiny") is None
            group.parent.opening("tiny")
            await until(lambda: two.loaded("tiny"))

    asyncio.run(main())


def test_the_last_use_by_any_process_counts() -> None:
    async def main() -> None:
        async with running(keep_alive_s=1000.0) as group:
            one, two = group.fleets
            await one.open("tiny")
            await until(lambda: two.loaded("tiny"))
            # Both have also answered that they opened it, which counts as a use.
            await until(lambda: not group.parent._telling)
            two._find("tiny").used_at -= 500
            one._find("tiny").used_at -= 100
            assert 100 <= await group.parent.idle_s("tiny") < 160
            await group.parent.idle_s("tiny")  # tells them what was found
            for fleet in (one, two):
                assert 840 < (fleet.expires_s("tiny") or 0) <= 900

    asyncio.run(main())


def test_a_request_that_crashes_the_worker_in_one_process_and_then_another_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with running() as group:
            for fleet in group.fleets:
                await fleet.open("tiny")
            one, two = group.processes
            one.on_crash(0, {"first": b"same", "other": b"else"})
            two.on_crash(0, {})
            await group.parent.idle_s("tiny")  # their answers come after what they told before
            one.on_crash(1, {})
            two.on_crash(1, {"again": b"same"})
            await until(lambda: caplog.messages)
        assert caplog.messages == ["request again was running at two crashes in a row"]

    caplog.set_level("ERROR", "segue.supervisor")
    asyncio.run(main())


class SteadyLoop(asyncio.SelectorEventLoop):
    """Its clock does not leap when the machine stands still: nobody seems to hang for that reason."""

    def __init__(self) -> None:
        self._now, self._seen = 0.0, time.monotonic()
        super().__init__()

    def time(self) -> float:
        before, self._seen = self._seen, time.monotonic()
        self._now += min(self._seen - before, 0.001)
        return self._now


def test_a_process_that_hangs_is_ended_and_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segue.processes.parent.PING_S", 0.01)

    async def main() -> None:
        async with running(hang_s=0.2) as group:
            group.processes[0].is_hung = True
            await until(lambda: len(group.processes) == 3)
            await group.processes[2].is_up.wait()
            assert group.killed == [0]
            assert group.processes[2].number == 0

    with asyncio.Runner(loop_factory=SteadyLoop) as runner:
        runner.run(main())


def test_processes_that_do_not_come_up_are_a_failure_of_the_start() -> None:
    async def main() -> None:
        group = Group()
        group.is_broken = True
        group.parent.start()
        with pytest.raises(SetupError, match="ended with exit code 3 at its start"):
            await asyncio.wait_for(group.parent.failure, PATIENCE_S)
        await group.parent.stop()

    asyncio.run(main())
