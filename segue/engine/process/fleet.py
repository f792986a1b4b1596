"""Several models by name: loaded on first use or at startup, unloaded after a time without use.

A load does not depend on the request that began it: if that request is cancelled, the load goes on, and later requests
wait for the same load.
"""

import asyncio
import contextlib
import copy
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, Protocol

from segue.bounds import MAX_WATCHES
from segue.engine.process.adapter_list import AdapterList
from segue.engine.process.spawning import beside
from segue.engine.seam import Engine
from segue.errors import SetupError, Unavailable, UnknownModel
from segue.types import Adapter, ModelChange, ModelInfo, ServedAdapter

log = logging.getLogger("segue.fleet")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0  # between attempts to load a model that failed to load
_SHORTEST_NAP_S = 0.05
_LONGEST_NAP_S = 5.0


@dataclass
class Member:
    """One served model. `start` gives a ready engine; it is called again after an unload."""

    name: str
    aliases: tuple[str, ...]
    start: Callable[[], Awaitable[Engine]]
    adapters: AdapterList = field(default_factory=AdapterList)
    _: KW_ONLY
    look: Callable[[], ModelInfo | None] | None = None  # what its file says, without loading it
    known: ModelInfo | None = None  # while it is not up: from its file, or from when it was
    engine: Engine | None = None
    loading: asyncio.Task[None] | None = None
    used_at: float = 0.0
    failure: Exception | None = None  # why it could not be started the last time
    retry_at: float = 0.0
    pause_s: float = 0.0
    keep_s: float | None = None  # keep-alive asked for by a client, from a load to the unload

    def leave(self) -> None:
        """It is no longer up; what it was is still known."""
        if self.engine is not None:
            self.known = self.engine.info
        self.engine, self.keep_s = None, None


class Others(Protocol):
    """The other processes that use the models of this one."""

    def opening(self, name: str) -> None:
        """It is being started, or stays: they should attach to it too."""

    async def idle_s(self, name: str) -> float:
        """Seconds since its last use by any of them; negative while it is in use."""

    async def leave(self, name: str, idle_s: float) -> bool:
        """Have all of them leave it, unless one used it less than `idle_s` ago."""


Heard = Callable[[ModelChange | None], None]
"""Called with a change; with None once nothing more will come."""


