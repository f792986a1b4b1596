from typing import Any

import pytest

from segue.dialects.openai import OPENAI
from segue.dialects.vllm import VLLM
from segue.types import CompletionRequest, Event, Failed
from tests.server.conftest import Launch

GENERATE, SCORING = "/vllm/inference/v1/generate", "/vllm/generative_scoring"
TOKENS = {"token_ids": [1]}
ITEMS = {"query": "a", "items": ["b"], "label_token_ids": [1]}
REGEX = {"structured_outputs": {"regex": "("}}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body", "own", "said", "sent"),
    [
        (GENERATE, TOKENS, "prompt", " holds token id 9", "token_ids"),
        (SCORING, ITEMS, "prompt", " holds token id 9", "items"),
        (
            GENERATE,
            {**TOKENS, "sampling_params": {"stop_token_ids": [9]}},
            "stop_token_ids",
            " holds token id 9",
            "sampling_params.stop_token_ids",
        ),
        (
            GENERATE,
            {**TOKENS, "sampling_params": REGEX},
            "structured_outputs",
            ".regex: it has no end",
            "sampling_params.structured_outputs",
        ),
        ("/vllm/v1/completions", {"prompt": "a", "stop": "b"}, "stop", " is long", "stop"),
        ("/vllm/v1/completions", {"prompt": "a"}, "lora", " is not there", "lora"),
    ],
)
def test_a_field_has_the_name_that_was_sent(
    launch: Launch,
    path: str,
    body: dict[str, Any],
    own: str,
    said: str,
    sent: str,
    is_stream: bool,
) -> None:
    def refusing(_: CompletionRequest) -> list[Event]:
        return [Failed("invalid_value", f"{own}{said}", own)]

    live = launch(refusing, dialects=(OPENAI, VLLM))
    answer = live.client.post(path, json={**body, "stream": is_stream})
    error = answer.json()["error"]
    assert answer.status_code == 400
    assert (error["param"], error["message"]) == (sent, f"{sent}{said} (parameter={sent})")


def test_words_that_only_begin_like_a_field_stay(launch: Launch) -> None:
    live = launch(
        lambda _: [Failed("invalid_value", "prompts are empty", "prompt")], dialects=(OPENAI, VLLM)
    )
    error = live.client.post(GENERATE, json=TOKENS).json()["error"]
    assert (error["param"], error["message"].split()[0]) == ("token_ids", "prompts")
