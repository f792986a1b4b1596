"""SHA-256 sums of logits, written down: every machine must give these very bits."""

import hashlib
from pathlib import Path

import gguf
import pytest

from segue.engine.seam import Span
from tests.runners.cpu.conftest import load
from tests.support.tiny_gguf import write_tiny_gguf

TINY = {
    ("llama", "F32"): "2b371c5cf3b2dde6d5278b3d3e3d56528c6685b56887be51ed5ca6e53ddf7821",
    ("llama", "F16"): "e03232bba1ea435199dcad6ed1a87d7ee1a3e46d149953cb54e04436a0439e63",
    ("llama", "Q8_0"): "13589ee08ec979f946288dd303ee34ff0a3f125f374368d271e995f94ed60dc8",
    ("llama", "Q4_0"): "d2292d20db2df5738b1511079a1cb7f1761d41f67f9bb94b8a843c8a99f4004a",
    ("llama", "Q4_1"): "1dafb104d7845422b3a35f239dc155ccc4232b8c937bc3696cc27b3a2e77c1a5",
    ("qwen2", "F32"): "150598a43ce9b7678bace6d6535d9420bd1894d90aa8797ce3e6b93956557c7f",
    ("qwen3", "Q8_0"): "7c87e79761a3a99987c6656a2150761788548d06ed87709c752a99d3e5e607db",
}
EMBEDDED = "d81ab595d213165d2e03093a3d2797720389ac1302fa2e3d188e7b7e8656f008"


def digest(path: Path, tokens: list[int]) -> str:
    runner = load(path, kv_bytes=64 << 20)
    half = len(tokens) // 2
    found = hashlib.sha256()
    for start, chunk in ((0, tokens[:half]), (half, tokens[half:])):
        found.update(runner.decode([Span(0, chunk, start, len(chunk))]).tobytes())
    runner.close()
    return found.hexdigest()


@pytest.mark.parametrize(("architecture", "kind"), TINY)
def test_of_the_tiny_models(tmp_path: Path, architecture: str, kind: str) -> None:
    path = write_tiny_gguf(
        tmp_path / "x", architecture=architecture, tensor_type=gguf.GGMLQuantizationType[kind]
    )
    assert digest(path, [(7 * i * i + 3) % 256 for i in range(300)]) == TINY[architecture, kind]


@pytest.mark.model
def test_of_the_embedded_model(embedded_gguf: Path) -> None:
    assert digest(embedded_gguf, [(1009 * i) % 49152 for i in range(1, 65)]) == EMBEDDED
