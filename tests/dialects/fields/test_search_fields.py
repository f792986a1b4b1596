from typing import Any

import pytest

from segue.dialects.base import Call, Dialect, Stamp
from segue.dialects.openai import OPENAI
from segue.dialects.vllm import VLLM
from segue.errors import InvalidField

STAMP = Stamp(request_id="r", public_id="p", created=5, seed=99, fingerprint="f")

both = pytest.mark.parametrize("dialect", [OPENAI, VLLM], ids=lambda each: each.name)


def parse(dialect: Dialect, **body: Any) -> Call:
    return dialect.operations[0].parse({"prompt": "a", **body}, STAMP)


@both
def test_the_fields_of_a_search(dialect: Dialect) -> None:
    request = parse(dialect, use_beam_search=True, n=4, length_penalty=0.5, priority=3).request
    assert (request.beam_search, request.num_candidates) == (True, 4)
    assert (request.length_penalty, request.priority) == (0.5, 3)
    assert parse(dialect, use_beam_search=True, echo=True).request.echo
    assert parse(dialect, use_beam_search=True, logprobs=0).request.logprobs == 0


@both
def test_beams_name_what_has_no_effect_on_them(dialect: Dialect) -> None:
    drawing = {"temperature": 0.7, "top_p": 0.5, "seed": 4}
    call = parse(dialect, use_beam_search=True, n=2, ignore_eos=True, **drawing)
    assert set(call.ignored) == set(drawing)
    assert parse(dialect, length_penalty=2.0).ignored == ("length_penalty",)


@both
@pytest.mark.parametrize(
    ("body", "param"),
    [({"stream": True}, "stream"), ({"echo": True, "logprobs": 1}, "echo")],
    ids=str,
)
def test_what_beams_refuse(dialect: Dialect, body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as caught:
        parse(dialect, use_beam_search=True, **body)
    assert caught.value.param == param


@both
@pytest.mark.parametrize("value", [-17, 17, "long"])
def test_a_length_penalty_has_bounds(dialect: Dialect, value: Any) -> None:
    with pytest.raises(InvalidField) as caught:
        parse(dialect, use_beam_search=True, length_penalty=value)
    assert caught.value.param == "length_penalty"


def test_the_root_names_samplers_of_others_too() -> None:
    body = {"use_beam_search": True, "mirostat": 2, "samplers": ["top_k"]}
    assert set(parse(OPENAI, **body).ignored) == {"mirostat", "samplers"}
