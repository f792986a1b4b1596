"""Files over which llama.cpp's asserts would end the process."""

from dataclasses import replace
from pathlib import Path

import pytest

from segue.assembly.runners import runner_obstacle
from segue.models import gguf
from segue.models.gguf import GgufHeader
from segue.runners.llama.obstacles.nvfp4_scales import nvfp4_scales_obstacle
from tests.support.models.tiny_lora import write_tiny_lora
from tests.support.models.tiny_types import write_types


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_types(tmp_path_factory.mktemp("s") / "x.gguf", ["NVFP4"], is_scaled=True)


@pytest.fixture(scope="module")
def sound(path: Path) -> GgufHeader:
    return gguf.header(path)


def without(header: GgufHeader, *names: str) -> GgufHeader:
    return replace(header, tensors=tuple(each for each in header.tensors if each.name not in names))


def test_a_scale_of_an_output_that_is_the_embeddings(sound: GgufHeader) -> None:
    assert nvfp4_scales_obstacle(sound, ()) is None
    tied = without(sound, "output.weight")
    assert "there is output.input_scale" in (nvfp4_scales_obstacle(tied, ()) or "")
    assert "there is output.scale" in (
        nvfp4_scales_obstacle(without(tied, "output.input_scale"), ()) or ""
    )
    assert nvfp4_scales_obstacle(without(tied, "output.scale", "output.input_scale"), ()) is None


def test_a_bias_beside_a_scale(sound: GgufHeader) -> None:
    bias = replace(sound.tensors[-1], name="blk.1.ffn_up.bias")
    with_bias = replace(sound, tensors=(*sound.tensors, bias))
    assert (
        nvfp4_scales_obstacle(with_bias, ())
        == "blk.1.ffn_up.weight, of type NVFP4, has a scale and a bias"
    )
    assert nvfp4_scales_obstacle(without(with_bias, "blk.1.ffn_up.scale"), ()) is None


@pytest.mark.parametrize(
    ("name", "is_refused"), [("blk.0.ffn_down.weight", True), ("blk.0.attn_q.weight", False)]
)
def test_an_adapter_on_what_has_a_scale(path: Path, name: str, is_refused: bool) -> None:
    lora = write_tiny_lora(path.with_name("lora.gguf"), path, names=[name])
    reason = f"{name}, of type NVFP4, has a scale and an adapter" if is_refused else None
    assert runner_obstacle("llama", path, [str(lora)]) == reason
    assert runner_obstacle("cpu", path, [str(lora)]) is None
