"""Fields that have no effect are checked as vLLM's request models check them, and named."""

import re
from typing import Any

import pytest

from segue.dialects.base import Call, Stamp
from segue.dialects.vllm import COMPLETIONS
from segue.dialects.vllm.generate import GENERATE
from segue.errors import InvalidField

STAMP = Stamp(request_id="r", public_id="r", created=5, seed=99, fingerprint="f")
FLAG = ([True, False, 1, "yes"], [2, "x", [], {}])
ENTRIES = ([{}, {"a": 1}, {"a": {"b": [None]}}], [True, 0, "x", [], [{}]])

# As pydantic 2 reads vLLM's types: what is taken, and what is refused.
TABLE: dict[str, tuple[list[Any], list[Any]]] = {
    "watermarking": FLAG,
    "spaces_between_special_tokens": (FLAG[0], [*FLAG[1], None]),
    "thinking_token_budget": ([-1, 0, 7, 2**70], [-2, True, 1.0, 1.5, "5", []]),
    "routed_experts_prompt_start": ([0, True, "5", 1.0, 2**70], [-1, 1.5, "x", None]),
    "session_id": (["", "x" * 5000], [5, True, ["x"]]),
    "return_token_offsets": FLAG,
    "mm_payload": (["tensors", "none"], [None, "", True]),
    "return_mm_kwargs": FLAG,
    "kv_transfer_params": ENTRIES,
    "ec_transfer_params": ENTRIES,
    "vllm_xargs": (
        [{}, {"a": 1, "b": "x", "c": 1.5, "d": True, "e": [1, "x"]}],
        [[], {"a": None}, {"a": {}}, {"a": [[]]}, {"a": [None]}],
    ),
    "user": (["", "x" * 5000], [5, ["x"]]),
}
TAKEN = [(name, value) for name, (values, _) in TABLE.items() for value in values]
REFUSED = [(name, value) for name, (_, values) in TABLE.items() for value in values]


def parse(**fields: Any) -> Call:
    return COMPLETIONS.parse({"prompt": "a", **fields}, STAMP)


@pytest.mark.parametrize(("name", "value"), TAKEN)
def test_what_vllm_takes_is_taken_and_named(name: str, value: Any) -> None:
    call = parse(**{name: value})
    assert call.ignored == (name,)
    assert call.request == parse().request


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_what_vllm_refuses_is_refused(name: str, value: Any) -> None:
    """Anything passed."""
    with pytest.raises(InvalidField) as error:
        parse(**{name: value})
    assert error.value.param == name


@pytest.mark.parametrize("name", [name for name, (_, wrong) in TABLE.items() if None not in wrong])
def test_null_is_what_is_left_out(name: str) -> None:
    assert parse(**{name: None}) == parse()


SETTINGS: dict[str, tuple[Any, Any]] = {
    "watermarking": ("yes", 2),
    "spaces_between_special_tokens": (False, None),
    "thinking_token_budget": ("5", -2),
    "routed_experts_prompt_start": (0, None),
    "flat_logprobs": (True, None),
    "skip_reading_prefix_cache": (True, 2),
    "extra_args": ({"a": 1}, []),
}


@pytest.mark.parametrize(("name", "taken", "refused"), [(n, *v) for n, v in SETTINGS.items()])
def test_settings_of_tokens_in_tokens_out(name: str, taken: Any, refused: Any) -> None:
    body = {"token_ids": [1], "sampling_params": {name: taken}}
    assert GENERATE.parse(body, STAMP).ignored == (f"sampling_params.{name}",)
    with pytest.raises(InvalidField):
        GENERATE.parse({**body, "sampling_params": {name: refused}}, STAMP)


def generate(**fields: Any) -> Call:
    return GENERATE.parse({"token_ids": [1], "sampling_params": {}, **fields}, STAMP)


@pytest.mark.parametrize("name", ["kv_transfer_params", "ec_transfer_params", "reasoning_ended"])
def test_what_stands_around_them(name: str) -> None:
    with pytest.raises(InvalidField):
        generate(**{name: "x"})


@pytest.mark.parametrize("budget", [5, "5", 1.0, True, -1])
def test_a_budget_among_settings_is_any_number_that_is_whole(budget: Any) -> None:
    """There it is an integer as all others are; it was held to the rule of /v1/completions, which has its own."""
    call = generate(sampling_params={"thinking_token_budget": budget})
    assert call.ignored == ("sampling_params.thinking_token_budget",)


TOOL = {"type": "function", "function": {"name": "f", "parameters": {}, "strict": None}}
NAMED = {"type": "function", "function": {"name": "f"}}
# As pydantic 2 reads what vLLM 0.33's /render answers: what is taken, and what is refused where.
RENDERED: dict[str, tuple[list[Any], list[tuple[Any, str]]]] = {
    "token_offsets": (
        [[], [[0, 1], [1, 3]], [["0", 1.0]], [[-1, True]]],
        [
            ({}, ""),
            ("x", ""),
            ([1], "[0]"),
            ([[0, 1], [1]], "[1]"),
            ([[0, 1, 2]], "[0]"),
            ([[0, 1.5]], "[0]"),
            ([[0, 1], [None, 1]], "[1]"),
            ([{"a": 1, "b": 2}], "[0]"),
        ],
    ),
    "reasoning_parser_kwargs": (
        [{}, {"chat_template_kwargs": {"enable_thinking": False}}],
        [
            ([], ""),
            (True, ""),
            ({"model": "x"}, ""),
            ({"chat_template_kwargs": None}, ".chat_template_kwargs"),
        ],
    ),
    "parse_context": (
        [
            {},
            {"newer": [1]},
            {"tools": None, "tool_choice": None, "parallel_tool_calls": None},
            {"tools": [TOOL, {"function": {"name": "g"}}], "tool_choice": NAMED},
            {"tool_choice": "auto", "include_reasoning": "no", "history_tool_call_cnt": "3"},
        ],
        [
            ("x", ""),
            ({"tools": {}}, ".tools"),
            ({"tools": [TOOL, {}]}, ".tools[1].function"),
            ({"tools": [{**TOOL, "type": "x"}]}, ".tools[0].type"),
            ({"tools": [{"function": {"name": 1}}]}, ".tools[0].function.name"),
            ({"tool_choice": "any"}, ".tool_choice"),
            ({"tool_choice": {"type": "function"}}, ".tool_choice.function"),
            ({"include_reasoning": None}, ".include_reasoning"),
            ({"chat_template_kwargs": []}, ".chat_template_kwargs"),
            ({"history_tool_call_cnt": -1}, ".history_tool_call_cnt"),
        ],
    ),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, (values, _) in RENDERED.items() for value in values]
)
def test_what_render_says_is_taken_and_named(name: str, value: Any) -> None:
    assert generate(**{name: value}).ignored == (name,)
    assert generate(**{name: None}) == generate()


@pytest.mark.parametrize(
    ("name", "value", "at"),
    [(name, *wrong) for name, (_, wrongs) in RENDERED.items() for wrong in wrongs],
)
def test_what_render_never_says_is_refused(name: str, value: Any, at: str) -> None:
    """All of it passed."""
    with pytest.raises(InvalidField, match=rf"^{re.escape(name + at)} must be") as error:
        generate(**{name: value})
    assert error.value.param == name
