"""What endpoints need of the served models."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from segue import fingerprint
from segue.bounds import LARGE_ANSWER_ITEMS
from segue.dialects.base import Call, Card, StreamFacts
from segue.dialects.fields.defaults import Defaults
from segue.engine.seam import Engine, Models
from segue.errors import Forbidden, SegueError, SetupError, Unavailable
from segue.server.framing import encode
from segue.server.kept_streams import KeptStreams, Reader
from segue.server.model_watch import ModelWatch
from segue.types import (
    Adapter,
    CompletionRequest,
    ModelInfo,
    Served,
    ServedAdapter,
    SlotAction,
    SlotResult,
    Stats,
)

log = logging.getLogger(__name__)

LOOK_S = 2.0  # what slots hold is told between two steps, and a page does not wait for a long one

T = TypeVar("T")

LOAD_RETRY_S = 10.0


async def open_engine(models: Models, name: str) -> Engine:
    """The engine of the model. Why a load failed is logged, not sent: the reason may name local files."""
    try:
        return await models.open(name)
    except SetupError as error:
        log.error("the model %s cannot be loaded: %s", name, error.message)
        raise Unavailable(
            f"The model {name} cannot be loaded now; the server's log says why.",
            retry_after_s=LOAD_RETRY_S,
        ) from None


def settled_adapters(
    models: Models, call: Call, asked: str
) -> tuple[tuple[Adapter, ...], list[str]]:
    """The adapters that the request is computed with; and its field of them, where it has no effect."""
    wanted, field = call.request.adapters, call.given.get("adapters", "lora")
    if wanted and isinstance(wanted[0].name, int) and not models.adapters(asked):
        return (), [field]  # editors send a list by habit
    return models.settle_adapters(asked, wanted, field), []


def fingerprint_of(info: ModelInfo, request: CompletionRequest) -> str:
    """Of an answer: with adapters, another one than the model's own."""
    digests = info.adapter_digests
    parts = [
        (digests[str(adapter.name)], 1.0 if adapter.scale is None else adapter.scale)
        for adapter in request.adapters or ()
        if adapter.name in digests
    ]
    return fingerprint.adapted(info.fingerprint, parts)


def own_salt(given: str, tenant: str) -> str:
    """The cache salt: prefixes of one key must not speed up another key's requests, which would reveal them.
    A salt that the client gives may be shared on purpose, but never equals a key's own."""
    return f"salt:{given}" if given else f"key:{tenant}"


async def loaded_stats(models: Models) -> dict[str, Stats]:
    """Statistics by served name, of loaded models; one that is restarting is left out."""
    stats: dict[str, Stats] = {}
    for name in dict.fromkeys(map(models.resolve, models.names)):
        engine = models.loaded(name)
        if engine is not None:
            with contextlib.suppress(SegueError):
                stats[name] = await engine.stats()
    return stats


def _encoded(render: Callable[[T], Any], items: Sequence[T]) -> msgspec.Raw:
    """The JSON of a list, made in pieces: none keeps the interpreter long, nor are all objects there at once."""
    pieces = [
        encode([render(item) for item in items[start : start + LARGE_ANSWER_ITEMS]])[1:-1]
        for start in range(0, len(items), LARGE_ANSWER_ITEMS)
    ]
    return msgspec.Raw(b"[%b]" % b",".join(pieces))


