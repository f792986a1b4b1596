"""The embedded model's scores against transformers and torch, which compute it in float32."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.serving import serving
from tests.support.waiting import LOADING_S

TEXTS = Path(__file__).parent.parent / "data" / "lm_eval" / "prose.jsonl"
MISSING = "is not installed: pip install torch transformers accelerate"

pytestmark = pytest.mark.reference


Reference = Callable[[list[int]], NDArray[np.float64]]


@pytest.fixture(scope="module")
def reference(embedded_gguf: Path) -> Reference:
    """Log-probabilities of all tokens but the first.

    The same weights, dequantised: what differs is that runners round the activations to 8 bits.
    """
    torch = pytest.importorskip("torch", reason=f"torch {MISSING}")
    transformers = pytest.importorskip("transformers", reason=f"transformers {MISSING}")
    pytest.importorskip("accelerate", reason=f"accelerate {MISSING}")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        embedded_gguf.parent, gguf_file=embedded_gguf.name, dtype=torch.float32
    )

    def logprobs(tokens: list[int]) -> Any:
        with torch.no_grad():
            logits = model(torch.tensor([tokens])).logits[0].double()
        return torch.log_softmax(logits, -1)[range(len(tokens) - 1), tokens[1:]].numpy()

    return logprobs


@pytest.fixture(scope="module", params=["llama", "cpu"])
def client(request: pytest.FixtureRequest, embedded_gguf: Path) -> Iterator[httpx2.Client]:
    with (
        serving(str(embedded_gguf), "--runner", request.param) as served,
        httpx2.Client(base_url=served.url, timeout=LOADING_S) as client,
    ):
        yield client


def test_agrees_within_the_bound_of_quantisation(
    reference: Reference, client: httpx2.Client
) -> None:
    differences: list[float] = []
    for line in TEXTS.read_text("utf-8").splitlines():
        asked = {"prompt": json.loads(line)["text"]}
        tokens = client.post("/tokenize", json=asked).json()["tokens"]
        answer = client.post(
            "/v1/completions", json={**asked, "max_tokens": 0, "echo": True, "logprobs": 0}
        ).json()
        scored = answer["choices"][0]["logprobs"]["token_logprobs"][1:]
        differences += (np.array(scored) - reference(tokens)).tolist()
    assert len(differences) > 100
    assert np.abs(differences).mean() < 0.15
    assert abs(np.mean(differences)) < 0.03, "rounding has no direction"
