"""`/inference/v1/generate` reads its settings as vLLM's SamplingParams, not as its /v1/completions does."""

from typing import Any

import pytest

from segue.dialects.base import Call, Stamp
from segue.dialects.vllm.generate import GENERATE
from segue.errors import InvalidField

STAMP = Stamp(request_id="r", public_id="r", created=5, seed=99, fingerprint="f")


def parse(**settings: Any) -> Call:
    return GENERATE.parse({"token_ids": [1], "sampling_params": settings}, STAMP)


NUMBERS = ("n", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty")
FLAGS = ("ignore_eos", "include_stop_str_in_output", "skip_special_tokens", "detokenize")
OPTIONAL = (
    *("seed", "stop", "stop_token_ids", "max_tokens", "logprobs", "prompt_logprobs", "logit_bias"),
    *("bad_words", "allowed_token_ids", "structured_outputs", "repetition_detection"),
    *("stream_interval", "logprob_token_ids", "trace_decode_token_ids"),
)


@pytest.mark.parametrize("name", [*NUMBERS, "repetition_penalty", "min_tokens", *FLAGS])
def test_null_is_no_number_and_no_flag(name: str) -> None:
    """It was read as left out, where vLLM answers 400."""
    with pytest.raises(InvalidField, match="not null") as error:
        parse(**{name: None})
    assert error.value.param == f"sampling_params.{name}"


@pytest.mark.parametrize("name", OPTIONAL)
def test_null_is_what_is_left_out_where_it_may_be(name: str) -> None:
    assert parse(**{name: None}).request == parse().request


@pytest.mark.parametrize("bias", [-500.0, 250, 1e4])
def test_biases_are_not_clamped(bias: float) -> None:
    """They were, to 100, as those of /v1/completions are."""
    assert parse(logit_bias={"7": bias}).request.sampling.logit_bias == {7: bias}


@pytest.mark.parametrize("name", ["logprobs", "prompt_logprobs"])
@pytest.mark.parametrize("sent", ["5", " 5 ", "5.0", 5.0])
def test_a_number_of_alternatives_may_come_as_text(name: str, sent: Any) -> None:
    """SamplingParams takes it, which /v1/completions does not; here neither did."""
    assert parse(**{name: sent}) == parse(**{name: 5})


@pytest.mark.parametrize("name", ["logprobs", "prompt_logprobs"])
@pytest.mark.parametrize("sent", ["x", "", "1.5", "-1", 1.5, []])
def test_what_is_no_number_of_alternatives(name: str, sent: Any) -> None:
    with pytest.raises(InvalidField, match="from 0 to"):
        parse(**{name: sent})