class ModelService:
    """Implements dialects.base.Service over the seam."""

    def __init__(
        self,
        models: Models,
        *,
        version: str,
        started: int,
        defaults: Defaults,
        served: Callable[[str], Served],
        may_unload: bool,
        ping_s: float = 0.0,
        streams: KeptStreams | None = None,
    ):
        """`served`: what was counted of the requests of a model. `may_unload`: whether clients may. `ping_s`: of
        silence until who watches gets a sign of life."""
        self._ping_s = ping_s
        self._streams = streams or KeptStreams()
        self._models = models
        self._may_unload = may_unload
        self._served = served
        self.defaults = defaults
        self._started = started
        self.version = version

    def now(self) -> float:
        return time.time()

    def cards(self) -> list[Card]:
        return [self._card(name) for name in self._models.names]

    def card(self, model: str) -> Card:
        name = model or self._models.names[0]
        if name not in self._models.names:
            name = self._models.resolve(model, exact=True)  # "default"; raises for every other name
        return self._card(name)

    def meant(self, model: str) -> Card:
        return self._card(self._models.resolve(model))

    def _card(self, name: str) -> Card:
        own = self._models.resolve(name)
        adapters = {each.name for each in self._models.adapters(own)}
        is_adapter = name != own and name in adapters
        names = [each for each in self._models.names if self._models.resolve(each) == own]
        aliases = () if is_adapter else (each for each in names if each not in (name, *adapters))
        engine, is_loading = self._models.loaded(name), self._models.is_loading(name)
        return Card(
            name,
            self._started,
            "ok" if engine else "loading" if is_loading else "idle",
            engine.info if engine else None,
            self._models.expires_s(name) if engine else None,
            aliases=tuple(aliases),
            is_alias=name != own and not is_adapter,
            parent=own if is_adapter else "",
            remembered=self._models.known(name),
        )

    async def tokenize(
        self, model: str, text: str, *, add_special: bool, parse_special: bool
    ) -> list[int]:
        engine = await open_engine(self._models, model)
        return await engine.tokenize(text, add_special, parse_special)

    async def pieces(self, model: str, tokens: list[int]) -> list[bytes]:
        engine = await open_engine(self._models, model)
        return await engine.pieces(tokens)

    async def lists(self, model: str) -> dict[str, bytes]:
        engine = self._models.loaded(model)
        return {} if engine is None else await engine.lists()

    async def convert(self, render: Callable[[T], Any], items: Sequence[T]) -> Any:
        if len(items) <= LARGE_ANSWER_ITEMS:
            return [render(item) for item in items]
        return await asyncio.to_thread(_encoded, render, items)

    async def open(self, model: str) -> None:
        await open_engine(self._models, model)

    def kept_stream(self, tenant: str, name: str, start: int) -> Reader:
        return self._streams.read(tenant, name, start)

    def kept_streams(self, tenant: str) -> list[StreamFacts]:
        return self._streams.facts(tenant)

    def stop_stream(self, tenant: str, name: str) -> None:
        self._streams.stop(tenant, name)

    def watch(self) -> ModelWatch:
        return ModelWatch(self._models, self._ping_s)

    async def load(self, model: str) -> None:
        if self._models.expires_s(model) == 0:
            await self._models.keep_in_all(model, None)
        await open_engine(self._models, model)

    async def unload(self, model: str) -> None:
        if not self._may_unload:
            raise Forbidden("Clients of this server unload no models (--no-client-keep-alive).")
        await self._models.keep_in_all(model, 0)

    def adapters(self, model: str) -> list[ServedAdapter]:
        return self._models.adapters(model)

    async def apply_adapters(self, model: str, wanted: tuple[Adapter, ...]) -> None:
        await self._models.apply_adapters(model, wanted)

    async def act_on_slot(self, model: str, action: SlotAction) -> SlotResult:
        if action.tenant:
            salt = own_salt(action.cache_salt, action.tenant)
            action = msgspec.structs.replace(action, cache_salt=salt)
        engine = await open_engine(self._models, model)
        if action.verb != "look":
            return await engine.act_on_slot(action)
        try:
            return await asyncio.wait_for(engine.act_on_slot(action), LOOK_S)
        except TimeoutError:
            raise Unavailable(f"the step that runs takes longer than {LOOK_S:g} s") from None

    def served(self, model: str) -> Served:
        return self._served(self._models.resolve(model))

    async def stats(self, model: str) -> Stats:
        engine = self._models.loaded(model)
        if engine is None:
            raise Unavailable(f"the model {model!r} is not loaded")
        return await engine.stats()
