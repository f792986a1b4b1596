"""Several models by name: started on first use or before, unloaded when nobody used them for a while."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from segue.engine.seam import Engine
from segue.errors import SegueError, UnknownModel

log = logging.getLogger("segue.fleet")


@dataclass
class Member:
    """One served model. `start` gives a ready engine; it is called again after an unload."""

    name: str
    aliases: tuple[str, ...]
    start: Callable[[], Awaitable[Engine]]
    engine: Engine | None = None
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    used_at: float = 0.0


class Fleet:
    def __init__(
        self, members: list[Member], keep_alive_s: float | None = None, strict: bool = False
    ) -> None:
        self._members = members
        self._by_name = {n: m for m in reversed(members) for n in (m.name, *m.aliases)}
        self._keep_alive_s = keep_alive_s
        self._strict = strict
        self._unloading: asyncio.Task[None] | None = None

    @property
    def names(self) -> list[str]:
        return [name for m in self._members for name in (m.name, *m.aliases)]

    @property
    def members(self) -> list[str]:
        return [member.name for member in self._members]

    def resolve(self, name: str) -> str:
        return self._find(name).name

    async def open(self, name: str) -> Engine:
        member = self._find(name)
        async with member.starting:
            if member.engine is None:
                member.engine = await member.start()
            member.used_at = time.monotonic()
        self._watch()
        return member.engine

    def loaded(self, name: str) -> Engine | None:
        return self._find(name).engine

    def is_loading(self, name: str) -> bool:
        member = self._find(name)
        return member.engine is None and member.starting.locked()

    async def close(self, drain_s: float = 0.0) -> None:
        if self._unloading is not None:
            self._unloading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._unloading
        engines = [m.engine for m in self._members if m.engine is not None]
        await asyncio.gather(*(engine.close(drain_s) for engine in engines))

    def _find(self, name: str) -> Member:
        """A served name or alias; any name at all where there is one model and no strictness."""
        member = self._by_name.get(name)
        if member is not None:
            return member
        if name in ("", "default") or (len(self._members) == 1 and not self._strict):
            return self._members[0]
        served = ", ".join(self.names)
        raise UnknownModel(f"there is no model {name!r} here; served: {served}", "model")

    def _watch(self) -> None:
        if self._keep_alive_s is not None and self._unloading is None:
            self._unloading = asyncio.create_task(self._unload_idle(self._keep_alive_s))

    async def _unload_idle(self, keep_alive_s: float) -> None:
        while True:
            await asyncio.sleep(min(max(keep_alive_s / 4, 0.05), 5.0))
            for member in self._members:
                await self._unload_if_idle(member, keep_alive_s)

    async def _unload_if_idle(self, member: Member, keep_alive_s: float) -> None:
        engine = member.engine
        if engine is None:
            return
        try:
            stats = await engine.stats()
        except SegueError:
            return  # it is just restarting
        if stats.running or stats.waiting:
            member.used_at = time.monotonic()
        if time.monotonic() - member.used_at >= keep_alive_s and not member.starting.locked():
            async with member.starting:
                member.engine = None
            log.info("unloading %s: unused for %.0f s", member.name, keep_alive_s)
            await engine.close()
