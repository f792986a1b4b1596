"""llama.cpp's `/models/load` and `/models/unload`, and what its pages say of a model that is not loaded."""

import asyncio
from typing import Any

import pytest

from segue.dialects.base import Companion
from segue.dialects.llamacpp import LLAMACPP
from segue.errors import InvalidField, Unavailable
from tests.support.one_card import OneCard

PAGES: dict[tuple[str, str], Companion] = {
    (each.method, each.path): each for each in LLAMACPP.companions
}


def ask(service: OneCard, method: str, path: str, **body: Any) -> Any:
    page = PAGES[method, path]

    async def answered() -> Any:
        return (await page.answer(service, page.table.read(body).values)).body

    return asyncio.run(answered())


@pytest.fixture
def service() -> OneCard:
    return OneCard()


def status(service: OneCard) -> str:
    return str(ask(service, "GET", "/models")["data"][0]["status"]["value"])


def test_a_model_is_unloaded_and_loaded_again(service: OneCard) -> None:
    assert status(service) == "loaded"
    assert ask(service, "POST", "/models/unload", model="tiny") == {"success": True}
    assert status(service) == "unloaded"
    assert ask(service, "POST", "/models/load", model="tiny") == {"success": True}
    assert status(service) == "loaded"


def test_what_is_done_already_is_refused_as_there(service: OneCard) -> None:
    with pytest.raises(InvalidField, match="already running"):
        ask(service, "POST", "/models/load", model="tiny")
    service.leave(is_used=False)
    with pytest.raises(InvalidField, match="not running"):
        ask(service, "POST", "/models/unload", model="tiny")


def test_an_unload_that_waits_for_a_request_is_taken_back(service: OneCard) -> None:
    """It was refused as running already, and then the model went."""
    service.leave(is_used=True)
    assert status(service) == "loaded"
    assert ask(service, "POST", "/models/load", model="tiny") == {"success": True}
    assert not service.card("tiny").is_leaving


def test_what_only_uses_a_model_does_not_take_that_back(service: OneCard) -> None:
    service.leave(is_used=True)
    ask(service, "POST", "/apply-template", messages=[{"role": "user", "content": "hi"}])
    assert service.card("tiny").is_leaving


def test_props_of_one_that_sleeps_are_what_they_were(service: OneCard) -> None:
    before = ask(service, "GET", "/props")
    service.leave(is_used=False)
    asleep = ask(service, "GET", "/props", model="tiny")
    assert not before["is_sleeping"]
    assert asleep == before | {"is_sleeping": True, "total_slots": 0}


@pytest.mark.parametrize("path", ["/slots", "/metrics"])
def test_other_pages_say_that_it_is_not_loaded(service: OneCard, path: str) -> None:
    service.leave(is_used=False)
    with pytest.raises(Unavailable, match="not loaded"):
        ask(service, "GET", path, model="tiny")


def test_a_template_is_applied_by_a_model_that_is_loaded_for_it(service: OneCard) -> None:
    service.leave(is_used=False)
    ask(service, "POST", "/apply-template", messages=[{"role": "user", "content": "hi"}])
    assert status(service) == "loaded"