class Fleet:
    def __init__(
        self, members: list[Member], keep_alive_s: float | None = None, strict: bool = False
    ) -> None:
        self._members = members
        self._by_name = {n: m for m in reversed(members) for n in _names(m)}
        self._keep_alive_s = math.inf if keep_alive_s is None else keep_alive_s
        self._strict = strict
        self._unloading: asyncio.Task[None] | None = None
        self._is_closing = False
        self._changed = asyncio.Event()
        self.others: Others | None = None
        self._listeners = Listeners()

    @property
    def names(self) -> list[str]:
        return [name for m in self._members for name in _names(m)]

    @property
    def members(self) -> list[str]:
        return [member.name for member in self._members]

    def resolve(self, name: str, exact: bool = False) -> str:
        return self._find(name, exact).name

    async def open(self, name: str) -> Engine:
        member = self._find(name)
        while (engine := member.engine) is None:
            await self._load(member)
        member.used_at = time.monotonic()
        self._watch()
        return engine

    async def _load(self, member: Member) -> None:
        """Wait for the load of the model; start it if none runs. An error is raised in every request that waits."""
        if self._is_closing:
            raise Unavailable("the server is shutting down")
        # A model that cannot be loaded is not tried again with every request for it.
        is_due = member.failure is None or time.monotonic() >= member.retry_at
        if member.loading is None and is_due:
            member.loading = asyncio.create_task(self._start(member))
            self._listeners.tell(ModelChange(member.name, "loading"))
            if self.others is not None:
                self.others.opening(member.name)
        if member.loading is not None:
            await asyncio.wait([member.loading])  # which goes on if this request is cancelled
        if member.failure is not None:
            # Raise a copy per request: one exception raised many times would collect every traceback.
            raise copy.copy(member.failure)

    async def _start(self, member: Member) -> None:
        try:
            member.engine = await member.start()
        except Exception as error:
            if isinstance(error, SetupError):
                member.pause_s = min(max(member.pause_s * 2, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            member.retry_at = time.monotonic() + member.pause_s
            member.failure, member.keep_s = error.with_traceback(None), None
        else:
            member.failure, member.pause_s, member.used_at = None, 0.0, time.monotonic()
        finally:
            member.loading = None
        status: Literal["ok", "idle"] = "ok" if member.engine else "idle"
        self._listeners.tell(ModelChange(member.name, status, failed=member.engine is None))

    def _leave(self, member: Member) -> None:
        """It is no longer up."""
        was_up = member.engine is not None
        member.leave()
        if was_up:
            self._listeners.tell(ModelChange(member.name, "idle"))

    def listen(self, heard: Heard) -> Callable[[], None]:
        return self._listeners.add(heard)

    def loaded(self, name: str) -> Engine | None:
        return self._find(name).engine

    async def look(self) -> None:
        """Read what can be told of models that are not up. A file that is damaged is told when it is loaded."""
        for member in self._members:
            if member.look is not None and member.engine is None and member.known is None:
                with contextlib.suppress(SetupError):
                    member.known = await beside(member.look)

    def known(self, name: str) -> ModelInfo | None:
        member = self._find(name)
        return member.known if member.engine is None else member.engine.info

    def is_loading(self, name: str) -> bool:
        member = self._find(name)
        return member.loading is not None

    def keep(self, name: str, seconds: float | None) -> None:
        member = self._find(name)
        if member.engine is not None or member.loading is not None:
            member.keep_s = seconds
            member.used_at = time.monotonic()
            self._changed.set()
            self._watch()

    async def keep_in_all(self, name: str, seconds: float | None) -> None:
        self.keep(name, seconds)

    def kept_s(self, name: str) -> float | None:
        """How long a client wants it kept without use; None: no client said."""
        return self._find(name).keep_s

    def expires_s(self, name: str) -> float | None:
        member = self._find(name)
        if member.engine is None or self._keep_s(member) == math.inf:
            return None
        return max(0.0, member.used_at + self._keep_s(member) - time.monotonic())

    def adapters(self, name: str) -> list[ServedAdapter]:
        return self._find(name).adapters.served

    def settle_adapters(
        self, name: str, wanted: tuple[Adapter, ...] | None, param: str = "lora"
    ) -> tuple[Adapter, ...]:
        return self._find(name).adapters.settle(name, wanted, param)

    async def apply_adapters(self, name: str, wanted: tuple[Adapter, ...]) -> None:
        self._find(name).adapters.apply(wanted)

    async def close(self, drain_s: float = 0.0) -> None:
        """Refuse whoever waits for a load, or would begin one; the engines of the others drain."""
        self._is_closing = True
        self._listeners.end()
        if self._unloading is not None:
            self._unloading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._unloading
        loads = [member.loading for member in self._members if member.loading is not None]
        for load in loads:
            load.cancel()
        await asyncio.gather(*loads, return_exceptions=True)
        engines = [m.engine for m in self._members if m.engine is not None]
        await asyncio.gather(*(engine.close(drain_s) for engine in engines))

    def _find(self, name: str, exact: bool = False) -> Member:
        """The model with this name, alias or adapter. With a single choice and no strict names, any name finds it."""
        member = self._by_name.get(name)
        if member is not None:
            return member
        is_only = len(self._members) == 1 and not self._members[0].adapters.has_choice
        is_free = is_only and not (self._strict or exact)
        if name in ("", "default") or is_free:
            return self._members[0]
        served = ", ".join(self.names)
        raise UnknownModel(f"model {name!r} not found; served: {served}", "model")

    # --- unloading --------------------------------------------------------------------------------

    def _keep_s(self, member: Member) -> float:
        return self._keep_alive_s if member.keep_s is None else member.keep_s

    def _watch(self) -> None:
        if self._unloading is None or self._unloading.done():
            self._unloading = asyncio.create_task(self._unload_idle())

    async def _unload_idle(self) -> None:
        """Unload idle models, for as long as any model has a finite keep-alive."""
        while (shortest := min(map(self._keep_s, self._members))) != math.inf:
            self._changed.clear()
            for member in self._members:
                await self._unload_if_idle(member)
            nap_s = min(max(shortest / 4, _SHORTEST_NAP_S), _LONGEST_NAP_S)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), nap_s)

    async def _unload_if_idle(self, member: Member) -> None:
        engine, keep_s = member.engine, self._keep_s(member)
        if engine is None or keep_s == math.inf:
            return
        others_idle_s = math.inf if self.others is None else await self.others.idle_s(member.name)
        if others_idle_s < 0 or not engine.is_idle:
            member.used_at = time.monotonic()
            return
        member.used_at = max(member.used_at, time.monotonic() - others_idle_s)
        if time.monotonic() - member.used_at < keep_s or not await self._others_left(
            member, keep_s
        ):
            return
        # No await since the last check, so no request can have arrived in between.
        self._leave(member)
        log.info("unloading %s: unused for %.0f s", member.name, keep_s)
        await engine.close()

    async def _others_left(self, member: Member, keep_s: float) -> bool:
        """Whether no other process uses the model any more. If one does, all go on with it."""
        if self.others is None:
            return True
        used_at = member.used_at
        if await self.others.leave(member.name, keep_s) and member.used_at == used_at:
            return True
        self.others.opening(member.name)
        return False


def _names(member: Member) -> tuple[str, ...]:
    return (member.name, *member.aliases, *member.adapters.names)


class Listeners:
    """Those who are told what becomes of models."""

    def __init__(self) -> None:
        self._all: dict[object, Heard] = {}
        self._is_over = False

    def add(self, heard: Heard) -> Callable[[], None]:
        """What is to be called once it need not be told any more. Raises Unavailable: there are too many."""
        if len(self._all) >= MAX_WATCHES:
            raise Unavailable(f"{MAX_WATCHES} clients are told of models already; no more are.")
        if self._is_over:
            heard(None)
            return lambda: None
        place = object()
        self._all[place] = heard

        def leave() -> None:
            self._all.pop(place, None)

        return leave

    @property
    def are_there(self) -> bool:
        return bool(self._all)

    def tell(self, change: ModelChange) -> None:
        for heard in list(self._all.values()):
            heard(change)

    def end(self) -> None:
        self._is_over = True
        for heard in list(self._all.values()):
            heard(None)
        self._all.clear()
