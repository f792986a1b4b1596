import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.bounds import MAX_CANDIDATES
from segue.dialects.base import Call, Operation, Stamp
from segue.dialects.fields.kinds import Text
from segue.dialects.fields.table import Field, Table
from segue.dialects.openai import OPENAI, error_reply
from segue.dialects.openai.fields import FIELDS
from segue.errors import BY_CODE, EngineFault, InvalidField, Overloaded, RequestError, UnknownModel
from segue.types import CompletionRequest, Infill, Prompt, Sampling

STAMP = Stamp(request_id="r", public_id="p", created=5, seed=99, fingerprint="f")


def parse(**body: Any) -> Call:
    return OPENAI.operations[0].parse({"prompt": "a", **body}, STAMP)


def test_defaults_are_openais() -> None:
    call = parse()
    assert call.request == CompletionRequest(
        request_id="r", model="", prompts=(Prompt(("a",)),), sampling=Sampling(seed=99)
    )
    assert call.request.max_tokens == 16
    assert not call.stream
    assert call.ignored == ()


OPTIONAL = [row for row in FIELDS.rows if not row.required]


def test_null_is_absent_for_every_optional_field() -> None:
    body = {name: None for row in OPTIONAL for name in row.spellings}
    assert parse(**body, stream_options=None) == parse()


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        ({"max_tokens": -1}, "max_tokens", None),
        ({"max_tokens": 0}, "max_tokens", 0),
        ({"max_completion_tokens": 5}, "max_tokens", 5),
        ({"n_predict": 5}, "max_tokens", 5),
        ({"best_of": 1}, "best_of", None),
        ({"best_of": 3, "n": 2}, "best_of", 3),
        ({"logprobs": True}, "logprobs", 1),
        ({"logprobs": False}, "logprobs", None),
        ({"logprobs": 0}, "logprobs", 0),
        ({"logprobs": True, "top_logprobs": 3}, "logprobs", 3),
        ({"logprobs": 4, "top_logprobs": 3}, "logprobs", 4),
        ({"top_logprobs": 3}, "logprobs", None),
        ({"n_probs": 3}, "logprobs", 3),
        ({"n_cmpl": 3}, "n", 3),
        ({"logprobs": 2, "echo": True}, "prompt_logprobs", 2),
        ({"logprobs": 2}, "prompt_logprobs", None),
        ({"echo": True}, "prompt_logprobs", None),
        ({"logprobs": 2, "echo": True, "prompt_logprobs": 0}, "prompt_logprobs", 2),
        ({"prompt_logprobs": 4}, "prompt_logprobs", 4),
        ({"stop": "x"}, "stop", ("x",)),
        ({"cache_prompt": False}, "use_cache", False),
        ({"cache_salt": "s"}, "cache_salt", "s"),
        ({"suffix": ""}, "infill", None),
        ({"suffix": "x"}, "infill", Infill(suffix=Prompt(("x",), parse_special=False))),
        ({"model": "m"}, "model", "m"),
    ],
)
def test_request_fields(body: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(parse(**body).request, field) == value


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        ({"temperature": 0}, "temperature", 0.0),
        ({"top_k": -1}, "top_k", 0),
        ({"repeat_penalty": 1.1}, "repetition_penalty", 1.1),
        ({"repeat_last_n": 64}, "penalty_window", 64),
        ({"logit_bias": {"5": -100}}, "logit_bias", {5: -100.0}),
        ({"logit_bias": [[5, False]]}, "logit_bias", {5: -math.inf}),
        ({"logit_bias": {"5": 1, "up": 2}}, "text_bias", (("up", 2.0),)),
        ({"samplers": ["top-k", "Temp"]}, "order", ("top_k", "temperature")),
        ({"samplers": "kt"}, "order", ("top_k", "temperature")),
        ({"samplers": []}, "order", ()),
        ({"mirostat": 2}, "mirostat", 2),
        ({"min_tokens": 2}, "min_tokens", 2),
        ({"stop_token_ids": [2]}, "stop_token_ids", (2,)),
        ({"allowed_token_ids": [2]}, "allowed_token_ids", (2,)),
        ({"bad_words": ["a"]}, "bad_words", ("a",)),
        ({"options": {"typical_p": 0.5}}, "typical_p", 0.5),
        ({"dry_penalty_last_n": 9}, "dry_window", 9),
        ({"dry_sequence_breakers": ["a"]}, "dry_sequence_breakers", ("a",)),
        ({"dry_sequence_breakers": '["\\n", "*"]'}, "dry_sequence_breakers", ("\n", "*")),
        ({"dry_sequence_breakers": '"a", ":"'}, "dry_sequence_breakers", ("a", ":")),
        ({"dry_sequence_breakers": ""}, "dry_sequence_breakers", ()),
        ({"ignore_eos": True}, "ignore_eos", True),
        ({"seed": 7}, "seed", 7),
        ({"seed": -1}, "seed", 99),
    ],
)
def test_sampling_fields(body: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(parse(**body).request.sampling, field) == value


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"n": 0}, "n"),
        ({"n": 4097}, "n"),
        ({"n": True}, "n"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"n": 128, "prompt": ["a"] * (MAX_CANDIDATES // 128 + 1)}, "n"),
        ({"best_of": 128, "prompt": ["a"] * (MAX_CANDIDATES // 128 + 1)}, "best_of"),
        ({"suffix": 5}, "suffix"),
        ({"grammar": "x", "json_schema": {}}, "json_schema"),
        ({"guided_choice": "a"}, "guided_choice"),
        ({"structured_outputs": {"json": {}, "regex": "a"}}, "structured_outputs"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"format": "xml"}, "format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"grammar_lazy": True, "json_schema": {}}, "grammar_triggers"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"max_completion_tokens": 0.5}, "max_completion_tokens"),
        ({"logprobs": 1001}, "logprobs"),
        ({"temperature": 2.5}, "temperature"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"top_k": -2}, "top_k"),
        ({"stream": 1}, "stream"),
        ({"stream_options": True}, "stream_options"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"seed": 2**63}, "seed"),
        ({"user": 5}, "user"),
        ({"samplers": ["banana"]}, "samplers"),
        ({"samplers": "q"}, "samplers"),
        ({"samplers": "k" * 33}, "samplers"),
        ({"dry_sequence_breakers": "a, b"}, "dry_sequence_breakers"),
        ({"dry_sequence_breakers": "[[1]]"}, "dry_sequence_breakers"),
        ({"dry_sequence_breakers": "[" * 8000}, "dry_sequence_breakers"),
        ({"logit_bias": {"5": True}}, "logit_bias"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"logit_bias": [[5]]}, "logit_bias"),
        ({"logit_bias": [[-1, 1]]}, "logit_bias"),
        ({"logit_bias": [[None, 1]]}, "logit_bias"),
    ],
)
def test_refused(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as error:
        parse(**body)
    assert error.value.param == param
    assert error.value.message.startswith(param)


def test_ineffective_fields_are_named() -> None:
    call = parse(
        stream_options={"include_usage": True, "x": 1}, banana=1, n_predict=5, max_tokens=4
    )
    assert call.request.max_tokens == 4
    assert set(call.ignored) == {
        "banana",
        "n_predict",
        "stream_options.include_usage",
        "stream_options.x",
    }


# What SillyTavern sends to a server of the type Generic: the settings of every server that it knows.
SILLY_TAVERN: dict[str, Any] = {
    "max_new_tokens": 8, "max_tokens": 8, "n_predict": 8, "num_predict": 8, "temperature": 1, "top_p": 1,
    "typical_p": 1, "typical": 1, "min_p": 0.1, "top_k": 0, "top_a": 0, "tfs": 1, "tfs_z": 1, "skew": 0,
    "repetition_penalty": 1.1, "repeat_penalty": 1.1, "rep_pen": 1.1, "rep_pen_range": 0, "repeat_last_n": 0,
    "repetition_penalty_range": 0, "frequency_penalty": 0, "presence_penalty": 0, "min_tokens": 0,
    "add_bos_token": True, "ban_eos_token": False, "ignore_eos": False, "skip_special_tokens": True,
    "smoothing_factor": 0, "smoothing_curve": 1, "dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 2,
    "dry_sequence_breakers": '["\\n", ":", "\\"", "*"]', "dry_penalty_last_n": 0, "max_tokens_second": 0,
    "stop": ["\nYou:"], "stopping_strings": ["\nYou:"], "truncation_length": 2048, "include_reasoning": True,
    "mirostat_mode": 0, "mirostat": 0, "mirostat_tau": 5, "mirostat_eta": 0.1, "custom_token_bans": "",
    "banned_strings": [], "xtc_threshold": 0.1, "xtc_probability": 0, "nsigma": 0, "guidance_scale": 1,
    "negative_prompt": "", "grammar_string": "", "api_type": "generic", "api_server": "http://127.0.0.1:8080",
    "stream": True,
}  # fmt: skip


def test_the_whole_settings_of_a_client_are_taken() -> None:
    call = parse(**SILLY_TAVERN)
    assert (call.request.max_tokens, call.request.sampling.repetition_penalty) == (8, 1.1)
    assert call.request.sampling.dry_sequence_breakers == ("\n", ":", '"', "*")
    assert {"smoothing_factor", "num_predict", "api_type"} <= set(call.ignored)


def test_usage_so_far_without_usage_has_no_effect() -> None:
    options = {"continuous_usage_stats": True}
    assert parse(stream=True, stream_options=options).ignored == (
        "stream_options.continuous_usage_stats",
    )
    assert parse(stream=True, stream_options={**options, "include_usage": True}).ignored == ()
    assert parse(stream=True, stream_options={"continuous_usage_stats": False}).ignored == ()


NAMES = sorted({name.partition(".")[0] for row in FIELDS.rows for name in row.spellings})
numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([-(2**63), 2**31, 2**53 + 1, 2**63, 2**64, 10**400, -0.0, 1e308]),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=8))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.text(max_size=3), st.sampled_from(NAMES)), inner, max_size=3),
    ),
    max_leaves=8,
)


