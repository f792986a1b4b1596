"""One server over several processes of vLLM: the tiny model split in two, and twice. On CPUs both fit one machine."""

import importlib.util
from pathlib import Path

import httpx2
import pytest

from tests.support.serving import serving
from tests.support.tiny_hf import write_tiny_hf
from tests.support.tiny_reference import TinyReference

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(1200),  # vLLM starts two or three processes, one after another
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None,
        reason="vllm is not installed: `make vllm-test` installs it and runs this",
    ),
    pytest.mark.skipif(
        Path("/dev/nvidia0").exists() and not Path("/dev/nvidia1").exists(),
        reason="one GPU: vLLM's processes would need one each",
    ),
]


@pytest.mark.parametrize("option", ["tensor_parallel_size=2", "data_parallel_size=2"])
def test_the_text_is_the_references(
    tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    # Else vLLM binds each process to a NUMA node of its own, and this machine may have one.
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    folder = write_tiny_hf(tmp_path / "tiny", tiny_gguf)
    options = ("dtype=float32", "enforce_eager=true", "max_num_seqs=8", option)
    arguments = [word for each in options for word in ("--vllm-option", each)]
    arguments += ["--engine", "vllm", "--context-length", "256", "--kv-memory-mib", "64"]
    reference = TinyReference(tiny_gguf)
    body = {"max_tokens": 8, "temperature": 0, "return_token_ids": True}
    with (
        serving(str(folder), *arguments) as served,
        httpx2.Client(base_url=served.url, timeout=300) as client,
    ):
        for prompt in ([72, 101, 108, 108, 111], [84, 104, 101]):
            answer = client.post("/vllm/v1/completions", json={"prompt": prompt, **body})
            assert answer.status_code == 200, answer.text
            tokens = list(prompt)
            for token in answer.json()["choices"][0]["token_ids"]:
                row = reference.logits(tokens)[-1]
                assert row[token] >= row.max() - 1e-3  # sums in another order may part a tie
                tokens.append(token)
