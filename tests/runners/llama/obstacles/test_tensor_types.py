"""Types of tensors over which llama.cpp's asserts would end the process."""

from dataclasses import replace
from pathlib import Path

import pytest

from segue.assembly.runners import runner_obstacle
from segue.models.gguf import header
from segue.runners.llama.obstacles.tensor_types import tensor_types_obstacle
from tests.support.models.tiny_gguf import write_tiny_gguf


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("output_norm.weight", "F16", "of type F16, not F32"),
        ("blk.0.attn_k.bias", "BF16", "of type BF16, not F32"),
        ("blk.0.attn_k.bias", "Q4_0", "of type Q4_0, not F32"),
        ("blk.1.ffn_up.weight", "F64", "of type F64, which weights cannot have"),
        ("blk.1.ffn_up.weight", "I32", None),
        ("blk.1.ffn_up.weight", "Q2_0", None),
    ],
)
def test_types_of_tensors(tmp_path: Path, name: str, kind: str, reason: str | None) -> None:
    """Whatever the architecture: only of those that are known here is it told that no weights are I32."""
    sound = header(write_tiny_gguf(tmp_path / "x.gguf", architecture="qwen2"))
    assert tensor_types_obstacle(sound) is None
    tensors = [replace(t, type=kind) if t.name == name else t for t in sound.tensors]
    found = tensor_types_obstacle(replace(sound, tensors=tuple(tensors)))
    assert found == (reason and f"tensor {name} is {reason}")


def test_norms_in_halves_are_computed_here_alone(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf")
    assert runner_obstacle("llama", path) is None
    data = path.read_bytes()
    name = b"output_norm.weight"
    entry = data.index(name) + len(name) + 4 + 8
    path.write_bytes(data[:entry] + (1).to_bytes(4, "little") + data[entry + 4 :])
    assert runner_obstacle("cpu", path) is None
    assert runner_obstacle("llama", path) == "tensor output_norm.weight is of type F16, not F32"
