import asyncio

import pytest

from segue.errors import UnknownModel
from segue.server.service import ModelService
from segue.types import Stats
from tests.fakes import OneModel, ScriptedEngine, speak


class TwoNames(OneModel):
    @property
    def names(self) -> list[str]:
        return ["tiny", "alias"]


def service(*, strict_model: bool) -> ModelService:
    models = TwoNames()
    models.load(ScriptedEngine(speak()))
    return ModelService(models, strict_model=strict_model, version="1", started=5)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("tiny", "tiny"), ("alias", "alias"), ("", "tiny"), ("default", "tiny"), ("other", "tiny")],
)
def test_names(asked: str, meant: str) -> None:
    assert service(strict_model=False).resolve(asked) == meant
    if asked != "other":
        assert service(strict_model=True).resolve(asked) == meant


def test_strict_names() -> None:
    with pytest.raises(UnknownModel, match="try tiny, alias") as error:
        service(strict_model=True).resolve("other")
    assert error.value.param == "model"


def test_cards_never_stand_for_another_model() -> None:
    cards = service(strict_model=False).cards()
    assert [card.name for card in cards] == ["tiny", "alias"]
    with pytest.raises(UnknownModel):
        service(strict_model=False).card("other")


def test_engine_questions() -> None:
    async def main() -> None:
        asked = service(strict_model=True)
        tokens = await asked.tokenize("tiny", "ab", add_special=False, parse_special=False)
        assert tokens == [97, 98]
        assert await asked.pieces("", tokens) == [b"a", b"b"]
        assert await asked.stats("alias") == Stats()

    asyncio.run(main())
