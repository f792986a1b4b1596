"""The parent of several server processes: owns models and listening socket, and starts processes again that ended.

What holds for the whole server is decided here and told to all: which models are up, for how long they stay, and which
adapters are applied.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess

from segue.engine.process.fleet import Fleet
from segue.engine.process.spawning import beside, ending, reap, start_apart
from segue.engine.process.supervisor import next_pause
from segue.engine.process.suspects import Suspects
from segue.errors import EngineFault, SegueError, SetupError
from segue.processes import messages
from segue.processes.channel import Channel
from segue.processes.handover import Acceptor
from segue.processes.messages import BUSY, Answer, Message
from segue.types import Adapter

log = logging.getLogger("segue.processes")

PING_S = 1.0
_REPLY_S = 10.0  # a process that takes longer to answer is not waited for
_LAST_S = 10.0  # after the drain; what has not ended by then is killed


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the parent cannot know by itself."""

    num_processes: int
    spawn: Callable[[int, socket.socket, socket.socket], BaseProcess]
    """A process, not started yet, from its number, the channel to this one, and where connections come from."""
    addresses: dict[str, str]  # of engines, by model
    forget: Callable[[int], None]  # called with the number of a process that has ended
    drain_s: float
    hang_s: float  # a process that answers nothing for so long is ended


