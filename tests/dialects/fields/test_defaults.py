"""--default NAME=VALUE: any sampling field, in any dialect's spelling, for requests that do not say."""

from typing import Any

import pytest

from segue.dialects import DIALECTS
from segue.dialects.base import Call, Stamp
from segue.dialects.fields.defaults import read_defaults
from segue.errors import InvalidField, SetupError

STAMP = Stamp(request_id="r", public_id="r", created=0, seed=77, fingerprint="f")
GOOD = {"model": "m", "prompt": "p", "token_ids": [1], "input_prefix": "a", "input_suffix": "b"}
OPERATIONS = {
    dialect.name + operation.path: operation
    for dialect in DIALECTS
    for operation in dialect.operations
    if "stream" in operation.table.known  # the others write no text
}
TABLES = [operation.table for operation in OPERATIONS.values()]


def parse(which: str, *defaults: str, **body: Any) -> Call:
    asked = {**GOOD, **body}
    return OPERATIONS[which].parse(asked, STAMP, read_defaults(defaults, TABLES))


@pytest.mark.parametrize("which", OPERATIONS)
def test_a_default_holds_in_every_dialect(which: str) -> None:
    defaults = ("temperature=0.7", "n_predict=256", "seed=1", "repeat_penalty=1.1", "top_k=3")
    request = parse(which, *defaults).request
    sampling = request.sampling
    assert (sampling.temperature, request.max_tokens, sampling.seed) == (0.7, 256, 1)
    assert (sampling.repetition_penalty, sampling.top_k) == (1.1, 3)


@pytest.mark.parametrize("which", OPERATIONS)
def test_answers_may_have_no_bound_by_default(which: str) -> None:
    assert parse(which, "n_predict=-1").request.max_tokens is None


@pytest.mark.parametrize("which", OPERATIONS)
def test_the_request_has_the_last_word(which: str) -> None:
    said: dict[str, Any] = {"temperature": 0.5}
    said |= {group: dict(said) for group in ("options", "sampling_params")}
    row = next(r for r in OPERATIONS[which].table.rows if r.target == "sampling.temperature")
    body = {key: value for key, value in said.items() if key == row.name.partition(".")[0]}
    assert parse(which, "temperature=0.7", **body).request.sampling.temperature == 0.5


@pytest.mark.parametrize(
    ("text", "target", "value"),
    [
        ("num_predict=64", "max_tokens", 64),
        ("max_completion_tokens=64", "max_tokens", 64),
        ("n_predict=-1", "max_tokens", None),
        ("repetition_penalty=1.5", "sampling.repetition_penalty", 1.5),
        ("typical_p=0.5", "sampling.typical_p", 0.5),
        ("dry_multiplier=0.8", "sampling.dry_multiplier", 0.8),
        ("samplers=kt", "sampling.order", ("top_k", "temperature")),
        ("stop=###", "stop", ("###",)),
        ('stop=["a","b"]', "stop", ("a", "b")),
        ("temperature=5", "sampling.temperature", 5.0),
        ("ignore_eos=true", "sampling.ignore_eos", True),
    ],
)
def test_spellings(text: str, target: str, value: Any) -> None:
    assert read_defaults([text], TABLES) == {target: value}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("temperature", "NAME=VALUE, as temperature=0.7 is, not 'temperature'$"),
        ("temperatur=1", "did you mean temperature"),
        ("temperature=hot", "temperature must be a number"),
        ("prompt=x", "is no sampling field"),
        ("stream=true", "is no sampling field"),
        ("json_schema={}", "is no sampling field"),
        ("=1", "is no sampling field"),
    ],
)
def test_what_cannot_be_a_default(text: str, hint: str) -> None:
    with pytest.raises(SetupError, match=hint):
        read_defaults([text], TABLES)


def test_a_seed_of_minus_one_still_draws_one() -> None:
    assert parse("openai/v1/completions", "seed=1", seed=-1).request.sampling.seed == 77


def test_biases_are_added_like_those_of_a_request() -> None:
    call = parse("llamacpp/completion", 'logit_bias={"5":1.5,"no":-2}')
    assert call.request.sampling.logit_bias == {5: 1.5}
    assert call.request.sampling.text_bias == (("no", -2.0),)


def test_rules_of_a_dialect_see_the_default() -> None:
    with pytest.raises(InvalidField, match="temperature 0"):
        parse("vllm/v1/completions", "temperature=0", n=2)
