"""The whole server on the real vLLM, with the tiny model in float32: `make vllm-test` sets up what it needs."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.models.tiny_hf import write_tiny_hf
from tests.support.models.tiny_reference import TinyReference
from tests.support.serving import Served, serving
from tests.support.vllm.server import GPU_OPTIONS


@pytest.fixture(scope="package")
def served(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = write_tiny_hf(tmp_path_factory.mktemp("hf") / "tiny", tiny_gguf)
    options = ("dtype=float32", "enforce_eager=true", "max_num_seqs=32", *GPU_OPTIONS)
    arguments = [word for option in options for word in ("--vllm-option", option)]
    arguments += ["--engine", "vllm", "--context-length", "256", "--kv-memory-mib", "64"]
    with serving(str(folder), *arguments) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=served.url, timeout=300) as client:  # vLLM compiles at first use
        yield client


@pytest.fixture(scope="package")
def reference(tiny_gguf: Path) -> TinyReference:
    return TinyReference(tiny_gguf)
