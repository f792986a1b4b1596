"""Later mixtures of experts: what of their files is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from segue.models.gguf import header
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (64, "values are 64 wide, keys 48"),
        (24, "values are 24 wide, not a multiple of 16"),
        (16, "tensor blk.0.attn_output.weight has the shape (128, 64), not (64, 64)"),
        (0, "mimo2.attention.value_length is 0, not"),
    ],
)
def test_values_are_no_wider_than_keys(tmp_path: Path, told: int, reason: str) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS["mimo2"]))
    own, before = {"mimo2.attention.value_length": told}, found.count("attention.value_length")
    tensors = tuple(
        replace(tensor, shape=(tensor.shape[0], tensor.shape[1] // before * told))
        if tensor.name.endswith("attn_v.weight")
        else tensor
        for tensor in found.tensors
    )
    changed = replace(found, metadata={**found.metadata, **own}, tensors=tensors)
    assert reason in (supports(changed) or "")


def test_biases_that_llama_cpp_passes_over_are_refused(tmp_path: Path) -> None:
    tiny = replace(MODELS["mimo2"], qkv_bias=True)
    found = supports(header(write(tmp_path / "x.gguf", tiny)))
    assert found is not None
    assert "does not know: blk.N.attn_k.bias" in found


@pytest.mark.parametrize("told", [{"gate_lower_bound": 1.0}, {"safe_gate": False}])
def test_keys_that_fade_without_a_bound_are_computed_by_no_runner(
    tmp_path: Path, told: dict[str, float]
) -> None:
    """llama.cpp would end the process."""
    found = header(write(tmp_path / "x.gguf", MODELS["bailingmoe3"]))
    own = {f"bailingmoe3.kda.{key}": value for key, value in told.items()}
    changed = replace(found, metadata={**found.metadata, **own})
    assert "keys do not fade within a bound" in (senseless(changed) or "")
