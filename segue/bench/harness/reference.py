"""A transformer's forward pass in numpy, in float32, on the dequantised weights of a GGUF: slow and exact."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from segue.models import gguf
from segue.models.gguf import GgufHeader
from segue.models.gguf.floats import as_floats
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.positions import rotations

ARCHITECTURES = ("llama", "qwen2", "qwen3")

Array = NDArray[np.float32]


def without_reference(header: GgufHeader) -> str | None:
    """Why there is none for a model that the CPU runner supports, or None."""
    if header.architecture not in ARCHITECTURES or header.count("expert_count"):
        return f"it is written for {', '.join(ARCHITECTURES)} without experts"
    return None


class Reference:
    """For the ARCHITECTURES, without experts."""

    def __init__(self, path: str | Path):
        header = gguf.header(path)
        self._sources = [np.memmap(file, np.uint8, "r") for file in header.files]
        self._tensors = {tensor.name: tensor for tensor in header.tensors}
        self._shape = hparams_of(header)
        factors = "rope_freqs.weight"
        known = {factors: self._weight(factors)} if factors in self._tensors else {}
        self._speeds = rotations(header, known).speeds

    def logits(self, tokens: list[int]) -> Array:
        """One row per token, [T, V]."""
        embedding = self._weight("token_embd.weight")
        hidden = embedding[tokens]
        for layer in range(self._shape.layers):
            hidden = hidden + self._attention(layer, hidden)
            hidden = hidden + self._feed_forward(f"blk.{layer}.", hidden)
        is_tied = "output.weight" not in self._tensors
        head = embedding if is_tied else self._weight("output.weight")
        return self._norm(hidden, "output_norm.weight") @ head.T

    def _attention(self, layer: int, hidden: Array) -> Array:
        shape, prefix, length = self._shape.by_layer[layer], f"blk.{layer}.", len(hidden)
        x = self._norm(hidden, f"{prefix}attn_norm.weight")
        counts = {"q": shape.heads, "k": shape.key_heads, "v": shape.key_heads}
        heads = {
            name: self._product(x, f"{prefix}attn_{name}").reshape(length, count, shape.head_size)
            for name, count in counts.items()
        }
        for name in "qk":
            if f"{prefix}attn_{name}_norm.weight" in self._tensors:
                heads[name] = self._norm(heads[name], f"{prefix}attn_{name}_norm.weight")
            heads[name] = self._turned(heads[name])
        mixed = np.empty((length, shape.heads, shape.head_size), np.float32)
        future = np.triu(np.full((length, length), -np.inf, np.float32), 1)
        for head in range(shape.heads):
            shared = head * shape.key_heads // shape.heads
            scores = heads["q"][:, head] @ heads["k"][:, shared].T / math.sqrt(shape.head_size)
            weights = np.exp(scores + future - scores.max(-1, keepdims=True))
            mixed[:, head] = weights / weights.sum(-1, keepdims=True) @ heads["v"][:, shared]
        return self._product(mixed.reshape(length, -1), f"{prefix}attn_output")

    def _feed_forward(self, prefix: str, hidden: Array) -> Array:
        x = self._norm(hidden, f"{prefix}ffn_norm.weight")
        gate = self._product(x, f"{prefix}ffn_gate")
        gated: Array = gate / (1 + np.exp(-gate)) * self._product(x, f"{prefix}ffn_up")
        return self._product(gated, f"{prefix}ffn_down")

    def _turned(self, x: Array) -> Array:
        """[T, heads, head_dim], each pair of dimensions rotated by its position (RoPE)."""
        angles = np.arange(len(x))[:, None, None] * self._speeds.astype(np.float64)
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        half = x.shape[-1] // 2
        if self._shape.family.turns == "neighbours":
            first, second = (..., slice(0, None, 2)), (..., slice(1, None, 2))
        else:
            first, second = (..., slice(0, half)), (..., slice(half, None))
        turned = np.empty_like(x)
        turned[first] = x[first] * cos - x[second] * sin
        turned[second] = x[first] * sin + x[second] * cos
        return turned

    def _norm(self, x: Array, name: str) -> Array:
        mean = (x * x).mean(-1, keepdims=True)
        length: Array = np.sqrt(mean + np.float32(self._shape.epsilon))
        return x / length * self._weight(name)

    def _product(self, x: Array, name: str) -> Array:
        product: Array = x @ self._weight(f"{name}.weight").T
        return (
            product + self._weight(f"{name}.bias") if f"{name}.bias" in self._tensors else product
        )

    def _weight(self, name: str) -> Array:
        tensor = self._tensors[name]
        data = self._sources[tensor.file][tensor.offset : tensor.offset + tensor.num_bytes]
        rows = data.reshape(math.prod(tensor.shape[1:]), -1)
        values = as_floats(tensor.type, np.ascontiguousarray(rows))
        return values.reshape(tensor.shape[::-1])
