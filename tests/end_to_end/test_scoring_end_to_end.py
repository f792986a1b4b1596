"""Scoring over HTTP as evaluation harnesses do it, on a real model's numbers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.asking import complete, post
from tests.support.serving import serving
from tests.support.waiting import PATIENCE_S

CONTEXT, CONTINUATION = "The other one: thé then", " and the end"
TEXT = CONTEXT + CONTINUATION
ROUNDING = 5e-3  # KV in half floats: how a batch is put together shows in the last digits


@pytest.fixture(scope="module")
def client(tiny_gguf: Path) -> Iterator[httpx2.Client]:
    arguments = ("--runner", "llama", "--threads", "1", "--context-length", "256")
    with (
        serving(str(tiny_gguf), *arguments) as served,
        httpx2.Client(base_url=served.url, timeout=PATIENCE_S) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def exact_client() -> Iterator[httpx2.Client]:
    """A runner whose numbers do not depend on the batch: answers can be compared with ==."""
    with (
        serving("--runner", "fake") as served,
        httpx2.Client(base_url=served.url, timeout=PATIENCE_S) as client,
    ):
        yield client


def score(client: httpx2.Client, prompt: Any, **body: Any) -> Any:
    asked = {"max_tokens": 1, "logprobs": 1, "temperature": 0, "seed": 1234, "echo": True}
    return complete(client, prompt, **{**asked, **body})


def ids(client: httpx2.Client, text: str) -> list[int]:
    tokens: list[int] = post(client, "/tokenize", prompt=text, add_special_tokens=False)["tokens"]
    return tokens


def test_tokenizer_of_the_served_model(client: httpx2.Client) -> None:
    info = client.get("/tokenizer_info").json()
    assert len(ids(client, info["eos_token"])) == 1
    answer = post(client, "/tokenize", prompt=TEXT, return_token_strs=True)
    assert answer["count"] == len(answer["tokens"]) == len(answer["token_strs"])
    assert answer["max_model_len"] == 256
    assert post(client, "/detokenize", tokens=answer["tokens"])["prompt"] == TEXT
    refused = client.post("/detokenize", json={"tokens": [10**6]})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "tokens")


def test_one_entry_a_prompt_token_and_one_for_the_generated(client: httpx2.Client) -> None:
    answer = score(client, TEXT)
    [choice] = answer["choices"]
    layout = choice["logprobs"]
    assert {len(column) for column in layout.values()} == {answer["usage"]["prompt_tokens"] + 1}
    assert layout["token_logprobs"][0] is None
    assert layout["top_logprobs"][0] is None
    for logprob, top in zip(layout["token_logprobs"][1:], layout["top_logprobs"][1:], strict=True):
        assert logprob in top.values(), "compared with == by harnesses"
        assert max(top.values()) >= logprob
    generated = layout["top_logprobs"][-1]
    assert layout["token_logprobs"][-1] == max(generated.values()), "temperature 0 is greedy"
    assert choice["text"].startswith(TEXT)


def test_offsets_find_the_continuation(client: httpx2.Client) -> None:
    """As a harness does that knows only the characters of the context."""
    layout = score(client, TEXT)["choices"][0]["logprobs"]
    start = next(i for i, offset in enumerate(layout["text_offset"]) if offset >= len(CONTEXT))
    assert start == len(ids(client, CONTEXT))
    assert "".join(layout["tokens"][start:-1]) == CONTINUATION


def test_token_ids_score_as_their_text(client: httpx2.Client) -> None:
    by_text, by_ids = score(client, TEXT), score(client, [ids(client, TEXT)])
    assert by_ids["choices"][0]["logprobs"] == nearly(by_text["choices"][0]["logprobs"])
    assert by_ids["usage"]["prompt_tokens"] == by_text["usage"]["prompt_tokens"]


def nearly(layout: dict[str, Any]) -> dict[str, Any]:
    """The layout with numbers that need only be close."""
    tops = [
        top
        if top is None
        else {token: pytest.approx(value, abs=ROUNDING) for token, value in top.items()}
        for top in layout["top_logprobs"]
    ]
    return {
        **layout,
        "token_logprobs": pytest.approx(layout["token_logprobs"], abs=ROUNDING),
        "top_logprobs": tops,
    }


def test_a_batch_is_in_order_and_as_each_alone(client: httpx2.Client) -> None:
    prompts = [TEXT, CONTEXT, "x" + TEXT]
    together = score(client, [ids(client, prompt) for prompt in prompts])
    assert [choice["index"] for choice in together["choices"]] == [0, 1, 2]
    for choice, prompt in zip(together["choices"], prompts, strict=True):
        alone = score(client, prompt)["choices"][0]
        assert choice["logprobs"] == nearly(alone["logprobs"])
    usage = together["usage"]
    assert usage["prompt_tokens"] == sum(len(ids(client, prompt)) for prompt in prompts)
    assert usage["completion_tokens"] == 3


def test_nothing_generated_is_nothing_counted(client: httpx2.Client) -> None:
    answer = score(client, [TEXT, CONTEXT], max_tokens=0, n=2, prompt_logprobs=2)
    assert answer["usage"]["completion_tokens"] == 0
    assert [choice["text"] for choice in answer["choices"]] == [TEXT, TEXT, CONTEXT, CONTEXT]
    for choice in answer["choices"]:
        assert choice["finish_reason"] == "length"
        assert len(choice["logprobs"]["tokens"]) == len(choice["prompt_logprobs"])


def test_prompt_logprobs_by_token_id(client: httpx2.Client) -> None:
    tokens = ids(client, TEXT)
    answer = complete(client, TEXT, max_tokens=0, prompt_logprobs=2, echo=True, logprobs=0)
    [choice] = answer["choices"]
    first, *others = choice["prompt_logprobs"]
    assert first is None
    for token, entry, logprob in zip(
        tokens[1:], others, choice["logprobs"]["token_logprobs"][1:], strict=True
    ):
        own = entry[str(token)]
        assert own["logprob"] == logprob
        assert {1, 2} <= {other["rank"] for other in entry.values()}
        assert len(entry) == (2 if own["rank"] <= 2 else 3)


def test_streamed_scores_are_those_of_the_whole_answer(exact_client: httpx2.Client) -> None:
    asked = {"max_tokens": 4, "prompt_logprobs": 1, "n": 2, "seed": 5, "logprobs": 2, "echo": True}
    folded = complete(exact_client, [TEXT, CONTEXT], **asked)["choices"]
    body = {"prompt": [TEXT, CONTEXT], "stream": True, **asked}
    frames = exact_client.post("/v1/completions", json=body).text.split("\n\n")
    chunks = [json.loads(frame[6:]) for frame in frames if frame.startswith("data: {")]
    for index, whole in enumerate(folded):
        mine = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        assert "".join(choice["text"] for choice in mine) == whole["text"]
        layouts = [choice["logprobs"] for choice in mine if choice["logprobs"]]
        for column, values in whole["logprobs"].items():
            assert [value for layout in layouts for value in layout[column]] == values
        opening, *others = mine
        assert opening["prompt_logprobs"] == whole["prompt_logprobs"]
        assert not any("prompt_logprobs" in choice for choice in others)


def test_best_of_returns_the_likeliest_by_the_reported_numbers(exact_client: httpx2.Client) -> None:
    asked = {"max_tokens": 12, "seed": 3, "logprobs": 0}
    everyone = complete(exact_client, CONTEXT, n=6, **asked)["choices"]
    best = complete(exact_client, CONTEXT, n=2, best_of=6, **asked)

    def mean(choice: Any) -> float:
        values = choice["logprobs"]["token_logprobs"]
        return float(sum(values) / len(values))

    ranked = sorted(everyone, key=mean, reverse=True)
    assert [choice["text"] for choice in best["choices"]] == [c["text"] for c in ranked[:2]]
    assert best["usage"]["completion_tokens"] == sum(
        len(choice["logprobs"]["tokens"]) for choice in everyone
    )
