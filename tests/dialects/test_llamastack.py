import asyncio
from typing import Any

import pytest

from segue.dialects.base import Answer
from segue.dialects.llamastack import LLAMASTACK, list_providers, list_routes, stream_error
from segue.errors import BY_CODE, EngineFault, Overloaded, SegueError, Unavailable
from segue.types import Stats
from tests.support.one_card import OneCard


@pytest.mark.parametrize(
    ("error", "status", "title"),
    [
        (Overloaded("slow down"), 429, "Too Many Requests"),
        (EngineFault("broken"), 500, "Internal Server Error"),
    ],
)
def test_errors_are_those_of_its_document(error: SegueError, status: int, title: str) -> None:
    reply = LLAMASTACK.error(error)
    assert reply.status == status
    assert reply.body == {"status": status, "title": title, "detail": error.message}


def test_every_error_has_both_shapes() -> None:
    for leaf in BY_CODE.values():
        assert "why" in LLAMASTACK.error(leaf("why")).body["detail"]
        assert "why" in stream_error(leaf("why")).body["error"]["message"]


def ask(page: Answer, service: OneCard) -> Any:
    async def reply() -> Any:
        return (await page(service, {})).body["data"]

    return asyncio.run(reply())


def test_a_provider_whose_model_restarts_is_not_well() -> None:
    class Restarting(OneCard):
        async def stats(self, model: str) -> Stats:
            raise Unavailable("restarting")

    (provider,) = ask(list_providers, OneCard())
    assert provider["health"] == {"status": "OK"}
    (provider,) = ask(list_providers, Restarting())
    assert provider["health"] == {"status": "Error", "message": "restarting"}


def test_routes_are_those_that_are_served() -> None:
    routes = {(each["method"], each["route"]) for each in ask(list_routes, OneCard())}
    assert {("POST", "/v1/completions"), ("GET", "/v1/providers")} < routes
