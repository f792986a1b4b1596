"""Context shift over HTTP, in the dialects that have one: answers that are longer than the context of the server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from segue.bounds import MOST_CONTEXTS
from segue.dialects.fields.token_fields import SHIFTS
from segue.runners.fake import FakeLoader
from segue.server.admission.request_caps import Caps
from tests.support.live import Served, serve

CONTEXT = 64
ENDLESS = {"seed": 3, "ignore_eos": True}


@pytest.fixture(scope="module", params=[False, True], ids=["by request", "by the server"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[Served, bool]]:
    """Whether answers shift where their requests say nothing of it."""
    loader = FakeLoader("fake", context_length=CONTEXT, num_cells=640)
    with serve(loader, "fake", defaults={SHIFTS: True} if request.param else {}) as served:
        yield served, request.param


def post(served: Served, path: str, **body: Any) -> dict[str, Any]:
    answer = served.client.post(path, json={"model": "fake", "prompt": "ab", **body})
    assert answer.status_code == 200, answer.text
    return {**answer.json(), "ignored": answer.headers.get("x-segue-ignored")}


def test_the_root(server: tuple[Served, bool]) -> None:
    served, is_on = server
    told = post(served, "/v1/completions", max_tokens=150, **ENDLESS)
    assert told["usage"]["completion_tokens"] == (150 if is_on else CONTEXT - 2)
    on = post(served, "/v1/completions", max_tokens=150, shift=True, **ENDLESS)
    assert on["usage"]["completion_tokens"] == 150
    off = post(served, "/v1/completions", max_tokens=150, shift=False, **ENDLESS)
    assert off["usage"]["completion_tokens"] == CONTEXT - 2
    assert on["choices"][0]["text"].startswith(off["choices"][0]["text"])
    assert told["choices"] == (on if is_on else off)["choices"]


def test_llamacpp(server: tuple[Served, bool]) -> None:
    served, is_on = server
    asked: dict[str, Any] = {"n_predict": 100, "n_keep": 5, "n_discard": 20, **ENDLESS}
    told = post(served, "/llamacpp/completion", return_tokens=True, **asked)
    assert told["truncated"]
    assert told["stop_type"] == "limit"
    assert told["tokens_predicted"] == len(told["tokens"]) == (100 if is_on else CONTEXT - 2)
    kept = [told["generation_settings"][name] for name in ("n_keep", "n_discard")]
    assert kept == ([5, 20] if is_on else [0, 0])
    assert told["tokens_cached"] == (2 + 99 - 2 * 20 if is_on else CONTEXT - 1)
    assert told["ignored"] == (None if is_on else "n_keep, n_discard")
    assert told["timings"]["predicted_n"] == told["tokens_predicted"]
    short = post(served, "/llamacpp/completion", n_predict=9, **ENDLESS)
    assert not short["truncated"]


def test_ollama(server: tuple[Served, bool]) -> None:
    """Its answers shift in any case. Their context has all tokens, those too that were dropped."""
    served, _ = server
    asked = {"raw": True, "stream": False, "options": {"seed": 3, "num_keep": 9}}
    told = post(served, "/api/generate", **asked)
    assert (told["done"], told["done_reason"]) == (True, "length")
    assert told["eval_count"] == MOST_CONTEXTS * CONTEXT
    asked["options"] = {"seed": 3, "num_predict": 100}
    bounded = post(served, "/api/generate", **{**asked, "raw": False})
    num_prompt = bounded["prompt_eval_count"]
    assert bounded["eval_count"] == 100
    assert len(bounded["context"]) == num_prompt + 100 > CONTEXT
    off = post(served, "/api/generate", shift=False, **asked)
    assert off["eval_count"] == CONTEXT - 2
    text = post(served, "/ollama/v1/completions", max_tokens=100, seed=3, temperature=0.8)
    assert text["usage"]["completion_tokens"] == 100


def test_a_text_of_one_token_ends_in_ollamas_dialect() -> None:
    with serve(
        FakeLoader("fake", script=b"x", context_length=CONTEXT, num_cells=640), "fake"
    ) as served:
        asked = {"model": "fake", "prompt": "ab", "raw": True, "options": {"temperature": 0}}
        lines = served.client.post("/api/generate", json=asked).text.splitlines()
    *pieces, last = [json.loads(line) for line in lines]
    assert "".join(piece["response"] for piece in pieces) == "x" * 32
    assert (last["done"], last["done_reason"], last["eval_count"]) == (True, "length", 32)


def test_a_servers_bound_on_tokens_ends_it() -> None:
    loader = FakeLoader("fake", context_length=CONTEXT, num_cells=640)
    with serve(loader, "fake", caps=Caps(total_tokens=200)) as served:
        told = post(served, "/v1/completions", max_tokens=-1, n=2, shift=True, **ENDLESS)
    assert told["usage"]["completion_tokens"] == 200
    assert {choice["finish_reason"] for choice in told["choices"]} == {"length"}
