"""Tensors of types that no runner computes with: llama.cpp ended the process over them."""

from dataclasses import replace
from pathlib import Path

import pytest

from segue.assembly.runners import choose_runner
from segue.config import load
from segue.errors import ModelUnavailable
from segue.models.gguf import header
from segue.models.gguf.types import TENSOR_TYPES
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

COMPUTED = ("F32", "F16", "BF16")
NO_WEIGHTS = {"Q8_1", "Q8_K", "I8", "I16", "I32", "I64", "F64"}


def refused(path: Path, name: str) -> dict[str, str]:
    """The types that a tensor cannot have, and why."""
    found = header(path)
    reasons = {}
    for kind, *_ in TENSOR_TYPES.values():
        tensors = [replace(t, type=kind) if t.name == name else t for t in found.tensors]
        assert tensors != [*found.tensors] or kind == "F32"
        if reason := senseless(replace(found, tensors=tuple(tensors))):
            reasons[kind] = reason
    return reasons


@pytest.mark.parametrize("name", ["token_embd.weight", "blk.1.ffn_down.weight", "output.weight"])
def test_whole_numbers_are_no_weights(tmp_path: Path, name: str) -> None:
    reasons = refused(write_tiny_gguf(tmp_path / "x.gguf"), name)
    assert reasons == {
        kind: f"tensor {name} is of type {kind}, which weights cannot have" for kind in NO_WEIGHTS
    }


@pytest.mark.parametrize("name", ["output_norm.weight", "blk.0.attn_q.bias"])
def test_norms_and_biases_are_floats(tmp_path: Path, name: str) -> None:
    reasons = refused(write_tiny_gguf(tmp_path / "x.gguf", architecture="qwen2"), name)
    assert {*reasons} == {kind for kind, *_ in TENSOR_TYPES.values()} - {*COMPUTED}
    assert reasons["Q4_0"] == f"tensor {name} is of type Q4_0, not of floats"


def test_the_gate_of_a_shared_expert_is_a_matrix_for_llama_cpp(tmp_path: Path) -> None:
    path, name = write(tmp_path / "x.gguf", MODELS["qwen2moe"]), "blk.0.ffn_gate_inp_shexp.weight"
    assert {*refused(path, name)} == NO_WEIGHTS
    tensors = [replace(t, type="Q8_0") if t.name == name else t for t in header(path).tensors]
    told = supports(replace(header(path), tensors=tuple(tensors)))
    assert told == f"tensor {name} is of type Q8_0, not one of {', '.join(COMPUTED)}"


def test_no_runner_is_chosen_for_such_a_file(tmp_path: Path) -> None:
    """It went on to llama.cpp, as a type that is not computed here."""
    path, tokens = write_tiny_gguf(tmp_path / "x.gguf"), 278
    data, floats, whole = path.read_bytes(), (0).to_bytes(4, "little"), (26).to_bytes(4, "little")
    shape = (128).to_bytes(8, "little") + tokens.to_bytes(8, "little")
    assert data.count(shape + floats) == 2
    path.write_bytes(data.replace(shape + floats, shape + whole))
    with pytest.raises(ModelUnavailable, match=r"is of type I32, which weights cannot have"):
        choose_runner(load({}), path, "x")
