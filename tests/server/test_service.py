import asyncio

import pytest

from segue.dialects.base import NO_DEFAULTS
from segue.errors import Forbidden, Unavailable, UnknownModel
from segue.server import service as server_service
from segue.server.service import ModelService
from segue.types import Served, SlotAction, SlotResult, Stats
from tests.support.fakes import INFO, OneModel, ScriptedEngine, speak


def made(models: OneModel, may_unload: bool) -> ModelService:
    return ModelService(
        models,
        version="1",
        started=5,
        defaults=NO_DEFAULTS,
        served=lambda _: Served(),
        may_unload=may_unload,
    )


@pytest.fixture
def models() -> OneModel:
    models = OneModel()
    models.load(ScriptedEngine(speak()))
    return models


@pytest.fixture
def service(models: OneModel) -> ModelService:
    return made(models, may_unload=True)


def test_cards_never_stand_for_another_model(service: ModelService) -> None:
    assert [card.name for card in service.cards()] == ["tiny"]
    assert service.card("") == service.card("tiny")
    with pytest.raises(UnknownModel):
        service.card("other")


def test_the_model_that_is_meant_is_the_one_that_completes(service: ModelService) -> None:
    assert service.meant("other") == service.meant("") == service.card("tiny")
    with pytest.raises(UnknownModel):
        service.meant("unknown")


def test_status(models: OneModel, service: ModelService) -> None:
    assert (service.card("").status, service.card("").info) == ("ok", INFO)
    models.is_up = False
    assert (service.card("").status, service.card("").info) == ("idle", None)
    assert service.card("").known == INFO
    models.is_starting = True
    assert service.card("").status == "loading"


def test_engine_questions(models: OneModel, service: ModelService) -> None:
    async def main() -> None:
        tokens = await service.tokenize("tiny", "ab", add_special=False, parse_special=False)
        assert tokens == [97, 98]
        assert await service.pieces("", tokens) == [b"a", b"b"]
        assert await service.stats("tiny") == Stats()
        models.is_up = False
        with pytest.raises(Unavailable):
            await service.stats("tiny")

    asyncio.run(main())


def test_a_look_at_slots_does_not_wait_for_a_step_that_hangs(
    models: OneModel, service: ModelService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GET /slots was answered once --step-timeout had ended it."""

    async def hang(_: SlotAction) -> SlotResult:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(models.engine, "act_on_slot", hang)
    monkeypatch.setattr(server_service, "LOOK_S", 0.01)
    with pytest.raises(Unavailable, match="the step that runs"):
        asyncio.run(service.act_on_slot("tiny", SlotAction(verb="look")))


def test_clients_unload_where_they_may(models: OneModel) -> None:
    with pytest.raises(Forbidden, match="--no-client-keep-alive"):
        asyncio.run(made(models, may_unload=False).unload("tiny"))
    assert models.kept == []
    asyncio.run(made(models, may_unload=True).unload("tiny"))
    assert models.kept == [("tiny", 0)]


def test_a_load_takes_back_an_unload_that_waits(models: OneModel, service: ModelService) -> None:
    asyncio.run(service.load("tiny"))
    assert models.kept == []
    asyncio.run(service.unload("tiny"))
    asyncio.run(service.open("tiny"))
    assert models.kept == [("tiny", 0)]
    asyncio.run(service.load("tiny"))
    assert models.kept == [("tiny", 0), ("tiny", None)]
