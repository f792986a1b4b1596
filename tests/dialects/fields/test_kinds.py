import math
from typing import Any

import jsonschema
import pytest
from msgspec import UNSET

from segue.bounds import MAX_INT32, MAX_PROMPTS, MAX_SAMPLING_STEPS, MAX_SNIPPETS
from segue.dialects.fields.adapter_fields import MAX_ADAPTERS, AdapterName, AdapterScales
from segue.dialects.fields.duration import Duration, Milliseconds
from segue.dialects.fields.infill_fields import Snippets
from segue.dialects.fields.kinds import (
    Boolean,
    Endless,
    Integer,
    Kind,
    Lax,
    LogitBias,
    Mismatch,
    Number,
    NumTop,
    OnlyEmpty,
    Stops,
    Text,
    TokenIds,
)
from segue.dialects.fields.prompt_kinds import MixedText, OnePrompt, Prompts
from segue.dialects.fields.sampler_fields import Biases, Steps
from segue.types import Adapter, Prompt, Snippet

READ: list[tuple[Kind, Any, Any]] = [
    (Boolean(), True, True),
    (Integer(0, 9), 9, 9),
    (Integer(0, 9), 3.0, 3),
    (Integer(-1, 9, meaning={-1: None}), -1, None),
    (Integer(0, 9, clamp=True), 50, 9),
    (Integer(0, 9, clamp=True), -5, 0),
    (Endless(-1, {-1: None}), -1, None),
    *((Endless(0), most, MAX_INT32) for most in (MAX_INT32, 2**31, 2**53 - 1, 10**400, 1e308)),
    (Number(0, 2), 0, 0.0),
    (Number(0, 1, clamp=True), 1.5, 1.0),
    (Text(3), "abc", "abc"),
    (Lax(Integer(0, 9)), True, 1),
    (Lax(Integer(0, 9)), "5", 5),
    (Lax(Number(0, 9)), "0.5", 0.5),
    (NumTop(5), 0, 0),
    (NumTop(5), True, 1),
    (NumTop(5), False, UNSET),
    (OnlyEmpty("x"), "", UNSET),
    (OnlyEmpty("x"), [], UNSET),
    (TokenIds(), [0, 5], (0, 5)),
    (TokenIds(), [], ()),
    (Stops(), "a", ("a",)),
    (Stops(), ["a", "b", "a"], ("a", "b")),
    (Stops(), [], ()),
    (LogitBias(), {"0": 1, "50256": -100}, {0: 1.0, 50256: -100.0}),
    (LogitBias(), {}, {}),
    (Milliseconds(), 1500, 1.5),
    (Milliseconds(), 2**63 - 1, 2**63 / 1000),  # a language's largest, for no limit
    (Milliseconds(), 0, UNSET),
    (Milliseconds(), -1, UNSET),
    (Biases(1.0), [[5, 1], ["a", False]], {5: 1.0, "a": -math.inf}),
    (Biases(1.0), {}, {}),
    (AdapterScales(), [{"id": 1, "scale": 0.5}], (Adapter(1, 0.5),)),
    (AdapterScales(), [{"id": 0, "scale": -1}] * MAX_ADAPTERS, (Adapter(0, -1.0),) * MAX_ADAPTERS),
    (AdapterName(), "sql", (Adapter("sql"),)),
    (Snippets(), [{"text": "a", "filename": "b", "time": 1}], (Snippet("a", "b"),)),
    (Snippets(), [{"text": ""}] * MAX_SNIPPETS, (Snippet(""),) * MAX_SNIPPETS),
    (Snippets(), [], UNSET),
    (OnePrompt(may_be_empty=False), "a", (Prompt(("a",)),)),
    (OnePrompt(may_be_empty=True), "", (Prompt(("",)),)),
    (Prompts(), "a", (Prompt(("a",)),)),
    (Prompts(), [1, "a"], (Prompt(((1,), "a")),)),
    (Prompts(), [["a", 1], "b"], (Prompt(("a", (1,))), Prompt(("b",)))),
    (MixedText(), "a", ("a",)),
    (MixedText(), ["a", 1], ("a", (1,))),
    (Duration(), 2.5, 2.5),
    (Duration(), "1m", 60.0),
    (Steps(), ["top_k", "temperature"], ("top_k", "temperature")),
    (Steps(), "kt", ("top_k", "temperature")),
]

