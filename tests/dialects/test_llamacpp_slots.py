"""`POST /slots/{id_slot}` in llama.cpp's words: what it asks the engine for, what it answers, what it refuses."""

import asyncio
from typing import Any

import pytest

from segue.dialects.base import Companion
from segue.dialects.llamacpp import LLAMACPP
from segue.errors import InvalidField, Unsupported
from segue.types import HeldText, SlotAction, SlotResult
from tests.support.one_card import OneCard

PAGE: Companion = next(
    each for each in LLAMACPP.companions if (each.method, each.path) == ("POST", "/slots/{id_slot}")
)


def act(number: str = "1", **fields: Any) -> tuple[Any, list[tuple[str, SlotAction]]]:
    service = OneCard()
    values = {"id_slot": number, "tenant": "ann", **PAGE.table.read(fields).values}

    async def answered() -> Any:
        return (await PAGE.answer(service, values)).body

    return asyncio.run(answered()), service.slot_actions


def test_a_list_tells_what_slots_hold_for_the_key_that_asks() -> None:
    page = next(e for e in LLAMACPP.companions if (e.method, e.path) == ("GET", "/slots"))
    assert page.knows_key

    class Holding(OneCard):
        async def act_on_slot(self, model: str, action: SlotAction) -> SlotResult:
            assert action == SlotAction(verb="look", tenant="ann")
            return SlotResult(held=(HeldText(1, 84, 90), HeldText(3, 7, 0)))

    class Unable(OneCard):
        async def act_on_slot(self, model: str, action: SlotAction) -> SlotResult:
            raise Unsupported("without --slot-save-path")

    async def told(service: OneCard) -> list[dict[str, int]]:
        values = {"tenant": "ann", **page.table.read({}).values}
        body: Any = (await page.answer(service, values)).body
        return [{n: v for n, v in each.items() if n.startswith("n_p")} for each in body]

    none: list[dict[str, int]] = [{}] * 8
    held = [{}, {"n_prompt_tokens": 84, "n_past": 90}, {}, {"n_prompt_tokens": 7, "n_past": 0}]
    assert asyncio.run(told(Holding())) == held + none[4:]
    assert asyncio.run(told(Unable())) == none


def test_save() -> None:
    body, asked = act(action="save", filename="a.bin")
    assert body == {
        "id_slot": 1,
        "filename": "a.bin",
        "n_saved": 84,
        "n_written": 4096,
        "timings": {"save_ms": 49.865},
    }
    assert asked == [("", SlotAction(verb="save", slot=1, filename="a.bin", tenant="ann"))]


def test_restore() -> None:
    body, asked = act("64", action="restore", filename="a.bin", model="other")
    assert body == {
        "id_slot": 64,
        "filename": "a.bin",
        "n_restored": 84,
        "n_read": 4096,
        "timings": {"restore_ms": 49.865},
    }
    assert asked == [("other", SlotAction(verb="restore", slot=64, filename="a.bin", tenant="ann"))]


def test_erase_needs_no_name() -> None:
    body, asked = act(action="erase", filename="of no use")
    assert body == {"id_slot": 1, "n_erased": 84}
    assert asked == [("", SlotAction(verb="erase", slot=1, tenant="ann"))]


@pytest.mark.parametrize("number", ["", "x", "-1", "1.5", "99999999999", "2147483648", "\u00b2"])
def test_slots_have_whole_numbers(number: str) -> None:
    with pytest.raises(InvalidField, match="Invalid slot ID"):
        act(number, action="erase")


@pytest.mark.parametrize("action", ["", "load", "SAVE"])
def test_there_are_three_actions(action: str) -> None:
    with pytest.raises(InvalidField, match="save, restore or erase"):
        act(action=action)
