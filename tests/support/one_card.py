"""A service for the pages of a dialect, without engines."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from segue.dialects.base import Card, StreamFacts
from segue.engine.process.adapter_list import AdapterList
from segue.types import (
    Adapter,
    ModelChange,
    ModelInfo,
    Served,
    ServedAdapter,
    SlotAction,
    SlotResult,
    Stats,
)
from tests.support.fakes import INFO

CHATTY = msgspec.structs.replace(
    INFO,
    end_tokens=(5, 9),
    file="tiny.gguf",
    chat_template="{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}",
)


class OneCard:
    """A service with one model and two more names for it."""

    version = "1"
    defaults: Mapping[str, Any] = {"sampling.seed": 42}

    def __init__(self, info: ModelInfo = CHATTY) -> None:
        self.list = AdapterList(
            [ServedAdapter("sql", "sql.gguf"), ServedAdapter("b", "b.gguf", 0.5)]
        )
        self.requests = Served()
        self.slot_actions: list[tuple[str, SlotAction]] = []
        self.more: list[Card] = []
        self.streams: list[StreamFacts] = []
        self.changes: list[ModelChange | None] = []
        self._card = Card("tiny", 77, "ok", info, aliases=("fim", "code"))

    def now(self) -> float:
        return 0.0

    def card(self, model: str) -> Card:
        return self._card

    def meant(self, model: str) -> Card:
        return self._card

    def cards(self) -> list[Card]:
        aliases = (Card(n, 77, "ok", CHATTY, is_alias=True) for n in ("fim", "code"))
        return [self._card, *aliases, *self.more]

    async def tokenize(self, *_: Any, **__: Any) -> list[int]:
        return []

    async def pieces(self, *_: Any) -> list[bytes]:
        return []

    async def lists(self, model: str) -> dict[str, bytes]:
        return {"tokenizer.ggml.tokens": b'["a","b"]', "tensors": b'[{"name":"x"}]'}

    async def convert(self, render: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return [render(item) for item in items]

    async def open(self, model: str) -> None:
        self._card = replace(self._card, status="ok", info=self._card.known)

    async def kept_stream(self, *_: Any) -> AsyncGenerator[bytes, None]:
        yield b""

    def kept_streams(self, tenant: str) -> list[StreamFacts]:
        return self.streams

    def stop_stream(self, *_: Any) -> None: ...

    async def watch(self) -> AsyncGenerator[ModelChange | None, None]:
        for change in self.changes:
            yield change

    async def load(self, model: str) -> None:
        await self.open(model)
        self._card = replace(self._card, expires_s=None)

    async def unload(self, model: str) -> None:
        self.leave(is_used=False)

    def leave(self, *, is_used: bool) -> None:
        """Unloaded, or about to be as soon as nobody uses it."""
        card = self._card
        if is_used:
            self._card = replace(card, expires_s=0.0)
        else:
            self._card = replace(card, status="idle", info=None, remembered=card.info)

    def adapters(self, model: str) -> list[ServedAdapter]:
        return self.list.served

    async def apply_adapters(self, model: str, wanted: tuple[Adapter, ...]) -> None:
        self.list.apply(wanted)

    async def act_on_slot(self, model: str, action: SlotAction) -> SlotResult:
        self.slot_actions.append((model, action))
        return SlotResult(num_tokens=84, num_bytes=4096, seconds=0.0498654)

    def served(self, model: str) -> Served:
        return self.requests

    async def stats(self, model: str) -> Stats:
        return Stats(
            steps=4, stepped=10, longest=123, drafts=3, slots_total=8, running=2, waiting=1
        )


class AddsBos(OneCard):
    """One whose model puts a token in front of every text."""

    async def tokenize(self, *_: Any, add_special: bool, **__: Any) -> list[int]:
        return [1] if add_special else []
