"""Generative scoring: which prompts are asked, and what becomes of the log-probabilities of the labels."""

from math import log
from typing import Any

import pytest

from segue.dialects.base import Call, Stamp
from segue.dialects.rendering.tally import Tally
from segue.dialects.vllm.scoring import SCORING
from segue.errors import InvalidField
from segue.types import Alternative, Delta, Done, Finished, Prompt, TokenScore, Usage
from tests.support.fakes import INFO

STAMP = Stamp(request_id="r", public_id="r", created=5, seed=99, fingerprint="f")
ASKED = {"query": "is it", "items": [" a", "b"], "label_token_ids": [7, 8]}


def parse(**body: Any) -> Call:
    return SCORING.parse({**ASKED, **body}, STAMP)


@pytest.mark.parametrize(
    ("body", "prompts"),
    [
        ({}, [("is it", " a"), ("is it", "b")]),
        ({"item_first": True}, [(" a", "is it"), ("b", "is it")]),
        ({"query": ["5", 6], "items": [[1], [2.0, 3]]}, [((5, 6), (1,)), ((5, 6), (2, 3))]),
        ({"items": [""]}, [("is it",)]),
        ({"query": "", "items": [""]}, [("",)]),
    ],
    ids=str,
)
def test_a_prompt_is_the_query_and_an_item(body: dict[str, Any], prompts: list[Any]) -> None:
    request = parse(**body).request
    assert [prompt.parts for prompt in request.prompts] == prompts
    assert (request.max_tokens, request.logprob_token_ids) == (1, (7, 8))
    assert request.num_top == 2


def test_special_tokens_can_be_left_out() -> None:
    for sent, has_bos in (({}, True), ({"add_special_tokens": "no"}, False)):
        assert parse(**sent).request.prompts[0] == Prompt(("is it", " a"), add_special=has_bos)


def scored(*shares: float, drawn: int, **body: Any) -> list[float]:
    """The scores of two items, after each of which these are the shares of the labels."""
    call = parse(**body)
    labels = call.request.logprob_token_ids
    top = [Alternative(*each) for each in zip(labels, [b"x"] * 9, map(log, shares), strict=False)]
    tally = Tally(call.request)
    for choice, ordered in enumerate((top, top[::-1])):
        score = TokenScore(drawn, b"y", log(0.5), 1, tuple(ordered))
        tally.push(Delta(choice, "y", (drawn,), (score,)))
        tally.push(Finished(choice, "length", "max_tokens", 1))
    tally.push(Done(Usage(6, 2, 0), 99))
    whole = SCORING.renderer(call).fold(tally)
    assert whole["usage"]["total_tokens"] == 8
    return [each["score"] for each in whole["data"]]


@pytest.mark.parametrize(
    ("body", "shares", "score"),
    [
        ({}, (0.3, 0.1), 0.75),
        ({"apply_softmax": False}, (0.3, 0.1), 0.3),
        ({"label_token_ids": [7, 7, 8, 9]}, (0.2, 0.1, 0.1), 0.5),
        ({"label_token_ids": [7]}, (1e-9,), 1.0),
        ({}, (1e-300, 3e-300), 0.25),
    ],
    ids=str,
)
def test_a_score_is_a_share_of_the_first_label(
    body: dict[str, Any], shares: tuple[float, ...], score: float
) -> None:
    """In whichever order the engine tells them, and whether one of them is drawn or another."""
    assert scored(*shares, drawn=5, **body) == pytest.approx([score, score])


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"query": None}, "query"),
        ({"query": 5}, "query"),
        ({"items": []}, "items"),
        ({"items": "a"}, "items"),
        ({"items": ["a", {}]}, "items"),
        ({"items": ["a", [1, "x"]]}, "items"),
        ({"label_token_ids": []}, "label_token_ids"),
        ({"label_token_ids": [-1]}, "label_token_ids"),
        ({"label_token_ids": list(range(129))}, "label_token_ids"),
        ({"apply_softmax": None}, "apply_softmax"),
        ({"cache_salt": "a/b"}, "cache_salt"),
    ],
    ids=str,
)
def test_refused(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as error:
        parse(**body)
    assert error.value.param == param


@pytest.mark.parametrize(
    ("item", "place"), [(5, "items[1]"), ([1, "x"], "items[1][1]"), ([-1], "items[1]")]
)
def test_a_refusal_says_which_item_is_meant(item: Any, place: str) -> None:
    with pytest.raises(InvalidField) as error:
        parse(items=["a", item])
    assert str(error.value).startswith(f"{place} must be ")


@pytest.mark.parametrize("field", ["label_token_ids", "query"])
def test_token_ids_are_held_to_the_model(field: str) -> None:
    """Those of items are checked by the engine, as prompts are."""
    check = SCORING.check
    assert check is not None
    check(parse(**{field: [INFO.vocab_size - 1]}), INFO)
    with pytest.raises(InvalidField) as error:
        check(parse(**{field: [1, INFO.vocab_size]}), INFO)
    assert (error.value.param, str(error.value).split()[0]) == (field, field)


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ({"query": "x" * 2**14, "items": [""] * 2**10}, {"query": "x" * 2**14 + "y"}),
        ({"query": [7] * 2**11, "items": ["x" * 2**14] * 2**9}, {"query": [7] * 2049}),
    ],
    ids=["text", "token ids"],
)
def test_a_small_body_makes_no_huge_prompts(one: dict[str, Any], many: dict[str, Any]) -> None:
    """The query is part of each: a body of a megabyte made a gigabyte of prompts, and the server stood still."""
    assert len(parse(**one).request.prompts) == len(one["items"])
    with pytest.raises(InvalidField, match=r"items would make prompts of \d+ characters") as error:
        parse(**{**one, **many})
    assert error.value.param == "items"
