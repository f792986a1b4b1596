"""What holds for every operation of every dialect, whatever its tables say."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.bounds import DRAWN_SEEDS, MAX_INT32
from segue.dialects import DIALECTS
from segue.dialects.base import Operation, Stamp
from segue.dialects.fields.defaults import read_defaults
from segue.engine.process import messages
from segue.engine.sampling.sampler import Sampler
from segue.errors import RequestError
from segue.types import CompletionRequest

STAMP = Stamp(request_id="r", public_id="p", created=5, seed=99, fingerprint="f")
OPERATIONS = {
    f"{dialect.name}{operation.path}": operation
    for dialect in DIALECTS
    for operation in dialect.operations
    if "stream" in operation.table.known  # the others write no text
}
GOOD = {"model": "m", "prompt": "a", "token_ids": [1], "input_prefix": "a", "input_suffix": "b"}


def good_body(operation: Operation) -> dict[str, Any]:
    return {row.name: GOOD[row.name] for row in operation.table.rows if row.name in GOOD}


def nested(path: str, value: Any) -> dict[str, Any]:
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


def refusal(operation: Operation, body: Any) -> RequestError | None:
    try:
        operation.parse(body, STAMP)
    except RequestError as error:
        return error
    return None


def arrived(request: CompletionRequest) -> CompletionRequest:
    """As the worker reads it, which ends at a message that it cannot read."""
    body = messages.frame(messages.Submit(request))[messages.HEADER_BYTES :]
    message = messages.worker_messages.decode(body)
    assert isinstance(message, messages.Submit)
    return message.request


def deep(schema: Any, levels: int) -> Any:
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize("levels", [300, 480, 2000])
@pytest.mark.parametrize("name", OPERATIONS)
def test_deeply_nested_values_are_refused_at_most(name: str, levels: int) -> None:
    operation, schema = OPERATIONS[name], deep({"type": "integer"}, levels)
    function = {"type": "function", "function": {"name": "f", "parameters": schema}}
    bodies = (
        {"structured_outputs": {"json": schema, "disable_additional_properties": True}},
        {"response_format": {"type": "json_object", "schema": schema}},
        {"json_schema": schema},
        {"format": schema},
        {"tools": [function], "tool_choice": "required"},
        {"prompt": schema},
    )
    for body in bodies:
        refusal(operation, {**good_body(operation), **body})  # raises nothing else


numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([-(2**63), 2**31, 2**53 + 1, 2**63, 2**64, 10**400, -0.0, 1e308]),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=8))
KEYS = ["type", "value", "function", "name", "schema", "json", "text", "filename", "parameters"]
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.text(max_size=3), st.sampled_from(KEYS)), inner, max_size=3),
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("name", OPERATIONS)
@given(st.data())
@settings(max_examples=40)
def test_any_json_is_a_call_or_a_request_error(name: str, data: st.DataObject) -> None:
    """One to four fields of a good request hold something odd: a 400 that says which, or a call."""
    operation = OPERATIONS[name]
    names = sorted({each for row in operation.table.rows for each in row.spellings})
    odd = data.draw(st.dictionaries(st.sampled_from(names), values, max_size=4))
    body: dict[str, Any] = good_body(operation)
    for path, value in odd.items():
        *groups, last = path.split(".")
        inside = body
        for group in groups:
            inside = inside.setdefault(group, {}) if isinstance(inside, dict) else {}
        inside[last] = value
    error = refusal(operation, body)
    assert error is None or (error.status == 400 and error.param)
    if error is None:
        arrived(operation.parse(body, STAMP).request)


@pytest.mark.parametrize("name", OPERATIONS)
def test_biases_by_text_reach_the_worker(name: str) -> None:
    """It ended at the first request of a dialect that did not tell them from those by token."""
    operation = OPERATIONS[name]
    biases = {"logit_bias": {"7": 1, "sea": -2}}
    defaults = read_defaults(
        ['logit_bias={"7": 1, "sea": -2}'], [OPERATIONS["openai/v1/completions"].table]
    )
    calls = [operation.parse(good_body(operation), STAMP, defaults)]
    if refusal(operation, {**good_body(operation), **biases}) is None:
        calls.append(operation.parse({**good_body(operation), **biases}, STAMP))
    for call in calls:
        sampling = arrived(call.request).sampling
        if "logit_bias" not in call.ignored:
            assert (sampling.logit_bias, sampling.text_bias) == ({7: 1.0}, (("sea", -2.0),))


@pytest.mark.parametrize(
    "name",
    [
        each for each in OPERATIONS if not each.startswith("llamacpp/")
    ],  # refused, as its server does
)
def test_the_largest_integers_of_languages_ask_for_all_there_is(name: str) -> None:
    operation = OPERATIONS[name]
    rows = [row for row in operation.table.rows if row.target in ("max_tokens", "sampling.top_k")]
    assert rows
    for row in rows:
        for most in (2**53 - 1, 2**63 - 1):
            body = good_body(operation) | nested(row.name, most)
            request = operation.parse(body, STAMP).request
            read = request.sampling.top_k if "top_k" in row.name else request.max_tokens
            assert read == MAX_INT32
            assert arrived(request) == request


@pytest.mark.parametrize("name", OPERATIONS)
def test_null_is_absent_where_a_row_says_so(name: str) -> None:
    operation = OPERATIONS[name]
    good = good_body(operation)
    rows = [row for row in operation.table.rows if row.nullable and row.name not in good]
    flat = {each: None for row in rows for each in row.spellings if "." not in each}
    groups = {each.partition(".")[0]: None for row in rows for each in row.spellings if "." in each}
    assert operation.parse({**flat, **groups, **good}, STAMP) == operation.parse(good, STAMP)


@pytest.mark.parametrize("name", OPERATIONS)
def test_unknown_fields_are_named_and_nothing_else(name: str) -> None:
    operation = OPERATIONS[name]
    call = operation.parse({**good_body(operation), "banana": 1, "apple": None}, STAMP)
    assert call.ignored == ("banana",)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_seed_that_was_drawn_can_be_sent_back(name: str) -> None:
    operation = OPERATIONS[name]
    row = next(row for row in operation.table.rows if row.target == "sampling.seed")
    for seed in (0, DRAWN_SEEDS - 1):
        body = nested(row.name, seed)
        assert (
            operation.parse({**good_body(operation), **body}, STAMP).request.sampling.seed == seed
        )


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_penalty_that_would_make_a_logit_infinite_is_refused(name: str) -> None:
    """The answer was a 500 that blamed the model."""
    operation = OPERATIONS[name]
    rows = [row for row in operation.table.rows if row.target == "sampling.repetition_penalty"]
    for each in (spelling for row in rows for spelling in row.spellings):
        for penalty in (1e-320, 1e-45, 0):
            error = refusal(operation, {**good_body(operation), **nested(each, penalty)})
            assert error is not None
            assert error.param == each


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_request_that_sets_nothing_is_drawn_ahead(name: str) -> None:
    """No default of a dialect keeps the next step from being begun before this one's tokens are known."""
    operation = OPERATIONS[name]
    request = operation.parse(good_body(operation), STAMP).request
    assert Sampler(request.sampling, 1, 0, vocab_size=300).draw_ahead(0, 1) is not None