REFUSED: list[tuple[Kind, list[Any]]] = [
    (Boolean(), [0, 1, "true", None, []]),
    (Integer(1, 9), [0, 10, 1.5, True, "3", None, [1], 2**63, 2**64, 1e300, -(2**63)]),
    (Endless(0), [-1, -(10**400), 0.5, math.inf, math.nan, True, "5", None, [5]]),
    (Number(0, 2), [-0.1, 2.1, True, "1", None, math.nan, math.inf, 10**400]),
    (Number(0, 2, above_low=True), [0, -1]),
    (Text(3), ["abcd", 1, None, ["a"]]),
    (Lax(Integer(0, 9)), ["x", "", "nan", "inf", "1e400", "9" * 5000, "²", "--5", None, 1.5]),
    (NumTop(5), [6, -1, 1.5, "1", [1]]),
    (OnlyEmpty("x"), ["x", 0, False, [1], {"a": 1}]),
    (TokenIds(), ["a", [1.5], [True], ["1"], [-1], [2**31], None, {}]),
    (Stops(), [1, [1], [None], "", [""], ["a"] * 1025, "x" * 1025, {"a": 1}, [["a"]]]),
    (LogitBias(), [[], 1, {"abc": 1}, {"1.5": 1}, {" 7": 1}, {"007": 1}, {"-1": 1}, {"²": 1}]),
    (LogitBias(), [{"1": math.nan}, {"1": 101}, {"1": "x"}, {"1": True}, {"1": None}]),
    (Milliseconds(), [-2, 1.5, "1", True, 2**63]),
    (Biases(1.0), ["a", 5, None, [5], [[5]], [[5, 1, 1]], [[5, 2]], [[5, True]], [[1.5, 1]]]),
    (AdapterScales(), [{"id": 1, "scale": 1}, [5], [{"id": 1}], [{"scale": 1}], None]),
    (AdapterScales(), [[{"id": 1, "scale": 1}] * (MAX_ADAPTERS + 1), [{"id": 256, "scale": 1}]]),
    (AdapterName(), [5, None, "x" * 257]),
    (Snippets(), [{"text": "a"}, ["a"], [{}], [{"text": 1}], [{"text": "", "filename": 5}]]),
    (Snippets(), [[{"text": ""}] * (MAX_SNIPPETS + 1)]),
    (OnePrompt(may_be_empty=False), ["", 5, None, ["a"], [1]]),
    (OnePrompt(may_be_empty=True), [5, None, ["a"]]),
    (Prompts(), [5, None, True, {}, [None], [[1.5]], [[["a"]]], [{"text": "a"}]]),
    (MixedText(), [5, None, [["a"]], [1.5], {}]),
    (Duration(), [None, True, [1], "1" * 65]),
    (Steps(), [5, None, ["no such step"], "k?", ["top_k"] * (MAX_SAMPLING_STEPS + 1)]),
    (LogitBias(), [{f"{2**31}": 1}, {f"{2**63}": 1}, {f"{i}": 1 for i in range(2**18 + 1)}]),
]


@pytest.mark.parametrize(("kind", "value", "read"), READ)
def test_read(kind: Kind, value: Any, read: Any) -> None:
    result = kind.read(value)
    assert result == read
    assert type(result) is type(read)


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in REFUSED for value in values]
)
def test_refused(kind: Kind, value: Any) -> None:
    with pytest.raises(Mismatch):
        kind.read(value)


def says(kind: Kind, value: Any) -> bool:
    """Whether the schema in `/openapi.json` takes the value."""
    jsonschema.Draft202012Validator.check_schema(kind.schema())
    return jsonschema.Draft202012Validator(kind.schema()).is_valid(value)


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, value, _ in READ])
def test_the_schema_says_what_is_read(kind: Kind, value: Any) -> None:
    """What is only let pass is not written down."""
    is_passed = isinstance(kind, Lax) or getattr(kind, "clamp", False)
    assert says(kind, value) is not is_passed


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (kind, value)
        for kind, values in REFUSED
        for value in values
        # No schema has a word for these: what is empty, keys that are numbers, and what is no JSON.
        if not isinstance(kind, OnlyEmpty | LogitBias) and value is not math.nan
    ],
)
def test_the_schema_says_what_is_refused(kind: Kind, value: Any) -> None:
    assert not says(kind, value)


