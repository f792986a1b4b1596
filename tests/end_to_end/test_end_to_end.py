"""The embedded model behind a real socket, asked by the real OpenAI client."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI, BadRequestError, OpenAI

from tests.support.serving import Served, serving
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.model

STORY = "Once upon a time, in a small village by the sea,"


@pytest.fixture(scope="module")
def served(embedded_gguf: Path) -> Iterator[Served]:
    with serving(str(embedded_gguf)) as server:
        yield server


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{served.url}/v1", api_key="none") as client:
        yield client


def complete(client: OpenAI, prompt: Any, **fields: Any) -> Any:
    return client.completions.create(model="default", prompt=prompt, **fields)


def test_it_knows_something(client: OpenAI) -> None:
    answer = complete(client, "The capital of France is", max_tokens=5, temperature=0)
    assert "Paris" in answer.choices[0].text
    assert answer.usage.prompt_tokens == 5
    assert answer.usage.completion_tokens == 5


def test_streamed_and_folded_are_equal(client: OpenAI) -> None:
    asked: dict[str, Any] = {"max_tokens": 40, "seed": 11, "n": 2, "logprobs": 2}
    folded = complete(client, STORY, **asked)
    texts, usage = ["", ""], None
    stream = complete(client, STORY, **asked, stream=True, stream_options={"include_usage": True})
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in folded.choices]
    assert usage is not None
    assert usage.completion_tokens == folded.usage.completion_tokens == 80


def test_four_choices_differ_and_come_again(client: OpenAI) -> None:
    first, again = (
        [c.text for c in complete(client, STORY, n=4, seed=5, max_tokens=24).choices]
        for _ in range(2)
    )
    assert len(set(first)) == 4
    assert first == again


def test_echoed_logprobs_are_those_of_scoring_the_text(client: OpenAI) -> None:
    made = complete(client, STORY, max_tokens=20, temperature=0, logprobs=0).choices[0]
    text = STORY + made.text
    scored = complete(client, text, max_tokens=0, echo=True, logprobs=0).choices[0]
    assert scored.text == text
    assert scored.logprobs.token_logprobs[0] is None
    assert scored.logprobs.tokens[-20:] == made.logprobs.tokens, "greedy text reads back as it was"
    assert scored.logprobs.token_logprobs[-20:] == pytest.approx(
        made.logprobs.token_logprobs, abs=1e-6
    )
    assert scored.logprobs.text_offset[-20:] == made.logprobs.text_offset


@pytest.mark.parametrize("stop", [["\n"], [" the"], ["he", "the sea"], ["e"]])
def test_stop_strings_never_leak(client: OpenAI, stop: list[str]) -> None:
    shown = ""
    for chunk in complete(client, STORY, stop=stop, max_tokens=60, seed=1, stream=True):
        shown += chunk.choices[0].text if chunk.choices else ""
        assert not any(s in shown for s in stop)
    whole = complete(client, STORY, max_tokens=60, seed=1).choices[0].text
    ends = [whole.find(s) for s in stop if s in whole]
    assert shown == (whole[: min(ends)] if ends else whole)


def test_characters_are_never_cut(client: OpenAI) -> None:
    prompt = "Emoji: 🙂🙃😀😃😄😁😆🥹😅😂 漢字: 日本語の文字は美しい 🙂🙃😀😃😄"
    shown = ""
    for chunk in complete(client, prompt, max_tokens=48, temperature=0, stream=True):
        piece = chunk.choices[0].text
        piece.encode()  # no half of a surrogate pair
        shown += piece
    folded = complete(client, prompt, max_tokens=48, temperature=0).choices[0].text
    assert shown == folded
    assert "\ufffd" not in shown[:-1]
    assert any(ord(character) > 0x2000 for character in shown)


def test_64_streams_at_once_with_a_long_prompt_in_between(served: Served) -> None:
    """All finish with the right usage, and the long prompt stalls nobody for more than its chunks."""

    async def one(client: AsyncOpenAI, index: int) -> int:
        stream = await client.completions.create(
            model="default",
            prompt=f"Story number {index}: once upon a time",
            max_tokens=16,
            stream=True,
            seed=index,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
        usage = None
        async for chunk in stream:
            usage = chunk.usage or usage
        assert usage is not None
        return int(usage.completion_tokens)

    async def main() -> None:
        async with AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none") as client:
            long = client.completions.create(
                model="default", prompt=[100 + i % 400 for i in range(1200)], max_tokens=1
            )
            many = asyncio.gather(*(one(client, i) for i in range(64)))
            counts, answer = await asyncio.gather(many, long)
        assert all(1 <= count <= 16 for count in counts)
        assert answer.usage is not None
        assert answer.usage.prompt_tokens == 1200

    asyncio.run(main())


def test_a_client_that_leaves_frees_its_slot(served: Served) -> None:
    """Without streaming: the connection is dropped while the answer is being written."""
    with httpx2.Client(base_url=served.url, timeout=PATIENCE_S) as http:
        with pytest.raises(httpx2.ReadTimeout):
            http.post(
                "/v1/completions",
                json={"prompt": STORY, "max_tokens": -1, "ignore_eos": True},
                timeout=httpx2.Timeout(PATIENCE_S, read=0.5),
            )
        running = re.compile(r"^segue_running\S* 0\.0$", re.MULTILINE)
        wait_until(lambda: running.search(http.get("/metrics").text))


def test_a_sampling_step_that_is_named_again_changes_nothing(client: OpenAI) -> None:
    asked: dict[str, Any] = {"max_tokens": 8, "seed": 3, "temperature": 0.8}
    once, again = (
        complete(client, STORY, **asked, extra_body={"top_k": 40, "samplers": order})
        for order in (["top_k", "temperature"], ["top_k"] * 4 + ["temperature"])
    )
    assert once.choices[0].text == again.choices[0].text


def test_errors_as_the_client_raises_them(client: OpenAI) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"prompt": ""}, "prompt"),
        ({"prompt": [10**7]}, "prompt"),
        ({"prompt": "x", "temperature": -1}, "temperature"),
        ({"prompt": "x", "n": 0}, "n"),
        ({"prompt": "x " * 20_000}, "prompt"),
    ]
    for fields, param in wrong:
        with pytest.raises(BadRequestError) as raised:
            complete(client, **fields)
        assert raised.value.param == param
