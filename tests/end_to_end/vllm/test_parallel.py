"""One server over several processes of vLLM: the tiny model split in two, twice, and over two nodes on this machine."""

import importlib.util
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.support.models.tiny_hf import write_tiny_hf
from tests.support.models.tiny_reference import TinyReference
from tests.support.serving import Served, serving
from tests.support.vllm.processes import descendants, is_running
from tests.support.vllm.server import share_one_node
from tests.support.waiting import wait_until

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


@pytest.fixture
def folder(tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    share_one_node(monkeypatch)
    return str(write_tiny_hf(tmp_path / "tiny", tiny_gguf))


def arguments(*options: str, context: int = 256) -> list[str]:
    common = ("dtype=float32", "enforce_eager=true", "max_num_seqs=8")
    words = [word for each in (*common, *options) for word in ("--vllm-option", each)]
    words += ["--engine", "vllm", "--context-length", str(context), "--kv-memory-mib", "64"]
    return words


def check_text(served: Served, reference: TinyReference) -> None:
    """Its likeliest tokens are the reference's."""
    body = {"max_tokens": 8, "temperature": 0, "return_token_ids": True}
    with httpx2.Client(base_url=served.url, timeout=300) as client:
        for prompt in ([72, 101, 108, 108, 111], [84, 104, 101]):
            answer = client.post("/vllm/v1/completions", json={"prompt": prompt, **body})
            assert answer.status_code == 200, answer.text
            tokens = list(prompt)
            for token in answer.json()["choices"][0]["token_ids"]:
                row = reference.logits(tokens)[-1]
                assert row[token] >= row.max() - 1e-3  # sums in another order may part a tie
                tokens.append(token)


@pytest.mark.parametrize("option", ["tensor_parallel_size=2", "data_parallel_size=2"])
def test_the_text_is_the_references(folder: str, tiny_gguf: Path, option: str) -> None:
    """And nothing stays of a server that is killed."""
    with serving(folder, *arguments(option)) as served:
        check_text(served, TinyReference(tiny_gguf))
        started = descendants(served.process.pid)
        assert len(started) > 2
        served.process.kill()
        wait_until(lambda: not any(map(is_running, started)))


def test_two_nodes_of_vllm(folder: str, tiny_gguf: Path) -> None:
    """Two nodes on one machine, that meet by TCP: the second has half of the model and ends with the first."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    meeting = ("nnodes=2", "master_addr=127.0.0.1", f"master_port={port}")
    options = ("tensor_parallel_size=2", "distributed_executor_backend=mp", *meeting)
    second = [sys.executable, "-m", "segue", "serve", folder]
    with subprocess.Popen([*second, *arguments(*options, "node_rank=1")]) as process:
        try:
            with serving(folder, *arguments(*options, "node_rank=0")) as served:
                check_text(served, TinyReference(tiny_gguf))
                assert process.poll() is None
            assert process.wait(120) == 0
        finally:
            process.kill()
