import dataclasses
from typing import Any

import msgspec
import pytest

from segue.bounds import LONGEST_MIDDLE
from segue.config import TABLE
from segue.dialects import DIALECTS
from segue.dialects.base import Stamp
from segue.dialects.openai import OPENAI
from segue.errors import InvalidField
from segue.server.admission import request_caps
from segue.server.admission.request_caps import Caps
from segue.types import Constraint, Infill, Prompt
from tests.server.conftest import Launch

STAMP = Stamp(request_id="r", public_id="r", created=0, seed=1, fingerprint="f")
SMALL = Caps(
    n=2,
    best_of=3,
    prompts=4,
    choices=6,
    stops=1,
    logprobs=2,
    logit_bias=1,
    grammar_chars=20,
    total_tokens=100,
)


def call(**body: Any) -> Any:
    return OPENAI.operations[0].parse({"prompt": "a", **body}, STAMP)


def fill(**body: Any) -> Any:
    made = call(**body)
    filling = Infill(suffix=Prompt(("after",)))
    return msgspec.structs.replace(
        made, request=msgspec.structs.replace(made.request, infill=filling)
    )


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"n": 3}, "n"),
        ({"best_of": 4}, "best_of"),
        ({"prompt": ["a"] * 5}, "prompt"),
        ({"prompt": ["a"] * 4, "n": 2}, "n"),
        ({"prompt": ["a"] * 3, "n": 1, "best_of": 3}, "best_of"),
        ({"stop": ["a", "b"]}, "stop"),
        ({"logprobs": 3}, "logprobs"),
        ({"prompt_logprobs": 3}, "prompt_logprobs"),
        ({"logit_bias": {"1": 1, "2": 1}}, "logit_bias"),
        ({"logit_bias": {"text keys": 1, "count too": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 1, "one of each": 1}}, "logit_bias"),
    ],
)
def test_each_cap_names_its_field(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField, match="on this server") as error:
        SMALL.check(call(**body))
    assert error.value.param == param
    flag = error.value.message.partition("(")[2].removesuffix(")")
    assert flag in {row.flag for row in TABLE}
    Caps().check(call(**body))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"n": 5000}, "n must be an integer from 1 to 4096, not 5000; at most 2"),
        ({"n": "2"}, 'n must be an integer from 1 to 4096, not "2"; at most 2'),
        ({"best_of": 0}, "best_of must be an integer from 1 to 4096, not 0; at most 3"),
        ({"logprobs": 1001}, "logprobs must be an integer from 0 to 1000, not 1001; at most 2"),
        ({"prompt_logprobs": 1.5}, "prompt_logprobs must be .*, not 1.5; at most 2"),
        ({"top_logprobs": -1}, "top_logprobs must be .*, not -1; at most 2"),
    ],
)
def test_what_a_dialect_refuses_is_told_with_this_servers_bound(
    body: dict[str, Any], told: str
) -> None:
    """Else what is right for the dialect is refused the next time."""
    operation, larger = OPENAI.operations[0], Caps(n=10**6, best_of=4096, logprobs=1000)
    with pytest.raises(InvalidField, match=rf"^{told} on this server \(--max-[a-z-]+\)$"):
        SMALL.told_by(operation).parse({"prompt": "a", **body}, STAMP)
    with pytest.raises(InvalidField) as error:
        larger.told_by(operation).parse({"prompt": "a", **body}, STAMP)
    assert "server" not in error.value.message


def test_the_largest_numbers_of_the_dialects_are_those_that_bounds_are_compared_with() -> None:
    for operation in (each for dialect in DIALECTS for each in dialect.operations):
        for row in operation.table.rows:
            if row.target in request_caps._NUMBERS:
                schema = row.kind.schema()
                largest = schema.get("anyOf", [schema])[0]["maximum"]
                assert largest == request_caps._NUMBERS[row.target][1], row.name


