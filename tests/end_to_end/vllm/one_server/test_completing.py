"""Completions of vLLM: what is drawn, where it ends, and what is refused."""

import json
from collections import Counter
from typing import Any

import httpx2
import numpy as np
import pytest

from segue.engine.sampling.sampler import Sampler
from segue.engine.sampling.token_rules import TokenRules
from segue.types import Sampling
from tests.support.asking import complete, post
from tests.support.models.tiny_gguf import END
from tests.support.models.tiny_reference import TinyReference
from tests.support.vllm.server import (
    IS_EXACT,
    NEEDS_VLLM,
    PRECISION,
    TEXT,
    ids,
    logprobs,
    parts,
    wait_until_idle,
)

pytestmark = NEEDS_VLLM


def test_greedy_text_is_the_references(client: httpx2.Client, reference: TinyReference) -> None:
    tokens = ids(client, TEXT)
    answer = post(
        client,
        "/vllm/v1/completions",
        prompt=TEXT,
        max_tokens=8,
        temperature=0,
        return_token_ids=True,
    )
    for token in answer["choices"][0]["token_ids"]:
        row = reference.logits(tokens)[-1]
        assert row[token] >= row.max() - (0 if IS_EXACT else PRECISION)
        tokens.append(token)


@pytest.mark.parametrize(
    "more",
    [{}, {"logprobs": 2}, {"echo": True, "logprobs": 1}, {"n": 2}, {"prompt": ["the", "and"]}],
    ids=str,
)
def test_streamed_is_the_same(client: httpx2.Client, more: dict[str, Any]) -> None:
    body = {"prompt": TEXT, "max_tokens": 16, "seed": 5, "temperature": 0.8, **more}
    whole = post(client, "/v1/completions", **body)
    texts, scores = Counter[int](), dict[int, list[float | None]]()
    joined: dict[int, str] = {}
    for part in parts(client, **body):
        for choice in part["choices"]:
            index = choice["index"]
            joined[index] = joined.get(index, "") + choice["text"]
            texts[index] += 1
            told = choice["logprobs"] or {"token_logprobs": []}
            scores.setdefault(index, []).extend(told["token_logprobs"])
    for choice in whole["choices"]:
        index = choice["index"]
        assert joined[index] == choice["text"]
        assert texts[index] > 4, "it came in parts"
        told = choice["logprobs"] or {"token_logprobs": []}
        assert [s for s in scores[index] if s is not None] == pytest.approx(
            [s for s in told["token_logprobs"] if s is not None], abs=PRECISION
        )


def test_choices_differ_and_a_seed_repeats_them(client: httpx2.Client) -> None:
    asked = {"max_tokens": 12, "n": 3, "seed": 11}
    first, second = (complete(client, ["the", TEXT], **asked)["choices"] for _ in range(2))
    assert [choice["index"] for choice in first] == list(range(6))
    assert len({choice["text"] for choice in first}) == 6
    assert [c["text"] for c in first] == [c["text"] for c in second]


def test_best_of_ranks_by_the_mean(client: httpx2.Client) -> None:
    asked = {"max_tokens": 6, "seed": 2, "logprobs": 0, "ignore_eos": True}
    answer = complete(client, TEXT, n=6, **asked)
    means = {
        choice["text"]: float(np.mean(choice["logprobs"]["token_logprobs"]))
        for choice in answer["choices"]
    }
    ranked = complete(client, TEXT, n=2, best_of=6, **asked)
    expected = sorted(means, key=lambda text: -means[text])[:2]
    assert [choice["text"] for choice in ranked["choices"]] == expected
    assert ranked["usage"]["completion_tokens"] == 36, "discarded candidates are counted"


@pytest.mark.parametrize("path", ["/v1/completions", "/llamacpp/v1/completions"])
def test_draws_follow_the_distribution(
    client: httpx2.Client, reference: TinyReference, path: str
) -> None:
    """llama.cpp cuts first and scales last, which vLLM by itself cannot."""
    tokens = ids(client, TEXT)
    logits = reference.logits(tokens)[-1].astype(np.float64)
    temperature, mass, num_draws = 1.6, 0.7, 512
    is_cut_first = "llamacpp" in path
    shares = _softmax(logits if is_cut_first else logits / temperature)
    order = np.argsort(-shares)
    before = np.cumsum(shares[order]) - shares[order]
    kept = order[before < mass]
    expected = _softmax(logits[kept] / temperature)
    seen = Counter[int]()
    raw = np.log(_softmax(logits))
    for seed in range(4):
        asked = {"temperature": temperature, "top_p": mass, "top_k": 0, "min_p": 0}
        body = {"prompt": tokens, "n": 128, "seed": 1000 * seed, "max_tokens": 1}
        body |= {"n_probs": 1} if is_cut_first else {"logprobs": 0}
        for choice in post(client, path, **body, **asked)["choices"]:
            seen[int(np.abs(raw - _first_logprob(choice)).argmin())] += 1
    for token, share in zip(kept, expected, strict=True):
        if share > 0.05:
            error = 5 * (share * (1 - share) / num_draws) ** 0.5
            alike = np.flatnonzero(np.abs(raw - raw[token]) < 2 * PRECISION)
            if alike.size == 1:  # else its log-probability does not tell it from others
                assert seen[int(token)] / num_draws == pytest.approx(share, abs=error)
    lowest = raw[kept].min() - 2 * PRECISION
    assert all(raw[token] >= lowest for token in seen)


