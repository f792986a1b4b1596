"""The tiny model's forward pass in plain numpy: what every runner's logits are held against."""

from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.support.models.tiny_gguf import EPSILON, HEAD_DIM, HEADS, KV_HEADS, LAYERS, ROPE_BASE

Array = NDArray[np.float32]


class TinyReference:
    """Architecture llama only, whose rotations pair neighbouring dimensions."""

    def __init__(self, path: Path | str):
        self._weights: dict[str, Array] = {
            tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type)
            for tensor in gguf.GGUFReader(path).tensors
        }

    def logits(self, tokens: list[int]) -> Array:
        """One row a token, [T, V]."""
        weights = self._weights
        hidden = weights["token_embd.weight"][tokens]
        for layer in range(LAYERS):
            hidden = hidden + self._attention(layer, hidden)
            hidden = hidden + self._feed_forward(layer, hidden)
        output = weights.get("output.weight", weights["token_embd.weight"])
        return _normalise(hidden, weights["output_norm.weight"]) @ output.T

    def _attention(self, layer: int, hidden: Array) -> Array:
        weight = {name: self._weights[f"blk.{layer}.attn_{name}.weight"] for name in _ATTENTION}
        x = _normalise(hidden, weight["norm"])
        length = len(x)
        queries = _rotate((x @ weight["q"].T).reshape(length, HEADS, HEAD_DIM))
        keys = _rotate((x @ weight["k"].T).reshape(length, KV_HEADS, HEAD_DIM))
        values = (x @ weight["v"].T).reshape(length, KV_HEADS, HEAD_DIM)
        keys, values = (part.repeat(HEADS // KV_HEADS, axis=1) for part in (keys, values))
        scores = np.einsum("qhd,khd->hqk", queries, keys) / np.sqrt(np.float32(HEAD_DIM))
        future = np.triu(np.ones((length, length), bool), 1)
        scores = np.exp(np.where(future, -np.inf, scores - scores.max(-1, keepdims=True)))
        scores /= scores.sum(-1, keepdims=True)
        mixed: Array = np.einsum("hqk,khd->qhd", scores, values).reshape(length, -1)
        return mixed @ weight["output"].T

    def _feed_forward(self, layer: int, hidden: Array) -> Array:
        gate, up, down, norm = (
            self._weights[f"blk.{layer}.ffn_{name}.weight"]
            for name in ("gate", "up", "down", "norm")
        )
        x = _normalise(hidden, norm)
        gated = x @ gate.T
        activated: Array = gated / (1 + np.exp(-gated)) * (x @ up.T)
        return activated @ down.T


_ATTENTION = ("norm", "q", "k", "v", "output")


def _normalise(x: Array, weight: Array) -> Array:
    length: Array = np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPSILON))
    return x / length * weight


def _rotate(x: Array) -> Array:
    """Positions into [T, heads, head_dim]: dimensions 2i and 2i + 1 turn together."""
    frequencies = ROPE_BASE ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angles = np.arange(len(x))[:, None, None] * frequencies
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    even, odd = x[..., 0::2], x[..., 1::2]
    rotated = np.empty_like(x)
    rotated[..., 0::2] = even * cos - odd * sin
    rotated[..., 1::2] = even * sin + odd * cos
    return rotated
