"""LoRA adapters by name and scheduling by priority on the real vLLM: one server that computes one text at a time."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from tests.support.asking import complete, post
from tests.support.models.tiny_hf import write_tiny_hf, write_tiny_peft
from tests.support.models.tiny_lora import EVERYWHERE, merged, write_tiny_lora
from tests.support.models.tiny_reference import TinyReference
from tests.support.serving import Served, serving
from tests.support.vllm.server import GPU_OPTIONS, IS_EXACT, NEEDS_VLLM, TEXT, ids, logprobs
from tests.support.vllm.server import PRECISION as FULL_PRECISION
from tests.support.waiting import wait_until

pytestmark = NEEDS_VLLM
# On GPUs vLLM's LoRA kernels take half precision only: weights and sums are then rounded to 11 bits.
DTYPE, PRECISION = ("float32", FULL_PRECISION) if IS_EXACT else ("float16", 5e-2)
ADAPTERS = {"poet": 1, "clerk": 2}  # names, and seeds of their weights


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vllm-options")


@pytest.fixture(scope="module")
def loras(tiny_gguf: Path, folder: Path) -> dict[str, Path]:
    names = [name for name in EVERYWHERE if name != "output.weight"]
    return {
        name: write_tiny_lora(
            folder / f"{name}.gguf", tiny_gguf, names=names, seed=seed, rank=8, size=1.0
        )
        for name, seed in ADAPTERS.items()
    }


@pytest.fixture(scope="module")
def served(tiny_gguf: Path, folder: Path, loras: dict[str, Path]) -> Iterator[Served]:
    model = write_tiny_hf(folder / "tiny", tiny_gguf, context=8192)
    modules = {name: str(write_tiny_peft(folder / name, lora)) for name, lora in loras.items()}
    options = (
        f"dtype={DTYPE}",
        "enforce_eager=true",
        "max_num_seqs=1",
        "scheduling_policy=priority",
        f"lora_modules={json.dumps(modules)}",
        *GPU_OPTIONS,
    )
    arguments = [word for option in options for word in ("--vllm-option", option)]
    arguments += ["--engine", "vllm", "--kv-memory-mib", "64"]
    with serving(str(model), *arguments) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=served.url, timeout=300) as client:
        yield client


def scores(client: httpx2.Client, tokens: list[int], model: str) -> list[float]:
    """Log-probabilities of a prompt's tokens but the first."""
    asked = {"max_tokens": 0, "echo": True, "logprobs": 0}
    [choice] = complete(client, tokens, model=model, **asked)["choices"]
    found: list[float] = choice["logprobs"]["token_logprobs"][1:]
    return found


def test_an_adapter_is_a_model_by_its_name(
    client: httpx2.Client, tiny_gguf: Path, tmp_path: Path, loras: dict[str, Path]
) -> None:
    """Its scores are those of the base with the adapter merged in; the base's own are not changed."""
    tokens = ids(client, TEXT)
    served = [card["id"] for card in client.get("/v1/models").json()["data"]]
    assert set(ADAPTERS) < set(served)
    [base] = set(served) - set(ADAPTERS)
    files = {
        base: tiny_gguf,
        **{name: merged(tmp_path / name, tiny_gguf, (lora, 1.0)) for name, lora in loras.items()},
    }
    found = {}
    for name in (base, *ADAPTERS, base):  # the base again, after its adapters
        expected = logprobs(TinyReference(files[name]), tokens)
        own = [float(expected[place, token]) for place, token in enumerate(tokens[1:])]
        found[name] = scores(client, tokens, name)
        print(name, "- largest difference:", np.abs(np.subtract(found[name], own)).max())
        assert found[name] == pytest.approx(own, abs=PRECISION)
    apart = [np.abs(np.subtract(found[base], found[name])).max() for name in ADAPTERS]
    assert min(apart) > 10 * PRECISION, "the adapters make a difference"


def test_an_adapter_that_does_not_fit_is_told_at_the_start(tiny_gguf: Path, tmp_path: Path) -> None:
    """As by `vllm serve`. vLLM's engine dies of a request for it, and so would all others."""
    lora = write_tiny_lora(tmp_path / "lora.gguf", tiny_gguf, rank=32)
    modules = json.dumps({"giant": str(write_tiny_peft(tmp_path / "giant", lora))})
    model = write_tiny_hf(tmp_path / "tiny", tiny_gguf)
    options = (f"dtype={DTYPE}", "enforce_eager=true", f"lora_modules={modules}", *GPU_OPTIONS)
    arguments = [word for option in options for word in ("--vllm-option", option)]
    arguments += ["--engine", "vllm", "--kv-memory-mib", "64"]
    refusal = pytest.raises(RuntimeError, match=r"segue: .* adapter giant: .*max_lora_rank")
    with refusal, serving(str(model), *arguments):
        pass


def test_lora_by_the_fields_of_others(client: httpx2.Client) -> None:
    """What llama.cpp and mistral.rs call it is the same adapter; what vLLM cannot do is refused."""
    tokens, asked = ids(client, TEXT), {"max_tokens": 0, "echo": True, "logprobs": 0}
    [choice] = complete(client, tokens, lora=[{"id": 0, "scale": 1.0}], **asked)["choices"]
    by_name = scores(client, tokens, next(iter(ADAPTERS)))
    assert choice["logprobs"]["token_logprobs"][1:] == pytest.approx(by_name, abs=PRECISION)
    body = {"prompt": "x", "lora": [{"id": 0, "scale": 0.5}]}
    answer = client.post("/v1/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "lora")


def test_lower_priorities_are_served_first(served: Served, client: httpx2.Client) -> None:
    """One text runs and two wait: the one that came last, with the lower number, is served before the other."""
    priorities = {"late": 5, "soon": -5}

    def ask(name: str) -> None:
        named = {"x-request-id": name}
        with httpx2.Client(base_url=served.url, timeout=300, headers=named) as other:
            body: dict[str, Any] = {"prompt": "the", "max_tokens": 4, "priority": priorities[name]}
            post(other, "/vllm/v1/completions", **body)

    def order() -> list[str]:
        """As the server logged their ends: which of two threads reads its answer first says nothing."""
        return [name for line in served.log for name in priorities if f"{name} POST" in line]

    # It runs until both others wait, and is served before them by its priority.
    body = {"prompt": "the", "max_tokens": 8000, "ignore_eos": True, "stream": True, "priority": -9}
    with client.stream("POST", "/v1/completions", json=body) as running:
        lines = running.iter_lines()  # held: the answer is closed with it
        next(lines)
        for number, name in enumerate(priorities, 1):
            threading.Thread(target=ask, args=(name,)).start()
            _wait_for_waiting(client, number)
    wait_until(lambda: len(order()) == len(priorities))
    assert order() == ["soon", "late"]


def _wait_for_waiting(client: httpx2.Client, number: int) -> None:
    """Until vLLM's queue holds so many. It tells its figures with every step, of which the long text makes many."""

    def is_filled() -> bool:
        text = client.get("/metrics").text
        lines = [line for line in text.splitlines() if line.startswith("segue_waiting{")]
        return float(lines[0].rsplit(" ", 1)[1]) >= number

    wait_until(is_filled)