@pytest.mark.parametrize(
    "body",
    [
        {"n": 2, "best_of": 3, "stop": "a", "logprobs": 2, "logit_bias": {"1": 1}},
        {"prompt": ["a"] * 3, "n": 2},
    ],
)
def test_up_to_the_cap_is_fine(body: dict[str, Any]) -> None:
    SMALL.check(call(**body))


@pytest.mark.parametrize(
    ("body", "param"),
    [({"max_tokens": 51, "n": 2}, "max_tokens"), ({"n_predict": -1, "n": 2}, "n_predict")],
)
def test_tokens_over_all_candidates(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as error:
        SMALL.check_length(call(**body), context_length=80, has_fim=True)
    assert error.value.param == param


def test_a_ranked_infill_counts_as_all_that_it_draws() -> None:
    """At most 100 tokens over all candidates, and 8 candidates; a model without FIM tokens draws 8."""
    caps = dataclasses.replace(SMALL, choices=8)
    asked = fill(max_tokens=20)
    caps.check_length(asked, 80, has_fim=True)
    with pytest.raises(InvalidField, match="8 candidates"):
        caps.check_length(asked, 80, has_fim=False)
    two = fill(max_tokens=1, prompt=["a", "b"])
    caps.check_length(two, 80, has_fim=True)
    with pytest.raises(InvalidField) as error:
        caps.check_length(two, 80, has_fim=False)
    assert error.value.param == "prompt"
    caps.check_length(fill(max_tokens=20, best_of=5), 80, has_fim=False)
    SMALL.check_length(fill(max_tokens=0), 80, has_fim=False)  # it only reads: one candidate


def test_a_middle_without_a_bound_counts_as_the_longest_there_is() -> None:
    caps = dataclasses.replace(SMALL, choices=8, total_tokens=8 * LONGEST_MIDDLE)
    caps.check_length(fill(n_predict=-1), 10**6, has_fim=False)
    with pytest.raises(InvalidField):
        caps.check_length(fill(n_predict=-1), 10**6, has_fim=True)
    with pytest.raises(InvalidField):
        caps.check_length(fill(max_tokens=LONGEST_MIDDLE + 1), 10**6, has_fim=False)


def test_a_candidate_is_never_longer_than_the_context() -> None:
    SMALL.check_length(call(max_tokens=10**6, n=2), context_length=50, has_fim=True)
    SMALL.check_length(call(max_tokens=50, n=2), context_length=80, has_fim=True)


def test_answers_that_go_on_past_their_context_end_there() -> None:
    """Not refused: in some dialects they go on though nobody has asked for it."""
    for max_tokens in (-1, 10**6):
        asked = call(max_tokens=max_tokens, shift=True, n=2)
        SMALL.check_length(asked, context_length=50, has_fim=True)
        bounded = SMALL.bounded(asked.request)
        assert bounded.shift is not None
        assert (bounded.max_tokens, bounded.shift.most_tokens) == (asked.request.max_tokens, 50)
    plain = call().request
    assert SMALL.bounded(plain) is plain


def test_the_size_of_a_constraint_is_told_under_its_own_name() -> None:
    for value in ("x" * 21, ("x" * 11, "y" * 10)):
        constraint = Constraint(kind="regex", value=value, param="guided_regex")
        made = call()
        request = msgspec.structs.replace(made.request, constraint=constraint)
        with pytest.raises(InvalidField, match="at most 20 characters") as error:
            SMALL.check(msgspec.structs.replace(made, request=request))
        assert error.value.param == "guided_regex"


def test_caps_over_http(launch: Launch) -> None:
    live = launch(caps=SMALL)
    for body in ({"n": 3}, {"max_tokens": 51, "n": 2, "stream": True}, {"n": 5000}):
        answer = live.complete(**body)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] in body
    assert answer.json()["error"]["message"].endswith("at most 2 on this server (--max-n)")
    assert live.engine.requests == []
