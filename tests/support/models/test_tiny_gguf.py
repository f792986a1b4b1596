"""The tiny model's weights are the same on every machine: what is asserted of its answers rests on them."""

import hashlib
from pathlib import Path

import gguf
import pytest

from tests.support.models.tiny_gguf import write_tiny_gguf

KNOWN = {
    "F32": "7bbe710495cf2d34d9142854cee5540899677c6006a837ebd57647c027dcafba",
    "Q8_0": "79fd44c7df3c0286dc2812790f52cdd7c7959175425a820aa562b2c58dacf138",
    "Q4_1": "a670ee4469fd1b82d0381e7b5c926680d31ab0db4e916a8ea80c10ed21b035aa",
}


@pytest.mark.parametrize("kind", KNOWN)
def test_weights_are_the_same_everywhere(kind: str, tmp_path: Path) -> None:
    path = write_tiny_gguf(
        tmp_path / "tiny.gguf", tensor_type=gguf.GGMLQuantizationType[kind], seed=3
    )
    digest = hashlib.sha256()
    for tensor in gguf.GGUFReader(path).tensors:
        digest.update(tensor.name.encode() + tensor.data.tobytes())
    assert digest.hexdigest() == KNOWN[kind]
