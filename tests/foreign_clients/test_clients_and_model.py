"""The clients of two systems with a model that was taught to chat: what its template is for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.serving import Served, serving

pytestmark = pytest.mark.model

QUESTION = "What is the capital of France?"


@pytest.fixture(scope="module")
def served(embedded_gguf: Path) -> Iterator[Served]:
    with serving(str(embedded_gguf), "--alias", "smol") as server:
        yield server


@pytest.fixture
def ollama(served: Served) -> Iterator[Any]:
    library = pytest.importorskip("ollama")
    with library.Client(host=served.url) as client:
        yield client


def test_ollama_asks_in_the_models_own_words(ollama: Any) -> None:
    options = {"temperature": 0, "num_predict": 8}
    raw = ollama.generate(model="smol", prompt=QUESTION, raw=True, options=options)
    asked = ollama.generate(model="smol", prompt=QUESTION, options=options)
    assert asked.prompt_eval_count > raw.prompt_eval_count
    assert len(asked.context) == asked.prompt_eval_count + asked.eval_count
    assert "<|im_" not in asked.response
    worded = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
    again = ollama.generate(model="smol", prompt=worded, raw=True, options=options)
    template = "<|im_start|>user\n{{ .Prompt }}<|im_end|>\n<|im_start|>assistant\n{{ .Response }}"
    same = ollama.generate(model="smol", prompt=QUESTION, template=template, options=options)
    assert (again.response, again.prompt_eval_count) == (same.response, same.prompt_eval_count)


def test_ollama_shows_the_model_and_reloads_it(ollama: Any) -> None:
    shown = ollama.show("smol")
    assert shown.capabilities == ["completion"]
    assert "im_start" in shown.template
    assert ollama.generate(model="smol", keep_alive=0).done_reason == "unload"
    answer = ollama.generate(model="smol", prompt="a", options={"num_predict": 1, "seed": 1})
    assert answer.done_reason == "length"


def test_vllm_scores_prompts_in_a_stream(served: Served) -> None:
    with openai.OpenAI(base_url=f"{served.url}/vllm/v1", api_key="none") as client:
        asked: Any = {"model": "smol", "prompt": "The capital of France is", "max_tokens": 1}
        extra = {"prompt_logprobs": 1, "return_token_ids": True}
        whole = client.completions.create(**asked, temperature=0, extra_body=extra)
        first, *_ = client.completions.create(**asked, temperature=0, extra_body=extra, stream=True)
    expected, found = whole.choices[0].model_extra, first.choices[0].model_extra
    assert expected is not None
    assert found is not None
    assert found["prompt_logprobs"] == expected["prompt_logprobs"]
    assert found["prompt_logprobs"][0] is None
    assert len(found["prompt_logprobs"]) == len(found["prompt_token_ids"]) == 5