@pytest.mark.parametrize(
    ("value", "prompts"),
    [
        ("ab", [("ab",)]),
        (" ", [(" ",)]),
        ([1, 2], [((1, 2),)]),
        (["a", "b"], [("a",), ("b",)]),
        ([[1, 2], [3]], [((1, 2),), ((3,),)]),
        (["a", [1]], [("a",), ((1,),)]),
        ([1, "a", 2, 3], [((1,), "a", (2, 3))]),
        (["a", 1, ""], [("a", (1,))]),
        ([["a", 1], "b"], [("a", (1,)), ("b",)]),
    ],
)
def test_prompts(value: Any, prompts: list[Any]) -> None:
    """An id in the outer list makes it one prompt; otherwise every entry is its own."""
    assert Prompts().read(value) == tuple(Prompt(parts) for parts in prompts)


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ("", ""),
        ([], ""),
        (None, ""),
        (7, ""),
        (True, ""),
        ({"a": 1}, ""),
        ([""], "[0]"),
        ([[]], "[0]"),
        ([[], [1]], "[0]"),
        (["a", []], "[1]"),
        ([["", ""]], "[0]"),
        ([-1], ""),
        ([2**31], ""),
        ([1, 2**64], ""),
        ([[1], [-1]], "[1]"),
        ([1.0], "[0]"),
        ([True], "[0]"),
        ([None], "[0]"),
        ([1, [2]], "[1]"),
        ([[1, True]], "[0][1]"),
        ([[[1]]], "[0][0]"),
        (["a"] * (MAX_PROMPTS + 1), ""),
    ],
)
def test_refused_prompts(value: Any, at: str) -> None:
    with pytest.raises(Mismatch) as wrong:
        Prompts().read(value)
    assert wrong.value.at == at


@pytest.mark.parametrize(
    ("value", "prompts"),
    [
        ("", [("",)]),
        (["", "a"], [("",), ("a",)]),
        (["", 1], [("", (1,))]),
        (["a", 1, ""], [("a", (1,))]),
    ],
)
def test_an_empty_text_may_begin_a_prompt(value: Any, prompts: list[Any]) -> None:
    """Where the model puts BOS in front of a text it is a token then."""
    assert Prompts(keeps_empty=True).read(value) == tuple(Prompt(parts) for parts in prompts)
    with pytest.raises(Mismatch):
        Prompts(keeps_empty=True).read([[]])


def test_a_token_is_spelled_one_way_everywhere() -> None:
    """Objects have text for keys: an id of ten digits is one as well as an id of one."""
    largest = 2**31 - 1
    assert LogitBias().read({f"{largest}": 1}) == {largest: 1.0}
    assert Biases(1.0).read({f"{largest}": 1}) == {largest: 1.0}
    assert Biases(1.0).read({"007": 1}) == {"007": 1.0}
    with pytest.raises(Mismatch):
        Biases(1.0).read([[largest + 1, 1]])


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ({"5": 1, "hello": "x"}, "[hello]"),
        ({"a" * 300: 1}, f"[{'a' * 32}]"),
        ([[5, 1], ["hello", "x"]], "[1]"),
        ([[5, 1], [True, False]], "[1]"),
        ([[5, 1], 7], "[1]"),
    ],
)
def test_a_wrong_bias_is_found_where_it_was_written(value: Any, at: str) -> None:
    with pytest.raises(Mismatch) as wrong:
        Biases(1.0).read(value)
    assert wrong.value.at == at


def test_biases_of_one_token_add_up() -> None:
    pairs = [[5, 1], ["5", 0.5], ["no", False], ["no", 1], [6, False]]
    assert Biases(1.0).read(pairs) == {5: 1.5, "no": -math.inf, 6: -math.inf}
