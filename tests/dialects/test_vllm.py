import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from segue.bounds import MAX_INT32
from segue.dialects.base import Call, Reply, Stamp
from segue.dialects.rendering.tally import Tally
from segue.dialects.vllm import VLLM
from segue.errors import (
    BY_CODE,
    EngineDied,
    EngineFault,
    InvalidField,
    Overloaded,
    PromptTooLong,
    SegueError,
    Unauthorized,
    UnknownModel,
    UnsupportedMedia,
    WrongMethod,
)
from segue.types import Buckets, Served, Stats, Truncation
from tests.support.one_card import OneCard

STAMP = Stamp(request_id="r", public_id="r", created=5, seed=99, fingerprint="f")


def parse(**body: Any) -> Call:
    return VLLM.operations[0].parse({"prompt": "a", **body}, STAMP)


@pytest.mark.parametrize(
    ("error", "status", "kind", "param"),
    [
        (InvalidField("n must be 1", "n"), 400, "BadRequestError", "n"),
        (PromptTooLong("too long", "prompt"), 400, "BadRequestError", "input_tokens"),
        (UnsupportedMedia("not JSON"), 400, "BadRequestError", None),
        (UnknownModel("no such", "model"), 404, "NotFoundError", "model"),
        (Overloaded("full"), 503, "Service Unavailable", None),
        (EngineDied("gone"), 503, "ServiceUnavailableError", None),
        (EngineFault("broken"), 500, "InternalServerError", None),
    ],
)
def test_errors(error: SegueError, status: int, kind: str, param: str | None) -> None:
    reply = VLLM.error(error)
    assert reply.status == status
    detail = reply.body["error"]
    assert (detail["type"], detail["param"], detail["code"]) == (kind, param, status)
    assert error.message in detail["message"]


def test_errors_of_the_framework_under_it() -> None:
    assert VLLM.error(Unauthorized("no key")).body == {"error": "Unauthorized"}
    assert VLLM.error(WrongMethod("use POST")).body == {"detail": "Method Not Allowed"}


def test_every_error_has_a_shape() -> None:
    for leaf in BY_CODE.values():
        reply = VLLM.error(leaf("why"))
        assert {"error", "detail"} & reply.body.keys()


def test_numbers_are_read_leniently() -> None:
    call = parse(max_tokens="5", temperature="0.5", n=True, top_k=-1, logit_bias={"7": 500})
    assert (call.request.max_tokens, call.request.n) == (5, 1)
    sampling = call.request.sampling
    assert (sampling.temperature, sampling.top_k) == (0.5, 0)
    assert sampling.logit_bias == {7: 100.0}
    call = parse(logprobs=5.0, prompt_logprobs=True)
    assert (call.request.logprobs, call.request.prompt_logprobs) == (5, 1)


def test_numbers_without_an_upper_end_there_have_none_here() -> None:
    """Clients send their language's largest integer for all there is."""
    for most in (2**31, 2**53 - 1, 2**63 - 1, 10**30, str(2**40)):
        call = parse(max_tokens=most, top_k=most, stream=True, stream_interval=most)
        assert (call.request.max_tokens, call.request.sampling.top_k) == (MAX_INT32, MAX_INT32)
        assert call.shape["stream_interval"] == MAX_INT32
    for wrong in ({"top_k": -2}, {"max_tokens": -1}, {"top_k": 1.5}, {"max_tokens": "all"}):
        with pytest.raises(InvalidField, match="must be an integer of at least"):
            parse(**wrong)


@pytest.mark.parametrize("name", ["logprobs", "prompt_logprobs"])
def test_a_number_of_alternatives_is_no_text(name: str) -> None:
    with pytest.raises(InvalidField, match=f"{name} must be an integer"):
        parse(**{name: "1"})


@pytest.mark.parametrize(
    "name",
    ["n", "min_tokens", "ignore_eos", "bad_words", "use_beam_search", "length_penalty", "priority"],
)
def test_null_is_refused_where_vllm_refuses_it(name: str) -> None:
    with pytest.raises(InvalidField) as error:
        parse(**{name: None})
    assert error.value.param == name


def test_ends_are_passed_not_banned() -> None:
    sampling = parse(ignore_eos=True).request.sampling
    assert (sampling.pass_eos, sampling.ignore_eos) == (True, False)


