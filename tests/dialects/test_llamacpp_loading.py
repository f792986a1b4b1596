"""llama.cpp's `/models/load` and `/models/unload`, and what its pages say of a model that is not loaded."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from segue.dialects.base import Card, Companion, Flow
from segue.dialects.llamacpp import LLAMACPP
from segue.errors import InvalidField, Unavailable
from segue.types import ModelChange
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


UP_FIELDS = ("id", "aliases", "tags", "object", "created", "owned_by", "meta")


def told(service: OneCard) -> list[Any]:
    """The events of a stream that ends; of a comment its text."""

    async def lines() -> list[str]:
        flow = (await PAGES["GET", "/models/sse"].answer(service, {})).body
        assert isinstance(flow, Flow)
        text = b"".join([flow.render(piece) async for piece in flow.source]).decode()
        return text.split("\n\n")[:-1]

    events = asyncio.run(lines())
    return [json.loads(each[6:]) if each.startswith("data: ") else each for each in events]


def test_events_tell_of_loads_and_unloads_under_its_names(service: OneCard) -> None:
    service.changes = [
        ModelChange("tiny", "loading"),
        None,
        ModelChange("tiny", "ok"),
        ModelChange("tiny", "idle"),
        ModelChange("tiny", "idle", failed=True),
        ModelChange("another", "ok"),
    ]
    begun, silence, up, gone, failed = told(service)
    assert begun == {"model": "tiny", "event": "model_status", "data": {"status": "loading"}}
    assert silence == ": keep-alive"
    listed = json.loads(msgspec.json.encode(ask(service, "GET", "/models")["data"][0]))
    assert up["event"] == "status_change"
    assert up["data"].pop("info") == {n: v for n, v in listed.items() if n in UP_FIELDS}
    assert up["data"] == {"status": "loaded"}
    assert gone["data"] == {"status": "unloaded", "exit_code": 0}
    assert failed["data"] == {"status": "unloaded", "exit_code": 1}


def test_adapters_share_the_lot_of_their_model(service: OneCard) -> None:
    service.more = [Card("sql", 77, "loading", None, parent="tiny")]
    service.changes = [ModelChange("tiny", "loading")]
    assert [event["model"] for event in told(service)] == ["tiny", "sql"]


def test_a_template_is_applied_by_a_model_that_is_loaded_for_it(service: OneCard) -> None:
    service.leave(is_used=False)
    ask(service, "POST", "/apply-template", messages=[{"role": "user", "content": "hi"}])
    assert status(service) == "loaded"
