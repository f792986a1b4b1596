"""Tiny LoRA adapters with random weights for the tiny models, and those models with an adapter merged in."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from segue.models import adapter_files
from segue.models.gguf import Tensor, header
from tests.support.models.tiny_gguf import LAYERS

Array = NDArray[np.float32]
Change = Callable[[dict[str, Array]], dict[str, Array]]

MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
EVERYWHERE = (
    *(f"blk.{i}.{name}.weight" for i in range(LAYERS) for name in MATRICES),
    "output.weight",
)
F32 = gguf.GGMLQuantizationType.F32


def write_tiny_lora(
    path: Path,
    base: Path,
    *,
    names: Sequence[str] = EVERYWHERE,
    seed: int = 0,
    rank: int = 4,
    alpha: float = 8.0,
    size: float = 0.3,
    architecture: str = "llama",
    tensor_type: gguf.GGMLQuantizationType = F32,
    general_type: str = "adapter",
    adapter_type: str = "lora",
    change: Change = dict,
) -> Path:
    """`change` gets the tensors before they are written, by name, [outputs][columns]."""
    shapes = {tensor.name: tensor.shape for tensor in header(base).tensors}
    rng = np.random.default_rng(seed)
    tensors: dict[str, Array] = {}
    for name in names:
        columns, outputs, *experts = shapes[name]
        for end, own in ((".lora_a", (rank, columns)), (".lora_b", (outputs, rank))):
            shape = (*experts, *own)
            values = rng.normal(0.0, size / np.sqrt(shape[-1]), shape)
            tensors[name + end] = values.astype(np.float32)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_string(gguf.Keys.General.TYPE, general_type)
    writer.add_string(gguf.Keys.Adapter.TYPE, adapter_type)
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    for name, tensor in change(tensors).items():
        kind = tensor_type if tensor.shape[-1] % 32 == 0 or tensor_type.name == "F16" else F32
        writer.add_tensor(name, gguf.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def merged(path: Path, base: Path, *adapters: tuple[Path, float]) -> Path:
    """A copy of a model of floats with W + scale · alpha / rank · B A in place of W."""
    shutil.copyfile(base, path)
    weights: NDArray[np.uint8] = np.memmap(path, np.uint8, "r+")
    of_base = {tensor.name: tensor for tensor in header(base).tensors}
    for file, scale in adapters:
        about, data = header(file), np.fromfile(file, np.uint8)
        for name, pair in adapter_files.pairs(about).items():
            strength = scale * adapter_files.strength(about, pair.rank)
            matrix = _floats(of_base[name], weights)
            matrix += (strength * (_floats(pair.b, data) @ _floats(pair.a, data))).astype("f4")
    return path


def _floats(tensor: Tensor, data: NDArray[np.uint8]) -> Array:
    raw = data[tensor.offset : tensor.offset + tensor.num_bytes]
    kind = gguf.GGMLQuantizationType[tensor.type]
    if kind == F32:
        return raw.view(np.float32).reshape(tensor.shape[::-1])
    values = gguf.dequantize(raw.reshape(tensor.shape[1], -1), kind)
    return np.asarray(values, np.float32).reshape(tensor.shape[::-1])
