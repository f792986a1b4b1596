"""`segue serve` on a model with states: the CPU runner computes it, and answers are the same in every form."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write
from tests.support.serving import serving
from tests.support.waiting import LOADING_S

ASKED = {"prompt": "the end and then the other", "max_tokens": 24, "temperature": 0.8, "seed": 7}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    path: Path = write(tmp_path_factory.mktemp("hybrid") / "tiny.gguf", MODELS["qwen35"])
    with (
        serving(str(path), "--num-slots", "8", "--threads", "2") as served,
        httpx2.Client(base_url=served.url, timeout=LOADING_S) as client,
    ):
        yield client


def answer(client: httpx2.Client, **fields: Any) -> list[Any]:
    found = client.post("/v1/completions", json={**ASKED, **fields})
    assert found.status_code == 200, found.text
    body = found.json()
    assert "varies" not in body["system_fingerprint"]
    return [choice["text"] for choice in body["choices"]]


def streamed(client: httpx2.Client, **fields: Any) -> list[str]:
    texts = [""] * fields.get("n", 1)
    with client.stream(
        "POST", "/v1/completions", json={**ASKED, **fields, "stream": True}
    ) as lines:
        for line in lines.iter_lines():
            if line.startswith("data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    texts[choice["index"]] += choice["text"]
    return texts


def test_our_kernels_compute_it(client: httpx2.Client) -> None:
    health = client.get("/health").json()
    assert health["deterministic"] is True


def test_candidates_are_the_same_streamed_and_again(client: httpx2.Client) -> None:
    first = answer(client, n=2)
    assert first[0] != first[1]
    assert answer(client, n=2) == streamed(client, n=2) == first
    assert answer(client) == streamed(client) == first[:1]


def test_a_constraint_holds_and_ends(client: httpx2.Client) -> None:
    [text] = answer(client, guided_regex="[a-d]{3,9}", max_tokens=12)
    assert 3 <= len(text) <= 9
    assert set(text) <= set("abcd")


def test_a_stop_leaves_a_slot_that_goes_on(client: httpx2.Client) -> None:
    [whole] = answer(client, temperature=0)
    [cut] = answer(client, temperature=0, stop=whole[6:8])
    assert whole.startswith(cut)
    rest = {"prompt": ASKED["prompt"] + whole[:12], "temperature": 0, "max_tokens": 12}
    assert answer(client, **rest) == answer(client, **rest)
