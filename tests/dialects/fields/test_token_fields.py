from typing import Any

import pytest

from segue.dialects.base import Call, Dialect, Stamp
from segue.dialects.fields.token_fields import SHIFTS
from segue.dialects.llamastack import LLAMASTACK
from segue.dialects.openai import OPENAI
from segue.dialects.vllm import VLLM
from segue.errors import InvalidField
from segue.types import Prompt, Repetition, Shift, Truncation

STAMP = Stamp(request_id="r", public_id="p", created=5, seed=99, fingerprint="f")


def parse(**body: Any) -> Call:
    return OPENAI.operations[0].parse({"prompt": ["a", [1, 2]], **body}, STAMP)


def test_special_tokens() -> None:
    plain = parse().request
    assert plain.prompts == (Prompt(("a",)), Prompt(((1, 2),)))
    assert not plain.show_special
    request = parse(add_special_tokens=False, skip_special_tokens=False).request
    assert request.prompts == (Prompt(("a",), False), Prompt(((1, 2),), False))
    assert request.show_special
    same = parse(add_special_tokens=True, skip_special_tokens=True)
    assert same.request == plain


@pytest.mark.parametrize(
    ("body", "truncation"),
    [
        ({}, None),
        ({"truncate_prompt_tokens": 5}, Truncation(max_tokens=5)),
        ({"truncate_prompt_tokens": -1}, Truncation()),
        (
            {"truncate_prompt_tokens": 5, "truncation_side": "right"},
            Truncation(max_tokens=5, side="end"),
        ),
        ({"truncation_side": "right"}, None),
    ],
)
def test_truncation(body: dict[str, Any], truncation: Truncation | None) -> None:
    assert parse(**body).request.truncation == truncation


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ({"max_pattern_size": 5, "min_count": 3}, Repetition(max_size=5, min_count=3)),
        (
            {"max_pattern_size": "5", "min_pattern_size": 2, "min_count": 2.0},
            Repetition(max_size=5, min_size=2),
        ),
        ({}, None),
        (None, None),
        ({"min_count": 3}, None),
    ],
)
def test_repetition(sent: Any, meant: Repetition | None) -> None:
    assert parse(repetition_detection=sent).request.repetition == meant


@pytest.mark.parametrize(
    ("body", "shift", "ignored"),
    [
        ({}, None, ()),
        ({"shift": True}, Shift(), ()),
        ({"shift": True, "n_keep": 5, "n_discard": 7}, Shift(num_kept=5, num_dropped=7), ()),
        ({"shift": True, "num_keep": -1}, Shift(num_kept=-1), ()),
        ({"shift": True, "options": {"num_keep": 3}}, Shift(num_kept=3), ()),
        ({"shift": False, "n_keep": 5, "n_discard": 7}, None, ("n_keep", "n_discard")),
        ({"n_keep": 5, "truncate_sequence": True}, None, ()),
        ({"n_keep": 5, "truncate_prompt_tokens": 9, "truncation_side": "right"}, None, ("n_keep",)),
        ({"prompt": "a", "suffix": "b", "shift": True}, None, ("shift",)),
        ({"prompt": "a", "use_beam_search": True, "shift": True}, Shift(), ()),
    ],
)
def test_shift(body: dict[str, Any], shift: Shift | None, ignored: tuple[str, ...]) -> None:
    call = parse(**body)
    assert (call.request.shift, call.ignored) == (shift, ignored)


def test_a_server_may_let_answers_shift_that_say_nothing_of_it() -> None:
    complete = OPENAI.operations[0]
    for body, shift in (
        ({}, Shift(optional=True)),
        ({"shift": False}, None),
        ({"shift": True}, Shift()),
        ({"use_beam_search": True}, None),
        ({"suffix": "b"}, None),
    ):
        call = complete.parse({"prompt": "a", **body}, STAMP, {SHIFTS: True})
        assert (call.request.shift, call.ignored) == (shift, ())


def test_what_stays_of_a_prompt_that_is_cut() -> None:
    assert parse(truncate_sequence=True, n_keep=5).request.truncation == Truncation(num_kept=5)