class Parent:
    """Implements engine.process.fleet.Others."""

    def __init__(self, fleet: Fleet, listener: socket.socket, plan: Plan) -> None:
        self._fleet = fleet
        self._plan = plan
        self._dealer = Acceptor(listener)
        self._channels: dict[int, Channel] = {}
        self._supervisions: list[asyncio.Task[None]] = []
        self._telling: set[asyncio.Task[Answer]] = set()
        self._is_stopping = asyncio.Event()
        self._num_started = 0
        self.is_up = asyncio.Event()  # all processes were up at once, at the start
        self._suspects: defaultdict[str, Suspects] = defaultdict(Suspects)  # by model
        self._idle_s: dict[str, float] = {}  # by model, when the processes were last asked
        self._starting: dict[int, BaseProcess] = {}  # by number; they have no connections yet
        self.pids: dict[int, int] = {}  # of living processes, by number
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        fleet.others = self

    def start(self) -> None:
        """Start the processes. `failure` has the reason if one does not come up twice, and none has."""
        numbers = range(self._plan.num_processes)
        self._supervisions = [asyncio.create_task(self._supervise(number)) for number in numbers]

    async def stop(self) -> None:
        """Let every process drain and end, then the models. A second call shortens the drain."""
        is_first = not self._is_stopping.is_set()
        self._is_stopping.set()
        if is_first:
            self._dealer.close()
        for process in self._starting.values():
            process.kill()
        await self._tell(messages.Stop())
        if is_first and self._supervisions:
            _, late = await asyncio.wait(self._supervisions, timeout=self._plan.drain_s + _LAST_S)
            for supervision in late:
                supervision.cancel()
            await asyncio.gather(*self._supervisions, return_exceptions=True)
            await self._fleet.close()

    # --- one process after another, for each number -------------------------------------------------

    async def _supervise(self, number: int) -> None:
        pause_s, is_first = 0.0, True
        while not self._is_stopping.is_set():
            begun, num_started = time.monotonic(), self._num_started
            how = f"server process {number + 1} "
            try:
                how += ending((await self._run_process(number)).exitcode)
            except Exception as error:  # of starting it
                how += f"could not be started ({error})"
            self._plan.forget(number)
            if self._is_stopping.is_set():
                return
            has_started = self._num_started > num_started
            if not (is_first or self._num_started or self.failure.done()):
                self.failure.set_exception(SetupError(f"{how} at its start"))
                return
            is_first = False
            pause_s = next_pause(pause_s, time.monotonic() - begun, has_started)
            log.error("%s; it is started again in %.1f s", how, pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_stopping.wait(), pause_s)

    async def _run_process(self, number: int) -> BaseProcess:
        ours, theirs = socket.socketpair()
        taker, source = socket.socketpair()
        process = self._plan.spawn(number, theirs, source)
        try:
            await beside(lambda: start_apart(process, self._plan))
            theirs.close()
            source.close()
            channel = await Channel.over(
                ours, lambda message: self._answer(number, taker, channel, message)
            )
            self._starting[number], self.pids[number] = process, process.pid or 0
            log.info("server process %d has the id %d", number + 1, process.pid)
            if self._is_stopping.is_set():
                process.kill()
            watching = asyncio.create_task(self._watch(channel, process, number))
            try:
                await channel.serve()
            finally:
                watching.cancel()
        finally:
            for numbered in (self._channels, self._starting, self.pids):
                numbered.pop(number, None)
            self._dealer.remove(taker)
            for sock in (ours, theirs, taker, source):
                sock.close()
            await beside(lambda: reap(process))
        return process

    async def _watch(self, channel: Channel, process: BaseProcess, number: int) -> None:
        """Kill the process if its event loop hangs: connections handed to it would hang too."""
        with contextlib.suppress(SegueError):
            while True:
                await asyncio.sleep(PING_S)
                if number in self._starting:
                    continue
                try:
                    await asyncio.wait_for(channel.call(messages.Ping()), self._plan.hang_s)
                except TimeoutError:
                    log.error("server process %d does not answer: ended", number + 1)
                    process.kill()
                    return

    # --- what a process asks ------------------------------------------------------------------------

    async def _answer(
        self, number: int, taker: socket.socket, channel: Channel, message: Message
    ) -> Answer:
        match message:
            case messages.Started():
                self._starting.pop(number, None)
                self._channels[number] = channel
                await self._inform(channel)
                self._num_started += 1
                if self._num_started >= self._plan.num_processes:
                    self.is_up.set()
                self._dealer.add(taker)
                if self._is_stopping.is_set():
                    await channel.call(messages.Stop())
            case messages.Open(model):
                await self._fleet.open(model)
                return self._plan.addresses[model]
            case messages.Keep(model, seconds):
                if self._fleet.loaded(model) is not None or self._fleet.is_loading(model):
                    self._fleet.keep(model, seconds)
                    await self._tell(messages.Kept(model, seconds))
            case messages.Apply(model, adapters):
                await self._fleet.apply_adapters(model, adapters)
                await self._tell(messages.Applied(model, adapters))
            case messages.Crashed(model, worker, running):
                self._suspects[model].crashed(worker, running)
            case _:
                raise EngineFault("the parent does not answer that")
        return None

    async def _inform(self, channel: Channel) -> None:
        """Tell a process that begins what the others know."""
        for name in self._fleet.members:
            applied = tuple(
                Adapter(number, adapter.applied)
                for number, adapter in enumerate(self._fleet.adapters(name))
            )
            if applied:
                await channel.call(messages.Applied(name, applied))
            await channel.call(messages.Kept(name, self._fleet.kept_s(name)))
            if self._fleet.loaded(name) is not None or self._fleet.is_loading(name):
                self._have_opened(name, [channel])

    # --- what all are asked -------------------------------------------------------------------------

    def opening(self, name: str) -> None:
        self._have_opened(name, list(self._channels.values()))

    def _have_opened(self, name: str, channels: list[Channel]) -> None:
        for channel in channels:
            task = asyncio.create_task(_ask(channel, messages.Opening(name), None))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def idle_s(self, name: str) -> float:
        answers = await self._tell(messages.LastUse(name, self._idle_s.get(name, 0.0)))
        times = [answer for answer in answers if isinstance(answer, float)]
        self._idle_s[name] = max(min(times, default=0.0), 0.0)
        return min(times, default=0.0)

    async def leave(self, name: str, idle_s: float) -> bool:
        return BUSY not in await self._tell(messages.Unload(name, idle_s))

    async def _tell(self, message: Message) -> list[Answer]:
        """The answers of the processes; None of one that gave none."""
        channels = list(self._channels.values())
        return await asyncio.gather(*(_ask(channel, message, _REPLY_S) for channel in channels))


async def _ask(channel: Channel, message: Message, wait_s: float | None) -> Answer:
    with contextlib.suppress(SegueError, TimeoutError):
        return await asyncio.wait_for(channel.call(message), wait_s)
    return None
