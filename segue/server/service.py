"""What the endpoints ask of the served models. Which model a name means is decided here alone."""

from segue.dialects.base import Card
from segue.engine.seam import Engine, Models
from segue.errors import UnknownModel
from segue.types import Stats


class ModelService:
    """Implements dialects.base.Service over the seam."""

    def __init__(self, models: Models, *, strict_model: bool, version: str, started: int):
        self._models = models
        self._strict_model = strict_model
        self._started = started
        self.version = version

    def resolve(self, model: str) -> str:
        """The served name that is meant. Without strict_model an unknown one means the default."""
        names = self._models.names
        if model in names:
            return model
        if names and (model in ("", "default") or not self._strict_model):
            return names[0]
        raise UnknownModel(f"The model {model!r} is not served: try {', '.join(names)}.", "model")

    async def open(self, model: str) -> Engine:
        return await self._models.open(self.resolve(model))

    def cards(self) -> list[Card]:
        return [self._card(name) for name in self._models.names]

    def card(self, model: str) -> Card:
        if model and model not in self._models.names:
            raise UnknownModel(f"The model {model!r} is not served.", "model")
        return self._card(self.resolve(model))

    def _card(self, name: str) -> Card:
        engine = self._models.loaded(name)
        return Card(name, self._started, engine.info if engine else None)

    async def tokenize(
        self, model: str, text: str, *, add_special: bool, parse_special: bool
    ) -> list[int]:
        engine = await self.open(model)
        return await engine.tokenize(text, add_special, parse_special)

    async def pieces(self, model: str, tokens: list[int]) -> list[bytes]:
        engine = await self.open(model)
        return await engine.pieces(tokens)

    async def stats(self, model: str) -> Stats:
        engine = await self.open(model)
        return await engine.stats()