def test_the_id_is_the_clients_own() -> None:
    by_body = parse(request_id="mine")
    assert VLLM.operations[0].renderer(by_body)._make_head()["id"] == "cmpl-mine"  # type: ignore[attr-defined]
    by_header = Stamp(request_id="r", public_id="header", created=5, seed=1, fingerprint="f")
    call = VLLM.operations[0].parse({"prompt": "a", "request_id": "mine"}, by_header)
    assert VLLM.operations[0].renderer(call)._make_head()["id"] == "cmpl-header"  # type: ignore[attr-defined]


def test_beams_take_n_at_temperature_0() -> None:
    request = parse(
        use_beam_search=True, n=4, temperature=0, length_penalty="0.5", priority="0"
    ).request
    assert (request.beam_search, request.num_candidates, request.length_penalty) == (True, 4, 0.5)


def page(path: str, requests: Served | None = None, service: OneCard | None = None) -> Reply:
    (companion,) = (each for each in VLLM.companions if (each.method, each.path) == ("GET", path))
    service = service or OneCard()
    service.requests = requests or Served()

    async def answered() -> Reply:
        return await companion.answer(service, {})

    return asyncio.run(answered())


def test_a_model_of_several_names_counts_once() -> None:
    assert page("/load").body == {"server_load": 3}


def test_metrics_have_the_names_that_gateways_look_for() -> None:
    reply = page("/metrics")
    assert dict(reply.headers)["content-type"].startswith("text/plain; version=0.0.4")
    lines = reply.body.splitlines()
    assert 'vllm:num_requests_running{engine="0",model_name="tiny"} 2' in lines
    assert 'vllm:num_requests_waiting{engine="0",model_name="tiny"} 1' in lines
    assert 'vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0' in lines
    assert "# TYPE vllm:prefix_cache_hits_total counter" in lines
    assert "# TYPE vllm:prompt_tokens_cached_total counter" in lines
    assert sum(line.startswith("vllm:num_requests_running") for line in lines) == 1
    assert len([line for line in lines if line.startswith("vllm:cache_config_info{")]) == 1


def test_metrics_tell_right_guesses_by_their_place() -> None:
    """Where there are some, as vLLM has them with speculation alone."""
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    assert name not in page("/metrics").body

    class Drafting(OneCard):
        async def stats(self, model: str) -> Stats:
            return Stats(draft_accepted_at=(3, 1))

    lines = page("/metrics", service=Drafting()).body.splitlines()
    assert f'{name}{{engine="0",model_name="tiny",position="1"}} 1' in lines


def test_metrics_have_what_vllms_dashboards_read() -> None:
    """Each name that examples/observability of vLLM has in an expression."""
    first = Buckets((0.5, 1.0), (1.0, 0.0, 2.0), 7.25)
    requests = Served(reasons={"stop": 3, "length": 0}, first_s=first)
    families = {
        family.name: family
        for family in text_string_to_metric_families(page("/metrics", requests).body)
    }
    asked = {
        *("e2e_request_latency_seconds", "time_to_first_token_seconds"),
        *("inter_token_latency_seconds", "request_queue_time_seconds"),
        *("request_prefill_time_seconds", "request_decode_time_seconds"),
        *("request_prompt_tokens", "request_generation_tokens", "iteration_tokens_total"),
        *("request_max_num_generation_tokens", "request_success", "kv_cache_usage_perc"),
        *("num_requests_running", "num_requests_waiting", "prompt_tokens", "generation_tokens"),
    }
    assert asked <= {name.removeprefix("vllm:") for name in families}
    success = families["vllm:request_success"].samples
    assert [(each.labels["finished_reason"], each.value) for each in success] == [
        ("stop", 3),
        ("length", 0),
    ]
    samples = families["vllm:time_to_first_token_seconds"].samples
    named = {(each.name[33:], each.labels.get("le", "")): each.value for each in samples}
    buckets = {("bucket", "0.5"): 1, ("bucket", "1.0"): 1, ("bucket", "+Inf"): 3}
    assert named == {**buckets, ("count", ""): 3, ("sum", ""): 7.25}
    assert families["vllm:iteration_tokens_total"].samples[-2].value == 4