@pytest.mark.parametrize(
    "body", [{"n_keep": -2}, {"n_keep": 2**31}, {"n_discard": -1}, {"n_discard": 2**63}]
)
def test_what_stays_and_goes_is_in_range(body: dict[str, Any]) -> None:
    (name,) = body
    with pytest.raises(InvalidField, match=f"{name} must be"):
        parse(shift=True, **body)


def test_a_misspelt_limit_of_repetition_is_refused() -> None:
    with pytest.raises(InvalidField, match="repetition_detection"):
        parse(repetition_detection={"max_pattern": 5, "min_count": 3})


def test_a_side_alone_is_named_as_ignored() -> None:
    assert parse(truncation_side="left").ignored == ("truncation_side",)


def test_what_stands_around_a_gap_is_cut_to_the_context_alone() -> None:
    sent = {"truncate_prompt_tokens": 5, "truncation_side": "left"}
    assert parse(suffix="x", **sent).ignored == tuple(sent)
    assert parse(suffix="x", truncate_prompt_tokens=-1).ignored == ()


@pytest.mark.parametrize(
    "body",
    [
        {"truncate_prompt_tokens": 5, "truncate_sequence": True},
        {"truncate_prompt_tokens": -2},
        {"truncate_prompt_tokens": 0},
        {"truncate_prompt_tokens": 5, "truncation_side": "middle"},
        {"skip_special_tokens": "no"},
    ],
)
def test_refused(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as error:
        parse(**body)
    assert error.value.param in body


def test_ollamas_options_are_known_at_the_root() -> None:
    options = {"num_predict": 7, "temperature": 0.5, "repeat_penalty": 1.2, "num_ctx": 9}
    call = parse(options=options, keep_alive="1m")
    assert call.request.max_tokens == 7
    assert call.request.sampling.temperature == 0.5
    assert call.request.sampling.repetition_penalty == 1.2
    assert call.ignored == ("options.num_ctx",)
    assert call.keep_s == 60.0


every = pytest.mark.parametrize("dialect", [OPENAI, VLLM, LLAMASTACK], ids=lambda each: each.name)


def parse_as(dialect: Dialect, **body: Any) -> Call:
    return dialect.operations[0].parse({"model": "m", "prompt": "a", **body}, STAMP)


@every
def test_tokens_that_are_asked_for(dialect: Dialect) -> None:
    call = parse_as(dialect, logprobs=1, logprob_token_ids=[7, 3, 7])
    assert call.request.logprob_token_ids == (7, 3)
    assert call.request.num_top == 2
    assert call.ignored == ()
    nothing: tuple[list[int] | None, ...] = ([], None)
    for none in nothing:
        request = parse_as(dialect, logprobs=1, logprob_token_ids=none).request
        assert (request.logprob_token_ids, request.num_top) == ((), 1)


@every
@pytest.mark.parametrize(
    "body",
    [
        {"logprob_token_ids": [1]},
        {"logprobs": 1, "logprob_token_ids": [1], "echo": True, "max_tokens": 0},
        {"logprobs": 1, "logprob_token_ids": [1], "use_beam_search": True},
        {"logprobs": 1, "logprob_token_ids": list(range(129))},
        {"logprobs": 1, "logprob_token_ids": [-1]},
        {"logprobs": 1, "logprob_token_ids": ["x"]},
        {"logprobs": 1, "logprob_token_ids": 5},
        {"logprobs": 1, "logprob_token_ids": {"1": 2}},
    ],
    ids=str,
)
def test_what_is_refused(dialect: Dialect, body: dict[str, Any]) -> None:
    if dialect is LLAMASTACK and body.get("max_tokens") == 0:
        body = body | {"max_tokens": None, "n_predict": 0}
    with pytest.raises(InvalidField) as caught:
        parse_as(dialect, **body)
    assert caught.value.param == "logprob_token_ids"


def test_vllm_reads_ids_as_leniently_as_its_own_server() -> None:
    call = parse_as(VLLM, logprobs=1.0, logprob_token_ids=["7", 3.0, True])
    assert call.request.logprob_token_ids == (7, 3, 1)
