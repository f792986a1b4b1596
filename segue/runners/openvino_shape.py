"""Which GGUF models the OpenVINO graph can express, and their measures.

What a file says beyond the tables here could change what it computes, so then the answer is no, with the reason.
"""

import re

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from segue.models.gguf import GgufHeader

# Architecture → whether its rotations pair neighbouring dimensions (else the two halves of a head).
PAIRS_NEIGHBOURS = {"llama": True, "qwen2": False, "qwen3": False}

MEASURES = {  # field of Shape → metadata key
    "layers": "block_count",
    "width": "embedding_length",
    "heads": "attention.head_count",
}
HARMLESS = {
    *MEASURES.values(),
    "attention.causal",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "context_length",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "tensor_data_layout",
    "vocab_size",
}
SCALINGS = ("none", "linear")

GLOBAL_TENSORS = {"token_embd.weight", "output_norm.weight"}
GLOBAL_EXTRAS = {"output.weight", "rope_freqs.weight"}
LAYER_TENSORS = {
    "attn_norm.weight",
    "attn_q.weight",
    "attn_k.weight",
    "attn_v.weight",
    "attn_output.weight",
    "ffn_norm.weight",
    "ffn_gate.weight",
    "ffn_up.weight",
    "ffn_down.weight",
}
LAYER_EXTRAS = {
    "llama": set[str](),
    "qwen2": {"attn_q.bias", "attn_k.bias", "attn_v.bias"},
    "qwen3": {"attn_q_norm.weight", "attn_k_norm.weight"},
}


class Shape(Struct, frozen=True):
    architecture: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    train_context: int
    epsilon: float


def supports(header: GgufHeader) -> str | None:
    """Why this model cannot run on OpenVINO, or None if it can."""
    architecture = header.architecture
    if architecture not in PAIRS_NEIGHBOURS:
        known = ", ".join(PAIRS_NEIGHBOURS)
        return f"the architecture is {architecture}, not one of {known}"
    prefix = f"{architecture}."
    given = {key for key, value in header.metadata.items() if value} | {*header.array_lengths}
    unknown = {key.removeprefix(prefix) for key in given if key.startswith(prefix)} - HARMLESS
    if unknown:
        return f"the file has settings it does not know: {', '.join(sorted(unknown)[:4])}"
    if header.metadata.get(f"{prefix}attention.causal") is False:
        return "its attention is not causal"
    for key in MEASURES.values():
        if not header.count(key):
            return f"{prefix}{key} is not one number"
    scaling = header.metadata.get(f"{prefix}rope.scaling.type", "none")
    if scaling not in SCALINGS:
        return f"positions are scaled by {scaling!r}"
    return _wrong_heads(header) or _wrong_tensors(header)


def shape_of(header: GgufHeader) -> Shape:
    """Of a model that `supports` has passed."""
    heads = header.count("attention.head_count")
    epsilon = header.metadata.get(f"{header.architecture}.attention.layer_norm_rms_epsilon", 1e-5)
    embedding = next(t for t in header.tensors if t.name == "token_embd.weight")
    return Shape(
        architecture=header.architecture,
        heads=heads,
        kv_heads=header.count("attention.head_count_kv") or heads,
        head_dim=_head_dim(header),
        layers=header.count("block_count"),
        width=header.count("embedding_length"),
        vocab_size=embedding.shape[1],
        train_context=header.train_context,
        epsilon=float(epsilon),
    )


def rotations(header: GgufHeader, factors: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """How far each pair of dimensions turns from one position to the next."""
    prefix, head_dim = f"{header.architecture}.rope.", _head_dim(header)
    base = float(header.metadata.get(f"{prefix}freq_base", 10000.0))
    speeds = base ** (-np.arange(0, head_dim, 2) / head_dim)
    if header.metadata.get(f"{prefix}scaling.type") == "linear":
        speeds /= float(header.metadata.get(f"{prefix}scaling.factor", 1.0)) or 1.0
    if factors is not None:
        speeds /= factors.reshape(-1)
    return speeds.astype(np.float32)


def _head_dim(header: GgufHeader) -> int:
    by_width = header.count("embedding_length") // header.count("attention.head_count")
    return header.count("attention.key_length") or by_width


def _wrong_heads(header: GgufHeader) -> str | None:
    heads, head_dim = header.count("attention.head_count"), _head_dim(header)
    kv_heads = header.count("attention.head_count_kv") or heads
    if "attention.head_count_kv" in header.array_lengths or heads % kv_heads:
        return f"{heads} heads do not share {kv_heads} keys evenly"
    for key in ("attention.value_length", "rope.dimension_count"):
        if header.count(key) not in (0, head_dim):
            return f"{key} is {header.count(key)}, but heads are {head_dim} wide"
    return f"heads are {head_dim} wide, not a multiple of 16" if head_dim % 16 else None


def _wrong_tensors(header: GgufHeader) -> str | None:
    names = {tensor.name for tensor in header.tensors}
    layers = range(header.count("block_count"))
    required = GLOBAL_TENSORS | {f"blk.{i}.{name}" for i in layers for name in LAYER_TENSORS}
    if missing := sorted(required - names):
        return f"the file lacks tensors ({missing[0]})"
    extras = LAYER_EXTRAS[header.architecture]
    allowed = required | GLOBAL_EXTRAS | {f"blk.{i}.{name}" for i in layers for name in extras}
    if unknown := sorted({re.sub(r"\d+", "N", name) for name in names - allowed}):
        return f"the file has tensors it does not know: {', '.join(unknown[:4])}"
    return None
