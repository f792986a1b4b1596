"""Models as data: which GGUF files the kernels can compute, and their measures.

What a file says beyond the tables here could change what it computes, so then the answer is no, with the reason.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from segue.models.gguf import GgufHeader, Tensor
from segue.runners.cpu.exact_math import power
from segue.runners.cpu.products.formats import FLOATS, FORMATS

Turns = Literal["neighbours", "halves"]


@dataclass(frozen=True)
class Family:
    """What an architecture's name says of its models."""

    turns: Turns  # positions turn neighbouring dimensions, or those half a head apart
    has_bias: bool = False  # on queries, keys and values
    has_head_norms: bool = False  # of each query and key


FAMILIES: Mapping[str, Family] = {
    "llama": Family("neighbours"),
    "qwen2": Family("halves", has_bias=True),
    "qwen3": Family("halves", has_head_norms=True),
}

MEASURES = ("block_count", "embedding_length", "attention.head_count", "feed_forward_length")
HARMLESS = {
    *MEASURES,
    "attention.causal",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "context_length",
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
LANES, GROUP = 16, 32  # heads are a multiple of the first, products of the second
VECTOR_TYPES = ("F32", "F16", "BF16")
MATRIX_TYPES = (*FLOATS, *FORMATS)


@dataclass(frozen=True)
class Anatomy:
    """A model's measures."""

    architecture: str
    layers: int
    width: int
    heads: int
    key_heads: int
    head_size: int
    hidden: int  # columns of the feed-forward
    vocab_size: int
    train_context: int
    epsilon: float
    pairs: int  # of dimensions that turn with positions

    @property
    def family(self) -> Family:
        return FAMILIES[self.architecture]

    @property
    def shared(self) -> int:
        """Query heads a key head."""
        return self.heads // self.key_heads


def supports(header: GgufHeader) -> str | None:
    """Why this model cannot run here, or None if it can."""
    architecture = header.architecture
    if architecture not in FAMILIES:
        return f"the architecture is {architecture}, not one of {', '.join(FAMILIES)}"
    prefix = f"{architecture}."
    given = {key for key, value in header.metadata.items() if value} | {*header.array_lengths}
    unknown = {key.removeprefix(prefix) for key in given if key.startswith(prefix)} - HARMLESS
    if unknown:
        return f"the file has settings it does not know: {', '.join(sorted(unknown)[:4])}"
    if header.metadata.get(f"{prefix}attention.causal") is False:
        return "its attention is not causal"
    for key in MEASURES:
        if not header.count(key):
            return f"{prefix}{key} is not one number"
    scaling = header.metadata.get(f"{prefix}rope.scaling.type", "none")
    if scaling not in SCALINGS:
        return f"positions are scaled by {scaling!r}"
    return _wrong_heads(header) or _wrong_names(header) or _wrong_shapes(header)


def anatomy_of(header: GgufHeader) -> Anatomy:
    """Of a model that `supports` has passed."""
    heads, size = header.count("attention.head_count"), _head_size(header)
    epsilon = header.metadata.get(f"{header.architecture}.attention.layer_norm_rms_epsilon", 1e-5)
    embedding = next(t for t in header.tensors if t.name == "token_embd.weight")
    return Anatomy(
        architecture=header.architecture,
        layers=header.count("block_count"),
        width=header.count("embedding_length"),
        heads=heads,
        key_heads=header.count("attention.head_count_kv") or heads,
        head_size=size,
        hidden=header.count("feed_forward_length"),
        vocab_size=embedding.shape[1] if len(embedding.shape) == 2 else 0,
        train_context=header.train_context,
        epsilon=float(epsilon),
        pairs=(header.count("rope.dimension_count") or size) // 2,
    )


def rotations(header: GgufHeader, factors: NDArray[np.float32] | None) -> NDArray[np.float64]:
    """How far each pair of dimensions turns from one position to the next."""
    prefix, pairs = f"{header.architecture}.rope.", anatomy_of(header).pairs
    base = float(header.metadata.get(f"{prefix}freq_base", 10000.0)) or 10000.0
    speeds = np.array([power(base, -i / pairs) for i in range(pairs)], np.float64)
    if header.metadata.get(f"{prefix}scaling.type") == "linear":
        speeds /= float(header.metadata.get(f"{prefix}scaling.factor", 1.0)) or 1.0
    if factors is not None:
        speeds /= factors.reshape(-1).astype(np.float64)
    return speeds


def shapes(anatomy: Anatomy) -> dict[str, tuple[int, ...]]:
    """Every tensor that must be there, in GGML's order of dimensions: columns first."""
    queries, keys = anatomy.heads * anatomy.head_size, anatomy.key_heads * anatomy.head_size
    width, hidden, family = anatomy.width, anatomy.hidden, anatomy.family
    layer = {
        "attn_norm.weight": (width,),
        "attn_q.weight": (width, queries),
        "attn_k.weight": (width, keys),
        "attn_v.weight": (width, keys),
        "attn_output.weight": (queries, width),
        "ffn_norm.weight": (width,),
        "ffn_gate.weight": (width, hidden),
        "ffn_up.weight": (width, hidden),
        "ffn_down.weight": (hidden, width),
    }
    if family.has_bias:
        layer |= {"attn_q.bias": (queries,), "attn_k.bias": (keys,), "attn_v.bias": (keys,)}
    if family.has_head_norms:
        layer |= {f"attn_{name}_norm.weight": (anatomy.head_size,) for name in "qk"}
    whole = {"token_embd.weight": (width, anatomy.vocab_size), "output_norm.weight": (width,)}
    return whole | {
        f"blk.{i}.{name}": shape for i in range(anatomy.layers) for name, shape in layer.items()
    }


def extras(anatomy: Anatomy) -> dict[str, tuple[int, ...]]:
    """Tensors that may be there."""
    return {
        "output.weight": (anatomy.width, anatomy.vocab_size),
        "rope_freqs.weight": (anatomy.pairs,),
    }


def _head_size(header: GgufHeader) -> int:
    by_width = header.count("embedding_length") // header.count("attention.head_count")
    return header.count("attention.key_length") or by_width


def _wrong_heads(header: GgufHeader) -> str | None:
    heads, size = header.count("attention.head_count"), _head_size(header)
    key_heads = header.count("attention.head_count_kv") or heads
    if "attention.head_count_kv" in header.array_lengths or heads % key_heads:
        return f"{heads} heads do not share {key_heads} keys evenly"
    if header.count("attention.value_length") not in (0, size):
        return f"values are {header.count('attention.value_length')} wide, keys {size}"
    turning = header.count("rope.dimension_count") or size
    if turning > size or turning % 2:
        return f"positions turn {turning} of a head's {size} dimensions"
    if size % LANES or not size:
        return f"heads are {size} wide, not a multiple of {LANES}"
    wide = {"rows": header.count("embedding_length"), "all heads together": heads * size}
    wide["the feed-forward"] = header.count("feed_forward_length")
    for what, count in wide.items():
        if count % GROUP:
            return f"{what} are {count} wide, not a multiple of {GROUP}"
    return None


def _wrong_names(header: GgufHeader) -> str | None:
    names = {tensor.name for tensor in header.tensors}
    if "token_embd.weight" not in names:
        return "the file lacks tensors (token_embd.weight)"
    anatomy = anatomy_of(header)
    required = {*shapes(anatomy)}
    if missing := sorted(required - names):
        return f"the file lacks tensors ({missing[0]})"
    unknown = names - required - {*extras(anatomy)}
    if unknown := {re.sub(r"\d+", "N", name) for name in unknown}:
        return f"the file has tensors it does not know: {', '.join(sorted(unknown)[:4])}"
    return None


def _wrong_shapes(header: GgufHeader) -> str | None:
    """Compiled code reads as many numbers as the measures say: no tensor may be smaller."""
    anatomy = anatomy_of(header)
    expected = shapes(anatomy) | extras(anatomy)
    for tensor in header.tensors:
        shape = expected[tensor.name]
        if tensor.shape != shape:
            return f"tensor {tensor.name} has the shape {tensor.shape}, not {shape}"
        known = VECTOR_TYPES if len(shape) == 1 else MATRIX_TYPES
        if tensor.type not in known:
            return f"tensor {tensor.name} is of type {tensor.type}, not one of {', '.join(known)}"
    return None


def vector(tensor: Tensor, data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """A tensor of one of VECTOR_TYPES as floats."""
    raw = data[tensor.offset : tensor.offset + tensor.num_bytes]
    if tensor.type == "F32":
        return raw.view(np.float32).copy()
    if tensor.type == "F16":
        return raw.view(np.float16).astype(np.float32)
    return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
