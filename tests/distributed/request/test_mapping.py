import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.distributed.request.mapping import (
    CUTS_KEY,
    DRAW_KEY,
    REQUEST_ROWS,
    SAMPLING_ROWS,
    CandidateParams,
    Row,
    check,
    is_drawn_here,
    parameters,
)
from segue.engine.sampling.token_rules import TokenRules
from segue.errors import InvalidField
from segue.types import CUT_FIRST, CompletionRequest, Prompt, Sampling, Step

DOCS = Path(__file__).parents[3] / "docs" / "vllm.md"
RULES = TokenRules(ends=frozenset({2}), stops=frozenset({7}))
ASKED = CandidateParams(
    seed=10, candidate=3, max_tokens=16, num_alternatives=None, prompt_alternatives=None
)
REACH = 100


def request(max_tokens: int | None = 16, **sampling: Any) -> CompletionRequest:
    return CompletionRequest(
        request_id="r",
        model="m",
        prompts=(Prompt(("x",)),),
        max_tokens=max_tokens,
        sampling=msgspec.convert(sampling, Sampling),
    )


@pytest.mark.parametrize(
    ("rows", "kind"), [(SAMPLING_ROWS, Sampling), (REQUEST_ROWS, CompletionRequest)]
)
def test_every_field_has_one_row(rows: tuple[Row, ...], kind: type[msgspec.Struct]) -> None:
    """A field that is added must be mapped or refused: it cannot be forgotten."""
    assert [row.field for row in rows] == list(kind.__struct_fields__)


@pytest.mark.parametrize("row", SAMPLING_ROWS + REQUEST_ROWS, ids=lambda row: row.field)
def test_the_documentation_has_the_row(row: Row) -> None:
    assert f"| `{row.field}` | {row.how} | {row.note} |" in DOCS.read_text("utf-8")


DRAWN_HERE: list[dict[str, Any]] = [
    {"mirostat": 1},
    {"dynatemp_range": 0.5},
    {"typical_p": 0.9},
    {"xtc_probability": 0.5},
    {"dry_multiplier": 1.0},
    {"adaptive_target": 0.5, "order": ["temperature", "adaptive_p"]},
    {"min_keep": 2, "top_p": 0.5},
    {"repetition_penalty": 1.1, "penalty_window": REACH - 1},
    {"presence_penalty": 1.0, "penalize_prompt": True},
    {"presence_penalty": 1.0, "repetition_penalty": 1.1, "repetition_last": True},
    {
        "presence_penalty": 1.0,
        "logit_bias": {5: 1.0},
        "order": ["penalties", "logit_bias", "temperature"],
    },
    {"temperature": 2.5},
    {"presence_penalty": -2.5},
    {"frequency_penalty": 3.0},
    {"top_p": 0.0},
]


@pytest.mark.parametrize("sampling", DRAWN_HERE, ids=str)
def test_what_vllm_lacks_is_drawn_by_our_own_sampler(sampling: dict[str, Any]) -> None:
    asked = request(**sampling)
    check(asked)
    assert is_drawn_here(asked.sampling, REACH)


def test_one_token_is_left_to_vllm_where_our_own_sampler_draws() -> None:
    values = parameters(
        request(typical_p=0.5, temperature=3.0, top_p=0.1, repetition_penalty=1.5),
        RULES,
        ASKED._replace(draw=b"packed"),
    )
    assert values["temperature"] == 0
    assert values["extra_args"] == {DRAW_KEY: b"packed"}
    assert not values.keys() & {"seed", "top_p", "repetition_penalty"}


def test_biases_after_penalties_are_not_added_by_vllm_too() -> None:
    biases, order = {5: 1.0, 6: -math.inf}, ["penalties", "logit_bias"]
    for penalty, wanted in ((0.0, biases), (1.0, {6: -math.inf})):
        asked = request(logit_bias=biases, order=order, presence_penalty=penalty)
        assert parameters(asked, RULES, ASKED)["logit_bias"] == wanted


def test_refusals_name_the_field() -> None:
    with pytest.raises(InvalidField, match="vLLM") as caught:
        check(request(order=["infill", "temperature"]))
    assert caught.value.param == "samplers"
    with pytest.raises(InvalidField) as caught:
        check(msgspec.structs.replace(request(), post_sampling_probs=True))
    assert caught.value.param == "post_sampling_probs"
    assert [row.field for row in REQUEST_ROWS + SAMPLING_ROWS if row.how == "refused"] == [
        "shift",
        "post_sampling_probs",
    ]


