"""The models as one of several server processes sees them: the parent starts and unloads them, for all.

Which models there are is known from the settings. An engine is attached to once the parent has started it.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable

from segue.engine.process.client import OnCrash
from segue.engine.process.fleet import Fleet, Member
from segue.engine.seam import Engine
from segue.errors import EngineFault
from segue.processes import messages
from segue.processes.messages import BUSY, Answer, Message
from segue.types import Adapter

Attach = Callable[[str, OnCrash], Awaitable[Engine]]
"""An engine at the address that the parent gave, once it is ready; and whom to tell of crashes."""


class SharedFleet(Fleet):
    def __init__(
        self,
        members: list[Member],
        keep_alive_s: float | None,
        strict: bool,
        *,
        attach: Attach,
        call: Callable[[Message], Awaitable[Answer]],
    ) -> None:
        """`members`: as the parent has them; `call`: of the parent."""
        super().__init__(members, keep_alive_s, strict)
        self._attach = attach
        self._call = call
        self._telling: set[asyncio.Future[Answer]] = set()
        self._used_elsewhere: dict[str, float] = {}
        for member in members:
            member.start = self._starter(member.name)

    def _starter(self, name: str) -> Callable[[], Awaitable[Engine]]:
        async def start() -> Engine:
            address = await self._call(messages.Open(name))

            def tell(worker: int, running: dict[str, bytes]) -> None:
                self._tell(messages.Crashed(name, worker, running))

            return await self._attach(str(address), tell)

        return start

    def keep(self, name: str, seconds: float | None) -> None:
        self._tell(messages.Keep(self.resolve(name), seconds))

    async def keep_in_all(self, name: str, seconds: float | None) -> None:
        await self._call(messages.Keep(self.resolve(name), seconds))

    def _tell(self, message: Message) -> None:
        """Tell the parent without waiting for it."""
        telling = asyncio.ensure_future(self._call(message))
        self._telling.add(telling)
        telling.add_done_callback(self._told)

    def _told(self, telling: "asyncio.Future[Answer]") -> None:
        self._telling.discard(telling)
        if not telling.cancelled():
            telling.exception()  # the parent is gone, and this process ends

    async def apply_adapters(self, name: str, wanted: tuple[Adapter, ...]) -> None:
        await self._call(messages.Apply(self.resolve(name), wanted))

    def _watch(self) -> None:
        """Nothing is unloaded here unless the parent says so."""

    def expires_s(self, name: str) -> float | None:
        member = self._find(name)
        if member.engine is None or self._keep_s(member) == math.inf:
            return None
        used_at = max(member.used_at, self._used_elsewhere.get(member.name, 0.0))
        return max(0.0, used_at + self._keep_s(member) - time.monotonic())

    async def answer(self, message: Message) -> Answer:
        """What the parent asks."""
        match message:
            case messages.Opening(model):
                await self.open(model)
            case messages.LastUse(model, ago_s):
                self._used_elsewhere[model] = time.monotonic() - ago_s
                return _idle_s(self._find(model))
            case messages.Unload(model, idle_s):
                return await self._give_up(self._find(model), idle_s)
            case messages.Kept(model, seconds):
                self._find(model).keep_s = seconds
            case messages.Applied(model, adapters):
                self._find(model).adapters.apply(adapters)
            case messages.Ping():
                pass
            case _:
                raise EngineFault("a server process does not answer that")
        return None

    async def _give_up(self, member: Member, idle_s: float) -> float:
        if _idle_s(member) < idle_s:
            return BUSY
        # No await since the check above, so no request can have arrived in between.
        engine = member.engine
        self._leave(member)
        if engine is not None:
            await engine.close()
        return 0.0


def _idle_s(member: Member) -> float:
    """Seconds since its last use in this process; BUSY while it is in use."""
    if member.loading is not None or (member.engine is not None and not member.engine.is_idle):
        return BUSY
    return time.monotonic() - member.used_at
