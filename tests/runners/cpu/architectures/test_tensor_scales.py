"""Scales of whole NVFP4 tensors, of architectures for which llama.cpp reads them and computes some of them only."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from segue.engine.seam import Span
from segue.runners.cpu.architectures.tensor_scales import SCALE, SCALED, WEIGHT
from segue.runners.cpu.loader import obstacle
from tests.runners.cpu.conftest import load
from tests.support.models.split_gguf import copy_metadata
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

BLOCK, BLOCK_BYTES, EXPONENT = 64, 36, 2
TOKENS = list(range(3, 35))


def as_nvfp4(path: Path, source: Path, is_scaled: bool) -> Path:
    """A copy with random blocks, two or four times as large: by scales of the blocks, or of the tensors."""
    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(path, "left out below")
    writer.kv_data[0].clear()
    copy_metadata(reader, writer)
    rng, names = np.random.default_rng(0), {tensor.name for tensor in reader.tensors}
    for tensor in reader.tensors:
        stem, (*experts, rows, columns) = tensor.name.removesuffix(WEIGHT), (1, *tensor.data.shape)
        is_own = f"{stem}{SCALE}" in names  # the model's, not the type's
        if stem.split(".")[-1] not in SCALED or is_own or columns % BLOCK:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
            continue
        powers = 1 + np.arange(experts[-1]) % 2
        shape = (experts[-1], rows * columns // BLOCK, BLOCK_BYTES)
        blocks = rng.integers(0, 256, shape, np.uint8)
        own = EXPONENT + (0 if is_scaled else 1) * powers
        blocks[..., :4] = blocks[..., :4] & 7 | own[:, None, None].astype(np.uint8) << 3
        whole = blocks.reshape(*tensor.data.shape[:-1], -1)
        writer.add_tensor(tensor.name, whole, raw_dtype=gguf.GGMLQuantizationType.NVFP4)
        if is_scaled:
            writer.add_tensor(f"{stem}{SCALE}", np.exp2(powers).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def bits(path: Path) -> bytes:
    assert obstacle(path) is None
    runner = load(path, threads=1)
    found = runner.decode([Span(0, TOKENS, 0, len(TOKENS))]).tobytes()
    runner.close()
    return found


@pytest.mark.parametrize(
    "name",
    ["qwen2", "qwen3next", "falcon", "gpt2", "deepseek2", "granitehybrid", "gemma4 with experts"],
)
def test_they_count_as_scales_of_blocks_do(tmp_path: Path, name: str) -> None:
    source = write(tmp_path / "source.gguf", MODELS[name])
    scaled, plain = (as_nvfp4(tmp_path / f"{each}.gguf", source, each) for each in (True, False))
    assert bits(scaled) == bits(plain)


def test_of_a_gate_and_up_in_one_tensor_they_are_refused_by_name(tmp_path: Path) -> None:
    source = write(tmp_path / "source.gguf", MODELS["phi3"])
    path = as_nvfp4(tmp_path / "x.gguf", source, is_scaled=True)
    assert "tensors it does not know: blk.N.ffn_up.scale" in (obstacle(path) or "")
