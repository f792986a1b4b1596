"""vLLM's batch-invariant mode: tried at the start, reported as found, and true of requests if it holds."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.asking import complete
from tests.support.models.tiny_hf import write_tiny_hf
from tests.support.serving import serving
from tests.support.vllm.server import GPU_OPTIONS, IS_EXACT, NEEDS_VLLM, TEXT

pytestmark = NEEDS_VLLM
# Drawn by vLLM, and by Segue's own sampler from vLLM's logits.
STEPS: dict[str, dict[str, Any]] = {
    "vllm": {},
    "greedy": {"temperature": 0},
    "own sampler": {"typical_p": 0.7},
    "mirostat": {"mirostat": 2, "mirostat_tau": 3.0},
}
ASKED = {"max_tokens": 24, "seed": 5, "logprobs": 2, "ignore_eos": True, "cache_prompt": False}


def arguments(folder: Path, tiny_gguf: Path) -> list[str]:
    # Of the attention of GPUs the invariant ones are those of bfloat16; texts are compared with themselves only.
    dtype = "dtype=float32" if IS_EXACT else "dtype=bfloat16"
    options = (dtype, "enforce_eager=true", "max_num_seqs=32", *GPU_OPTIONS)
    words = [word for option in options for word in ("--vllm-option", option)]
    words += ["--engine", "vllm", "--context-length", "256", "--kv-memory-mib", "64"]
    return [str(write_tiny_hf(folder / "tiny", tiny_gguf)), *words]


@pytest.mark.skipif(not IS_EXACT, reason="a GPU may have the kernels")
def test_without_the_kernels_the_start_says_so(
    tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    with (
        pytest.raises(RuntimeError, match="unset VLLM_BATCH_INVARIANT"),
        serving(*arguments(tmp_path, tiny_gguf)),
    ):
        pass


@pytest.mark.skipif(IS_EXACT, reason="vLLM has batch-invariant kernels for GPUs only")
def test_equal_bytes_are_reported_as_found(
    tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    with (
        serving(*arguments(tmp_path, tiny_gguf)) as served,
        httpx2.Client(base_url=served.url, timeout=300) as client,
    ):
        is_same = {name: _is_same_among_others(client, steps) for name, steps in STEPS.items()}
        [said] = [line for line in served.log if "batch invariance: " in line]
        holds = "batch invariance: holds" in said
        assert client.get("/health").json()["deterministic"] == holds
    print(said.strip(), "- equal bytes among others:", is_same)
    assert not holds or all(is_same.values())


def _is_same_among_others(client: httpx2.Client, steps: dict[str, Any]) -> bool:
    alone = _choices(client, TEXT, steps)
    with ThreadPoolExecutor(16) as others:
        lengths = (3, 50, 120, 7, 64, 9, 33, 5) * 2
        running = [others.submit(_choices, client, [5 + n] * n, steps) for n in lengths]
        among = [_choices(client, TEXT, steps) for _ in range(4)]
        for each in running:
            each.result()
    return among == [alone] * 4


def _choices(client: httpx2.Client, prompt: Any, steps: dict[str, Any]) -> Any:
    return complete(client, prompt, **ASKED, **steps)["choices"]
