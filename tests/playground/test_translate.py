"""One request in seven dialects: what is not named as lost is asked for all the same."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.dialects import DIALECTS
from segue.dialects.base import Dialect, Stamp
from segue.server.playground.translate import translate
from segue.types import ModelDefaults
from tests.support.fakes import INFO
from tests.support.live import Live

STAMP = Stamp(request_id="", public_id="", created=0, seed=0, fingerprint="")
SOURCE = DIALECTS[0].operations[0]
BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
PLAIN = {"model": "fake", "prompt": "The sea", "max_tokens": 6, "seed": 7}

fields = st.fixed_dictionaries(
    {"prompt": st.text(min_size=1, max_size=9), "seed": st.integers(0, 2**31)},
    optional={
        "max_tokens": st.integers(-1, 99),
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "top_k": st.integers(-1, 50),
        "min_p": st.floats(0, 1),
        "n": st.integers(1, 4),
        "stop": st.lists(st.text(min_size=1, max_size=3), max_size=3),
        "logprobs": st.integers(0, 5),
        "presence_penalty": st.floats(-2, 2),
        "repetition_penalty": st.floats(0.5, 2),
        "suffix": st.text(max_size=4),
        "guided_choice": st.just(["yes", "no"]),
        "shift": st.booleans(),
        "n_keep": st.integers(-1, 9),
    },
)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
@given(body=fields)
def test_a_translation_can_be_read_unless_it_lost_the_prompt(
    dialect: Dialect, body: dict[str, Any]
) -> None:
    said = translate(body, SOURCE, dialect)
    [operation] = [
        each for each in dialect.operations if f"/{dialect.name}{each.path}" == said.path
    ]
    if not said.lost:
        assert operation.parse(said.body, STAMP).request.prompts


MORE: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 0.7},
    {"temperature": 0, "stop": ["q", "zz"]},
    {"temperature": 0, "guided_choice": ["yes", "no"]},
    {"temperature": 0, "json_schema": {"type": "integer"}},
    {"temperature": 0, "json_schema": {"properties": {"a": {"type": "integer"}}}},
    {"temperature": 0.5, "top_k": 9, "presence_penalty": 1},
    {"suffix": " and the sky", "temperature": 0},
    {
        **{"temperature": 0, "grammar": 'root ::= "e " [a-z]+', "grammar_lazy": True},
        "grammar_triggers": [{"type": 1, "value": "e "}],
    },
]
SAID = [
    (dialect, more)
    for dialect in DIALECTS
    for more in MORE
    if not translate(PLAIN | more, SOURCE, dialect).lost
]


def test_every_dialect_can_say_most_of_it() -> None:
    assert {dialect.name for dialect, _ in SAID} == BY_NAME.keys()
    assert len(SAID) > len(DIALECTS) * len(MORE) / 2


@pytest.mark.parametrize(
    ("dialect", "more"), SAID, ids=lambda each: getattr(each, "name", str(each))
)
def test_the_same_request_gives_the_same_text_in_any_dialect(
    served: Live, dialect: Dialect, more: dict[str, Any]
) -> None:
    wanted = served.client.post("/openai/v1/completions", json=PLAIN | more).json()
    said = translate(PLAIN | more, SOURCE, dialect)
    answer = served.client.post(said.path, json=said.body).json()
    [choice] = answer.get("choices", [answer])
    text = choice.get("text", choice.get("content", choice.get("response")))
    if dialect.name == "mistralrs":
        text = text.removesuffix(more.get("suffix", ""))  # it returns what follows as well
    assert text == wanted["choices"][0]["text"]


def test_what_a_dialect_cannot_say_is_named() -> None:
    body = PLAIN | {"guided_regex": "a+", "n": 2}
    assert translate(body, SOURCE, BY_NAME["ollama"]).lost == ("n", "guided_regex")
    assert "top_k" in translate(PLAIN, SOURCE, BY_NAME["llamafile"]).lost


def test_whether_an_answer_goes_on_past_its_context() -> None:
    def said(name: str, **more: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
        _, _, body, lost = translate(PLAIN | more, SOURCE, BY_NAME[name])
        return body, lost

    body, lost = said("ollama", max_tokens=-1)
    assert (body["shift"], lost) == (False, ())
    assert "shift" not in said("ollama")[0]
    body, lost = said("ollama", shift=True, n_keep=7)
    assert (body["shift"], body["options"]["num_keep"], lost) == (True, 7, ())
    body, lost = said("ollama", shift=True)
    assert (body["shift"], body["options"]["num_keep"], lost) == (True, 0, ())
    assert said("ollama", shift=True, n_discard=9)[1] == ("shift",)
    for name in ("llamacpp", "vllm"):
        assert said(name, shift=True, temperature=0)[1] == ("shift",)
    assert said("vllm", shift=False)[1] == ()


def test_a_grammar_that_begins_later_does_not_hold_at_once_elsewhere() -> None:
    lazy = {"grammar_lazy": True, "grammar_triggers": [{"type": 1, "value": "<a>"}]}
    body = PLAIN | {"grammar": 'root ::= "<a>"'} | lazy
    said = translate(body, SOURCE, BY_NAME["llamacpp"])
    assert (said.lost, said.body["grammar_lazy"]) == ((), True)
    said = translate(body, SOURCE, BY_NAME["vllm"])
    assert said.lost == ("grammar",)
    assert "structured_outputs" not in said.body


def test_a_schema_that_allows_other_properties_says_so_where_they_are_not_expected() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    body = PLAIN | {"json_schema": schema}
    wide = {**schema, "additionalProperties": True}
    assert translate(body, SOURCE, BY_NAME["ollama"]).body["format"] == wide
    assert translate(body, SOURCE, BY_NAME["vllm"]).body["structured_outputs"] == {"json": wide}
    assert translate(body, SOURCE, BY_NAME["mistralrs"]).body["grammar"]["value"] == schema


def test_so_does_one_of_a_structural_tag() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"type": "integer"}}}
    tags = [
        json.dumps({"format": {"type": "json_schema", "json_schema": each}})
        for each in (schema, {**schema, "additionalProperties": True})
    ]
    for own, said in ((0, 1), (1, 1)):
        body = PLAIN | {"structured_outputs": {"structural_tag": tags[own]}}
        translated = translate(body, SOURCE, BY_NAME["vllm"])
        assert translated.lost == ()
        [text] = translated.body["structured_outputs"].values()
        assert json.loads(text) == json.loads(tags[said])


@pytest.mark.parametrize("value", [-1, -0.5, 0])
def test_a_cut_that_is_off_is_not_lost(value: float) -> None:
    """Clients of llama.cpp send -1; vLLM's dialect has no such field."""
    said = translate(PLAIN | {"top_n_sigma": value, "temperature": 0.5}, SOURCE, BY_NAME["vllm"])
    assert said.lost == ()


