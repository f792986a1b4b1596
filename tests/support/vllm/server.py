"""What tests ask of a server on the real vLLM, and how exact its answers are."""

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from tests.support.asking import complete, post
from tests.support.models.tiny_reference import TinyReference
from tests.support.waiting import wait_until

NEEDS_VLLM = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None,
        reason="vllm is not installed: `make vllm-test` installs it and runs this",
    ),
]
TEXT = "The other one: thé then and the end"
# float32 throughout with sums in another order; a GPU multiplies float32 with fewer bits (6e-3 was seen).
IS_EXACT = not Path("/dev/nvidia0").exists()
PRECISION = float(os.environ.get("SEGUE_VLLM_PRECISION", 1e-4 if IS_EXACT else 2e-2))
# A share of the GPU, so that several servers fit on it.
GPU_OPTIONS = () if IS_EXACT else ("gpu_memory_utilization=0.15",)


def share_one_node(patch: pytest.MonkeyPatch) -> None:
    """vLLM on CPUs has a NUMA node for each of its processes, unless it is told otherwise: a machine may have one."""
    patch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    # Of two copies of the model, each (data_parallel_size): vLLM 0.33 wants it to be said.
    patch.setenv("CPU_VISIBLE_MEMORY_NODES", "0,0")


def ids(client: httpx2.Client, text: str) -> list[int]:
    tokens: list[int] = post(client, "/tokenize", prompt=text, add_special_tokens=False)["tokens"]
    return tokens


def logprobs(reference: TinyReference, tokens: list[int]) -> Any:
    logits = reference.logits(tokens).astype(np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def parts(client: httpx2.Client, **body: Any) -> list[dict[str, Any]]:
    """The objects of a stream."""
    with client.stream("POST", "/v1/completions", json={**body, "stream": True}) as answer:
        assert answer.status_code == 200
        lines = [line for line in answer.iter_lines() if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def running(client: httpx2.Client) -> float:
    text = client.get("/metrics").text
    lines = [line for line in text.splitlines() if line.startswith("segue_running{")]
    return float(lines[0].rsplit(" ", 1)[1])


def wait_until_idle(client: httpx2.Client) -> None:
    """vLLM tells its figures with the next step, so one is made."""

    def is_idle() -> bool:
        complete(client, "x", max_tokens=1)
        return running(client) == 0

    wait_until(is_idle)
