"""Prompts and drawn tokens are scored as a forward pass in numpy scores them."""

import httpx2
import numpy as np
import pytest

from tests.support.asking import complete, post
from tests.support.models.tiny_reference import TinyReference
from tests.support.vllm.server import NEEDS_VLLM, PRECISION, TEXT, ids, logprobs

pytestmark = NEEDS_VLLM


@pytest.mark.parametrize("as_tokens", [False, True])
@pytest.mark.parametrize("max_tokens", [0, 1])
def test_echo_scores_the_prompt(
    client: httpx2.Client, reference: TinyReference, as_tokens: bool, max_tokens: int
) -> None:
    tokens = ids(client, TEXT)
    asked = {"max_tokens": max_tokens, "echo": True, "logprobs": 3, "temperature": 0}
    answer = complete(client, tokens if as_tokens else TEXT, **asked)
    [choice] = answer["choices"]
    told = choice["logprobs"]
    assert choice["text"].startswith(TEXT)
    assert len(told["tokens"]) == len(tokens) + max_tokens
    assert told["text_offset"][:2] == [0, len(told["tokens"][0])]
    expected = logprobs(reference, tokens)
    own = [float(expected[i, token]) for i, token in enumerate(tokens[1:])]
    assert told["token_logprobs"][0] is None
    assert told["token_logprobs"][1 : len(tokens)] == pytest.approx(own, abs=PRECISION)
    best = -np.sort(-expected, axis=-1)[: len(tokens) - 1, :3]
    for row, top in zip(best, told["top_logprobs"][1 : len(tokens)], strict=True):
        likeliest = sorted(top.values(), reverse=True)[:3]
        assert likeliest == pytest.approx(list(row), abs=PRECISION)
    assert answer["usage"]["prompt_tokens"] == len(tokens)
    assert answer["usage"]["completion_tokens"] == max_tokens


def test_prompt_logprobs_in_the_layout_of_vllm(
    client: httpx2.Client, reference: TinyReference
) -> None:
    tokens = ids(client, TEXT)
    answer = post(
        client, "/vllm/v1/completions", prompt=TEXT, max_tokens=1, temperature=0, prompt_logprobs=1
    )
    first, *rows = answer["choices"][0]["prompt_logprobs"]
    assert first is None
    expected = logprobs(reference, tokens)
    for place, (token, row) in enumerate(zip(tokens[1:], rows, strict=True)):
        own = row[str(token)]
        value = expected[place, token]
        assert own["logprob"] == pytest.approx(value, abs=PRECISION)
        num_higher = [int((expected[place] > value + by).sum()) for by in (PRECISION, -PRECISION)]
        assert num_higher[0] < own["rank"] <= 1 + num_higher[1]
        assert {entry["rank"] for entry in row.values()} == {1, own["rank"]}


def test_drawn_tokens_are_scored(client: httpx2.Client, reference: TinyReference) -> None:
    prompt = ids(client, TEXT)
    asked = {"max_tokens": 12, "logprobs": 2, "temperature": 0.7, "top_k": 5, "seed": 3}
    answer = post(client, "/vllm/v1/completions", prompt=prompt, return_token_ids=True, **asked)
    [choice] = answer["choices"]
    drawn = choice["token_ids"]
    expected = logprobs(reference, prompt + drawn)
    own = [float(expected[len(prompt) - 1 + i, token]) for i, token in enumerate(drawn)]
    assert choice["logprobs"]["token_logprobs"] == pytest.approx(own, abs=PRECISION)


def test_tokens_by_id_are_scored_or_refused(
    client: httpx2.Client, reference: TinyReference
) -> None:
    """vLLM's first model runner would give every other request of the step the scores of these tokens."""
    prompt, asked = ids(client, TEXT), [3, 70, 41]
    body = {"prompt": prompt, "max_tokens": 4, "temperature": 0, "logprobs": 0}
    body |= {"logprob_token_ids": asked, "return_token_ids": True}
    answer = client.post("/vllm/v1/completions", json={**body, "return_tokens_as_token_ids": True})
    if answer.status_code == 400:
        assert answer.json()["error"]["param"] == "logprob_token_ids"
        return
    [choice] = answer.json()["choices"]
    drawn = choice["token_ids"]
    expected = logprobs(reference, prompt + drawn)
    for place, top in enumerate(choice["logprobs"]["top_logprobs"]):
        row = expected[len(prompt) - 1 + place]
        wanted = {f"token_id:{each}": float(row[each]) for each in {*asked, drawn[place]}}
        assert top == pytest.approx(wanted, abs=PRECISION)


def test_prompts_of_a_batch_are_scored_as_alone(client: httpx2.Client) -> None:
    prompts = [TEXT, "then", ids(client, "and the")]
    asked = {"max_tokens": 0, "echo": True, "logprobs": 0}
    together = complete(client, prompts[:2], **asked)["choices"]
    assert [choice["index"] for choice in together] == [0, 1]
    for prompt, choice in zip(prompts, together, strict=False):
        [alone] = complete(client, prompt, **asked)["choices"]
        assert choice["text"] == alone["text"]
        one, other = (each["logprobs"]["token_logprobs"][1:] for each in (choice, alone))
        assert one == pytest.approx(other, abs=PRECISION)


def test_a_prompt_as_long_as_the_context_is_refused(client: httpx2.Client) -> None:
    """vLLM draws a token even where only the prompt is scored."""
    assert client.post("/v1/completions", json={"prompt": [5] * 255, "max_tokens": 0}).is_success
    answer = client.post("/v1/completions", json={"prompt": [5] * 256, "max_tokens": 0})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