@pytest.mark.parametrize(
    ("more", "lost"),
    [
        ({"repetition_penalty": 1.2}, ()),
        ({"repetition_penalty": 1.2, "presence_penalty": 1}, ("repetition_last",)),
        ({"logit_bias": {"5": 2}}, ()),
        ({"logit_bias": {"5": 2}, "presence_penalty": 1}, ("samplers",)),
    ],
)
def test_another_order_of_penalties_and_biases_is_named_where_it_counts(
    more: dict[str, Any], lost: tuple[str, ...]
) -> None:
    asked = PLAIN | {"temperature": 0} | more
    assert translate(asked, SOURCE, BY_NAME["mistralrs"]).lost == lost
    assert translate(asked, SOURCE, BY_NAME["vllm"]).lost == ()


def test_the_seventh_loses_nothing() -> None:
    body = PLAIN | {"guided_regex": "a+", "n": 2, "dry_multiplier": 0.5}
    assert translate(body, SOURCE, BY_NAME["openai"]).body == body


def test_defaults_that_differ_are_written_out() -> None:
    said = translate(PLAIN, SOURCE, BY_NAME["llamacpp"])
    assert said.path == "/llamacpp/completion"
    assert said.body["n_predict"] == 6
    assert said.body["top_k"] == 0
    assert said.body["min_p"] == 0


def test_where_the_models_own_defaults_count_a_field_is_written_out() -> None:
    own = ModelDefaults(source="f", sampling={"temperature": 0.6}, max_tokens=5)
    info = replace(INFO, defaults=own)
    assert "temperature" not in translate(PLAIN, SOURCE, BY_NAME["vllm"]).body
    said = translate(PLAIN, SOURCE, BY_NAME["vllm"], info)
    assert said.body["temperature"] == 1.0
    assert said.lost == ("max_tokens",)
    assert translate(PLAIN, SOURCE, BY_NAME["mistralrs"], info).body["temperature"] == 1.0
    assert "temperature" not in translate(PLAIN, SOURCE, BY_NAME["llamastack"], info).body


def test_a_gap_goes_to_the_path_for_gaps() -> None:
    said = translate(PLAIN | {"suffix": "."}, SOURCE, BY_NAME["llamacpp"])
    assert said.path == "/llamacpp/infill"
    assert said.body["input_prefix"] == "The sea"
    assert said.body["input_suffix"] == "."


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
def test_a_prompt_with_tokens_is_text_where_prompts_are_text(dialect: Dialect) -> None:
    """As what the page continues has them: the code was refused, and had lost its settings in silence."""
    body = PLAIN | {"prompt": ["The s", 101, 97]}
    said = translate(body, SOURCE, dialect, text="The sea")
    assert 7 in (said.body.get("seed"), said.body.get("options", {}).get("seed"))
    is_text = dialect.name in ("llamafile", "mistralrs", "ollama")
    assert said.body["prompt"] == ("The sea" if is_text else body["prompt"])
    assert ("token ids in the prompt" in said.lost) == is_text