def refused(body: dict[str, Any]) -> RequestError | None:
    try:
        OPENAI.operations[0].parse(body, STAMP)
    except RequestError as error:
        return error
    return None


@given(st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(max_size=5)), values))
def test_any_json_is_a_call_or_a_request_error(body: dict[str, Any]) -> None:
    """Whatever a field holds, bad input never becomes anything but a 4xx that names it."""
    refusal = refused(body)
    assert refusal is None or (refusal.status == 400 and refusal.param)


@given(st.sampled_from([name for name in NAMES if name != "prompt"]), values)
def test_one_odd_field_in_a_good_request(name: str, value: Any) -> None:
    refusal = refused({"prompt": "a", name: value})
    assert refusal is None or (refusal.param or "").startswith(name)


def test_a_target_that_does_not_exist_is_found_at_import() -> None:
    for target in ("nonsense", "sampling.nonsense"):
        with pytest.raises(ValueError, match="no target"):
            Operation(
                "/x", "", Table((Field("a", Text(1), "", target),)), OPENAI.operations[0].renderer
            )


def test_every_row_is_documented_and_has_a_schema() -> None:
    assert all(row.doc.endswith(".") and row.kind.schema() for row in FIELDS.rows)


@pytest.mark.parametrize("leaf", BY_CODE.values())
def test_error_shape(leaf: type[RequestError]) -> None:
    reply = error_reply(leaf("what happened", "field"))
    assert reply.status == leaf.status
    error = reply.body["error"]
    assert "what happened" in error["message"]
    assert (error["param"], error["code"]) == ("field", leaf.code)


def test_error_types() -> None:
    assert error_reply(UnknownModel("x")).body["error"]["type"] == "not_found_error"
    assert error_reply(Overloaded("x")).body["error"]["type"] == "rate_limit_error"
    assert error_reply(InvalidField("x")).body["error"]["type"] == "invalid_request_error"
    assert error_reply(EngineFault("x")).body["error"]["type"] == "server_error"


def test_ids_that_are_told_with_each_choice_are_known_to_the_engine() -> None:
    """It counts them, which nobody did."""
    for told in ({"return_token_ids": True}, {"return_tokens": True}):
        assert parse(**told).request.tells_ids
    assert not parse(logprobs=0).request.tells_ids


def test_returned_tokens_have_their_log_probabilities() -> None:
    assert parse(return_token_ids=True).request.score_stops
    assert parse(return_token_ids=True, suffix="x").request.score_stops
    assert not parse(logprobs=0).request.score_stops
