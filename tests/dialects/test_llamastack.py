import asyncio
from typing import Any

import pytest

from segue.dialects.base import Answer, Call, Stamp
from segue.dialects.llamastack import LLAMASTACK, stream_error
from segue.dialects.llamastack.pages import ROUTES_FIELDS, list_providers, list_routes
from segue.errors import (
    BY_CODE,
    EngineFault,
    InvalidField,
    Overloaded,
    SegueError,
    Unavailable,
    UnknownModel,
)
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
        broken = stream_error(leaf("why")).body["error"]
        assert "why" in broken["message"]
        assert broken["code"] == str(leaf.status)


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
    for wrong in (
        {"max_tokens": 0},
        {"logprobs": 6},
        {"logprobs": "6"},
        {"temperature": 3},
        {"model": None},
    ):
        with pytest.raises(InvalidField):
            parsed(**wrong)


def test_its_own_fields_are_read_leniently() -> None:
    """As its server does: a number may be a text, and a truth a number or a word."""
    call = parsed(n="2", best_of=2.0, echo="yes", stream=0, seed="7", logit_bias={"5": "1"})
    assert (call.request.n, call.request.echo, call.stream) == (2, True, False)
    assert call.request.sampling.seed == 7
    assert call.request.sampling.logit_bias == {5: 1.0}
    assert parsed(logit_bias={"5": False}).request.sampling.logit_bias == {5: 0.0}
    for wrong in ({"echo": "x"}, {"n": "x"}, {"logit_bias": [[5, 1]]}, {"logit_bias": {"5": "x"}}):
        with pytest.raises(InvalidField):
            parsed(**wrong)


@pytest.mark.parametrize(
    ("sent", "read"),
    [(True, 1), ("true", 1), (1.0, 1), (False, None), (0, 0), (1, 1), (5, 5), (2.0, 2), ("2", 2)],
)
def test_logprobs_of_llama_stack_and_of_ogx(sent: Any, read: int | None) -> None:
    assert parsed(logprobs=sent).request.logprobs == read


def test_names_of_the_provider_count_where_its_own_are_not_sent() -> None:
    """n_predict and n_probs had no effect: the rows of its own fields took the others' names away."""
    assert parsed(n_predict=2).request.max_tokens == 2
    assert parsed(n_predict=-1).request.max_tokens is None
    assert parsed(options={"num_predict": 2}).request.max_tokens == 2
    assert parsed(max_completion_tokens=0).request.max_tokens == 0
    assert parsed(n_probs=20).request.logprobs == 20
    both = parsed(max_tokens=3, n_predict=2, logprobs=False, n_probs=2)
    assert (both.request.max_tokens, both.ignored) == (3, ("n_predict",))


def test_defaults_of_the_server_give_way_to_names_of_the_provider() -> None:
    body = {"model": "m", "prompt": "x", "n_predict": 2}
    call = LLAMASTACK.operations[0].parse(body, STAMP, {"max_tokens": 9})
    assert call.request.max_tokens == 2


def test_no_name_is_that_of_no_model() -> None:
    with pytest.raises(UnknownModel):
        parsed(model="")


def ask(page: Answer, service: OneCard, **values: Any) -> Any:
    async def reply() -> Any:
        return (await page(service, values)).body["data"]

    return asyncio.run(reply())


def test_a_provider_whose_model_restarts_is_not_well() -> None:
    class Restarting(OneCard):
        async def stats(self, model: str) -> Stats:
            raise Unavailable("restarting")

    (provider,) = ask(list_providers, OneCard())
    assert provider["health"] == {"status": "OK"}
    (provider,) = ask(list_providers, Restarting())
    assert provider["health"] == {"status": "Error", "message": "restarting"}


def routes(**query: str) -> set[tuple[str, str]]:
    values = ROUTES_FIELDS.read(query).values
    return {(each["method"], each["route"]) for each in ask(list_routes, OneCard(), **values)}


def test_routes_are_those_that_are_served() -> None:
    v1, admin = routes(api_filter="v1"), routes(api_filter="v1alpha")
    assert {("POST", "/v1/completions"), ("GET", "/v1/providers")} < v1
    former = {("POST", "/v1/openai/v1/completions"), ("GET", "/v1/openai/v1/models")}
    assert routes(api_filter="deprecated") == former
    assert former < v1
    assert {route for _, route in admin} == {
        f"/v1alpha/admin/{page}"
        for page in ("health", "version", "providers", "providers/{provider}", "inspect/routes")
    }
    assert routes() == v1 | admin
    assert routes(api_filter="v1beta") == set()