@pytest.mark.parametrize(("sent", "meant"), [(1, True), ("true", True), (0, False), ("No", False)])
def test_flags_are_read_as_leniently_as_numbers(sent: Any, meant: bool) -> None:
    request = parse(echo=sent, stream=sent, skip_special_tokens=sent).request
    assert (request.echo, request.show_special) == (meant, not meant)
    assert parse(stream=sent).stream is meant


@pytest.mark.parametrize("sent", [2, 0.5, "maybe", "", [], {}])
def test_but_not_everything_is_a_flag(sent: Any) -> None:
    with pytest.raises(InvalidField):
        parse(echo=sent)


def test_every_token_has_its_log_probability() -> None:
    assert parse(stop="x", logprobs=0).request.score_stops
    assert parse(suffix="x").request.score_stops


def test_ids_that_are_told_with_each_choice_are_known_to_the_engine() -> None:
    assert parse(return_token_ids=True).request.tells_ids
    assert not parse().request.tells_ids


def test_members_of_a_choice_are_in_vllms_order() -> None:
    call = parse(echo=True, logprobs=1, return_token_ids=True)
    answer = VLLM.operations[0].renderer(call).fold(Tally(call.request))
    (choice,) = answer["choices"]
    assert list(choice) == [
        *("index", "text", "logprobs", "finish_reason", "stop_reason"),
        *("token_ids", "prompt_logprobs", "prompt_token_ids", "routed_experts", "weight_versions"),
    ]
    assert list(choice["logprobs"]) == ["text_offset", "token_logprobs", "tokens", "top_logprobs"]


@pytest.mark.parametrize(
    ("side", "how"),
    [
        ({}, Truncation(max_tokens=3, keeps_bos=True)),
        ({"truncation_side": "left"}, Truncation(max_tokens=3)),
        ({"truncation_side": "right"}, Truncation(max_tokens=3, side="end")),
    ],
)
def test_only_a_side_that_is_named_cuts_a_bos_off(side: dict[str, str], how: Truncation) -> None:
    assert parse(truncate_prompt_tokens="3", **side).request.truncation == how


@pytest.mark.parametrize(
    ("sent", "parts"),
    [
        ([1.0, True, 2], [((1, 1, 2),)]),
        ([[1.0], [2]], [((1,),), ((2,),)]),
        (["1", "2"], [("1",), ("2",)]),
        (["", "a"], [("",), ("a",)]),
        (["a", 1.0], [("a", (1,))]),
    ],
)
def test_prompts_are_read_leniently_and_texts_stay_texts(sent: Any, parts: list[Any]) -> None:
    assert [prompt.parts for prompt in parse(prompt=sent).request.prompts] == parts


@pytest.mark.parametrize("sent", [[1.5], [[1.5]], [[[1]]], [None], [], [[]], [1e300], {}, 5])
def test_but_not_everything_is_a_prompt(sent: Any) -> None:
    with pytest.raises(InvalidField) as error:
        parse(prompt=sent)
    assert error.value.param == "prompt"


@pytest.mark.parametrize("key", ["9" * 5000, "-1", "", "1.0", "a", "2" * 20])
def test_keys_of_biases_are_token_ids(key: str) -> None:
    with pytest.raises(InvalidField) as error:
        parse(logit_bias={key: 1})
    assert error.value.param == "logit_bias"


@pytest.mark.parametrize(
    ("sent", "bias"), [("5", 5.0), (True, 1.0), ("inf", 100.0), (-1e9, -100.0)]
)
def test_biases_are_read_leniently_too(sent: Any, bias: float) -> None:
    assert parse(logit_bias={" 07": sent}).request.sampling.logit_bias == {7: bias}


@pytest.mark.parametrize("sent", ["nan", "x", None, [], {}])
def test_but_not_everything_is_a_bias(sent: Any) -> None:
    with pytest.raises(InvalidField):
        parse(logit_bias={"7": sent})


@pytest.mark.parametrize(("sent", "meant"), [(False, None), (True, 1), (0, 0), (20, 20)])
def test_false_asks_for_no_log_probabilities(sent: Any, meant: int | None) -> None:
    request = parse(logprobs=sent, prompt_logprobs=sent).request
    assert (request.logprobs, request.prompt_logprobs) == (meant, meant)


def test_an_error_of_no_field_names_none() -> None:
    assert VLLM.error(InvalidField("nothing is left")).body["error"]["message"] == "nothing is left"
