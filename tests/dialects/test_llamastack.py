import asyncio
from typing import Any

import pytest

from segue.dialects.base import Answer, Call, Stamp
from segue.dialects.llamastack import LLAMASTACK, list_providers, list_routes, stream_error
from segue.errors import BY_CODE, EngineFault, InvalidField, Overloaded, SegueError, Unavailable
from segue.types import Stats
from tests.support.one_card import OneCard

STAMP = Stamp(request_id="r", public_id="p", created=5, seed=99, fingerprint="f")


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


def parsed(**body: Any) -> Call:
    return LLAMASTACK.operations[0].parse({"model": "m", "prompt": "x", **body}, STAMP)


def test_what_it_hands_to_a_provider_is_read_as_at_the_root() -> None:
    """Its clients send such fields as extra_body: they were ignored, and constraints were refused."""
    call = parsed(top_k=5, min_tokens=2, response_format={"type": "json_object"}, nobody=1)
    sampling, constraint = call.request.sampling, call.request.constraint
    assert (sampling.top_k, sampling.min_tokens) == (5, 2)
    assert constraint is not None
    assert constraint.kind == "json_object"
    assert call.ignored == ("nobody",)


def test_its_own_fields_keep_their_ranges() -> None:
    assert parsed(max_tokens="5", temperature="0.5").request.max_tokens == 5
    assert parsed(logprobs=True).request.logprobs == 1
    assert parsed(logprobs=True, top_logprobs=3).request.logprobs == 3
    for wrong in ({"max_tokens": 0}, {"logprobs": 5}, {"temperature": 3}, {"model": None}):
        with pytest.raises(InvalidField):
            parsed(**wrong)


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