@pytest.mark.parametrize(
    "sampling",
    [
        {"mirostat_tau": 9.0, "dry_base": 3.0, "xtc_threshold": 0.3, "dynatemp_exponent": 2.0},
        {"penalty_window": 64},
        {"penalty_window": REACH, "repetition_penalty": 1.1},
        {"penalize_prompt": True, "repetition_penalty": 1.1},
        {"repetition_last": True, "repetition_penalty": 1.1},
        {"repetition_last": True, "presence_penalty": 1.1},
        {"logit_bias": {5: 1.0}, "order": ["penalties", "logit_bias", "temperature"]},
        {"min_keep": 3},
        {"order": CUT_FIRST, "temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05},
    ],
    ids=str,
)
def test_what_changes_nothing_is_left_to_vllm(sampling: dict[str, Any]) -> None:
    asked = request(**sampling)
    check(asked)
    assert not is_drawn_here(asked.sampling, REACH)


def test_values_are_handed_over() -> None:
    values = parameters(
        request(
            temperature=0.5,
            top_k=4,
            top_p=0.9,
            min_p=0.1,
            presence_penalty=1.0,
            logit_bias={5: -math.inf},
            allowed_token_ids=(4, 5),
            bad_words=("x",),
            min_tokens=2,
        ),
        RULES,
        ASKED,
    )
    assert values["seed"] == 13
    assert values["stop_token_ids"] == [2, 7]
    assert values["logit_bias"] == {5: -math.inf}
    assert values["allowed_token_ids"] == [4, 5]
    assert values["bad_words"] == ["x"]
    assert values["min_tokens"] == 2
    told = {name: values[name] for name in ("temperature", "top_k", "top_p", "min_p")}
    assert told == {"temperature": 0.5, "top_k": 4, "top_p": 0.9, "min_p": 0.1}
    assert values["presence_penalty"] == 1.0
    assert not values["detokenize"]


def test_ends_that_are_ignored_are_banned() -> None:
    rules = TokenRules(ends=frozenset({2}), stops=frozenset({7}), ignores_ends=True)
    values = parameters(request(ignore_eos=True, logit_bias={3: 1.0}), rules, ASKED)
    assert values["logit_bias"] == {3: 1.0, 2: -math.inf}
    assert values["stop_token_ids"] == [7]
    assert values["ignore_eos"]


def test_biases_of_one_token_add_up() -> None:
    rules = TokenRules(text_bias={3: 2.0, 4: -math.inf})
    values = parameters(request(logit_bias={3: 1.0, 4: 5.0}), rules, ASKED)
    assert values["logit_bias"] == {3: 3.0, 4: -math.inf}


def test_ends_that_are_passed_are_drawn_as_in_vllm() -> None:
    rules = TokenRules(ends=frozenset({2}), stops=frozenset({7}), passes_ends=True)
    values = parameters(request(pass_eos=True), rules, ASKED)
    assert values["logit_bias"] is None
    assert values["stop_token_ids"] == [7]
    assert values["ignore_eos"]


def test_without_a_seed_vllm_draws_its_own() -> None:
    assert "seed" not in parameters(request(), RULES, ASKED._replace(seed=None))


def test_a_seed_fits_a_signed_number_and_is_never_minus_one() -> None:
    """vLLM takes −1 for none."""
    values = parameters(request(), RULES, ASKED._replace(seed=-4))
    assert 0 <= values["seed"] < 2**63


def test_greedy_takes_no_seed_and_no_cuts() -> None:
    values = parameters(request(temperature=0.0, top_p=0.5, order=CUT_FIRST), RULES, ASKED)
    assert values["temperature"] == 0
    assert not values.keys() & {"seed", "top_p", "extra_args"}


def test_scoring_asks_for_one_token() -> None:
    asked = ASKED._replace(prompt_alternatives=5, max_tokens=0)
    values = parameters(request(max_tokens=0), RULES, asked)
    assert (values["max_tokens"], values["prompt_logprobs"]) == (1, 5)
    assert values["skip_reading_prefix_cache"]


@pytest.mark.parametrize(
    ("order", "is_native"),
    [
        (("temperature", "min_p", "top_k", "top_p"), True),
        (("top_k", "temperature", "min_p", "top_p"), True),
        (("temperature", "top_k", "min_p", "top_p"), True),
        (("min_p", "temperature", "top_p"), False),
        (("top_p", "temperature"), False),
        (("temperature", "top_p", "top_k"), False),
        (("temperature", "top_p", "min_p"), False),
        (("top_n_sigma", "temperature"), False),
        (("min_p", "top_k"), True),
    ],
    ids=str,
)
def test_an_order_that_is_not_vllms_goes_to_the_processor(
    order: tuple[Step, ...], is_native: bool
) -> None:
    sampling: dict[str, Any] = {
        "temperature": 0.5,
        "top_k": 4,
        "top_p": 0.9,
        "min_p": 0.1,
        "top_n_sigma": 1.0,
    }
    values = parameters(request(order=order, **sampling), RULES, ASKED)
    cuts = (values.get("extra_args") or {}).get(CUTS_KEY, ())
    if is_native:
        assert not cuts
        assert {name for name in sampling if name in values} >= set(order)
    else:
        assert [name for name, _ in cuts] == list(order)
        assert not values.keys() & {"top_k", "top_p", "min_p"}
