"""What companion endpoints ask of the served models."""

import time

from segue.dialects.base import Card
from segue.engine.seam import Models
from segue.errors import Unavailable, UnknownModel
from segue.types import Stats


class ModelService:
    """Implements dialects.base.Service over the seam."""

    def __init__(self, models: Models, *, version: str, started: int):
        self._models = models
        self._started = started
        self.version = version

    def now(self) -> float:
        return time.time()

    def cards(self) -> list[Card]:
        return [self._card(name) for name in self._models.names]

    def card(self, model: str) -> Card:
        name = model or self._models.names[0]
        if name not in self._models.names:
            raise UnknownModel(f"the model {model!r} is not served", "model")
        return self._card(name)

    def _card(self, name: str) -> Card:
        engine = self._models.loaded(name)
        if engine is not None:
            return Card(name, self._started, "ok", engine.info, self._models.expires_s(name))
        is_loading = self._models.is_loading(name)
        return Card(name, self._started, "loading" if is_loading else "idle", None)

    async def tokenize(
        self, model: str, text: str, *, add_special: bool, parse_special: bool
    ) -> list[int]:
        engine = await self._models.open(model)
        return await engine.tokenize(text, add_special, parse_special)

    async def pieces(self, model: str, tokens: list[int]) -> list[bytes]:
        engine = await self._models.open(model)
        return await engine.pieces(tokens)

    async def stats(self, model: str) -> Stats:
        engine = self._models.loaded(model)
        if engine is None:
            raise Unavailable(f"the model {model!r} is not loaded")
        return await engine.stats()