def _first_logprob(choice: dict[str, Any]) -> float:
    told = choice["logprobs"]
    if "token_logprobs" in told:
        return float(told["token_logprobs"][0])
    return float(told["content"][0]["logprob"])


def _softmax(logits: Any) -> Any:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def test_a_stop_string_ends_the_text(client: httpx2.Client) -> None:
    whole = complete(client, TEXT, max_tokens=24, temperature=0)["choices"][0]["text"]
    stop = whole[5:7]
    [choice] = complete(client, TEXT, max_tokens=24, temperature=0, stop=[stop])["choices"]
    assert choice["text"] == whole[: whole.index(stop)]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)
    wait_until_idle(client)


def test_stop_tokens_and_banned_ends(client: httpx2.Client) -> None:
    [end] = ids(client, END)
    greedy = {"max_tokens": 8, "temperature": 0}
    [ended] = complete(client, TEXT, logit_bias={str(end): 100}, **greedy)["choices"]
    assert (ended["text"], ended["finish_reason"]) == ("", "stop")
    [kept] = complete(client, TEXT, min_tokens=3, logit_bias={str(end): 100}, **greedy)["choices"]
    assert len(kept["text"]) > 0
    drawn = post(client, "/vllm/v1/completions", prompt=TEXT, return_token_ids=True, **greedy)
    third = drawn["choices"][0]["token_ids"][2]
    [stopped] = complete(client, TEXT, stop_token_ids=[third], **greedy)["choices"]
    assert (stopped["finish_reason"], stopped["stop_reason"]) == ("stop", third)
    [ignored] = complete(client, TEXT, ignore_eos=True, **greedy)["choices"]
    assert ignored["finish_reason"] == "length"


def test_ends_are_passed_in_vllms_dialect(client: httpx2.Client) -> None:
    [end] = ids(client, END)
    asked = {"max_tokens": 4, "ignore_eos": True, "return_token_ids": True}
    path, likely = "/vllm/v1/completions", {str(end): 100}
    [passed] = post(client, path, prompt=TEXT, logit_bias=likely, **asked)["choices"]
    assert passed["token_ids"] == [end] * 4
    assert (passed["text"], passed["finish_reason"]) == ("", "length")


def test_vllm_draws_without_a_seed(client: httpx2.Client) -> None:
    asked = {"prompt": TEXT, "max_tokens": 12}
    answers = [client.post("/v1/completions", json=asked) for _ in range(2)]
    assert not any("x-segue-seed" in answer.headers for answer in answers)
    first, second = (answer.json()["choices"][0]["text"] for answer in answers)
    assert first != second


SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": [1, 2]}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("constraint", "possible"),
    [
        ({"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}}, None),
        ({"grammar": 'root ::= "yes" | "no"'}, ["yes", "no"]),
        ({"structured_outputs": {"choice": ["left", "right"]}}, ["left", "right"]),
        ({"structured_outputs": {"regex": "[ab]{3}"}}, None),
        ({"structured_outputs": {"regex": "true|tr(ue)"}}, ["true"]),
    ],
    ids=str,
)
def test_constraints_hold(
    client: httpx2.Client, constraint: dict[str, Any], possible: list[str] | None
) -> None:
    answer = complete(client, TEXT, max_tokens=40, seed=1, n=3, **constraint)
    for choice in answer["choices"]:
        assert choice["finish_reason"] == "stop"
        if possible is not None:
            assert choice["text"] in possible
        elif "json" in constraint["structured_outputs"]:
            assert json.loads(choice["text"])["a"] in (1, 2)
        else:
            assert len(choice["text"]) == 3
            assert set(choice["text"]) <= set("ab")


@pytest.mark.parametrize(
    ("allowed", "regex", "text", "reason"),
    [("", "yes", "", "error"), ("ye", "yes", "ye", "error"), ("ye", "ye(s)?", "ye", "stop")],
)
def test_bans_that_leave_nothing_of_a_constraint(
    client: httpx2.Client, allowed: str, regex: str, text: str, reason: str
) -> None:
    """The text ends where nothing may follow, as on our own engine; what vLLM draws there is no part of it."""
    bans = {"allowed_token_ids": [*ids(client, "#"), *(ids(client, char)[0] for char in allowed)]}
    body = {"structured_outputs": {"regex": regex}, "max_tokens": 8, "temperature": 0, **bans}
    answer = complete(client, TEXT, **body)
    [choice] = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == (text, reason)
    assert answer["usage"]["completion_tokens"] == len(text)


def test_suffix_by_the_models_own_tokens(client: httpx2.Client) -> None:
    answer = client.post(
        "/v1/completions",
        json={"prompt": "def f(", "suffix": "return x", "max_tokens": 4, "temperature": 0},
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-segue-infill"] == "fim"


@pytest.mark.parametrize(
    "body",
    [
        {"mirostat": 2, "mirostat_tau": 2.0},
        {"dry_multiplier": 0.8, "dry_allowed_length": 1},
        {"typical_p": 0.5},
        {"xtc_probability": 0.5, "xtc_threshold": 0.05},
        {"dynatemp_range": 0.5},
        {"repetition_penalty": 1.2, "repeat_last_n": 4},
    ],
    ids=str,
)
def test_steps_that_vllm_lacks(
    client: httpx2.Client, reference: TinyReference, body: dict[str, Any]
) -> None:
    """Our own sampler draws from vLLM's logits: its tokens are those it draws from the reference's.

    A long prompt beside them, which vLLM reads in parts, changes nothing.
    """
    prompt = ids(client, TEXT)
    asked = {"max_tokens": 12, "seed": 5, "ignore_eos": True, "return_token_ids": True, **body}
    drawn = complete(client, prompt, **asked)["choices"][0]["token_ids"]
    steps = {("penalty_window" if k == "repeat_last_n" else k): v for k, v in body.items()}
    sampling = Sampling(seed=5, ignore_eos=True, **steps)
    [end] = ids(client, END)
    rules = TokenRules(ends=frozenset({end}), ignores_ends=True)
    sampler = Sampler(sampling, 5, 0, len(reference.logits(prompt)[-1]), rules)
    sampler.start(prompt)
    tokens = list(prompt)
    num_same = 0
    for position, token in enumerate(drawn):
        num_same += token == sampler.sample(reference.logits(tokens)[-1].copy(), position)
        sampler.push(token)
        tokens.append(token)
    # Where products have fewer bits, a draw near a boundary may fall to the other side.
    assert num_same == len(drawn) if IS_EXACT else num_same > len(drawn) // 2


def test_a_middle_by_ranking(client: httpx2.Client) -> None:
    body = {"prompt": "the other one", "suffix": " and the end", "infill_mode": "ranked"}
    answer = client.post("/v1/completions", json={**body, "max_tokens": 6, "seed": 1, "n": 2})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-segue-infill"] == "ranked"
    assert all(choice["text"] for choice in answer.json()["choices"])


def test_beams_are_the_references(client: httpx2.Client, reference: TinyReference) -> None:
    prompt = ids(client, TEXT)
    asked = {"max_tokens": 5, "temperature": 0, "logprobs": 1, "return_token_ids": True}
    body = {"prompt": prompt, "use_beam_search": True, "n": 3, **asked}
    choices = post(client, "/vllm/v1/completions", **body)["choices"]
    for choice in choices:
        expected = logprobs(reference, prompt + choice["token_ids"])
        own = [float(expected[len(prompt) - 1 + i, t]) for i, t in enumerate(choice["token_ids"])]
        assert choice["logprobs"]["token_logprobs"] == pytest.approx(own, abs=PRECISION)
    sums = [sum(choice["logprobs"]["token_logprobs"]) for choice in choices]
    assert len({tuple(choice["token_ids"]) for choice in choices}) == 3
    greedy = post(client, "/vllm/v1/completions", prompt=prompt, **asked)["choices"][0]
    assert max(sums) >= sum(greedy["logprobs"]["token_logprobs"]) - len(prompt) * PRECISION


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"grammar": "root ::= ("}, "grammar"),
    ],
    ids=str,
)
def test_what_vllm_cannot_do_is_refused(
    client: httpx2.Client, body: dict[str, Any], field: str
) -> None:
    answer = client.post("/v1/completions", json={"prompt": "x", **body})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == field


# Every dialect with its own defaults.
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"max_tokens": 4}),
        ("/vllm/v1/completions", {"max_tokens": 4}),
        ("/llamacpp/completion", {"n_predict": 4}),
        ("/llamafile/v1/completions", {"max_tokens": 4}),
        ("/mistralrs/v1/completions", {"max_tokens": 4}),
        ("/llamastack/v1/completions", {"max_tokens": 4}),
        ("/ollama/api/generate", {"stream": False, "options": {"num_predict": 4}}),
    ],
    ids=str,
)
def test_every_dialect_is_served(client: httpx2.Client, path: str, body: dict[str, Any]) -> None:
    assert post(client, path, model="default", prompt=TEXT, **body)
