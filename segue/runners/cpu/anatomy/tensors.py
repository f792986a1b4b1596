"""The tensors of a model: names and shapes that must or may be there, and how some are cut into matrices."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from segue.models.gguf import Tensor
from segue.runners.cpu.anatomy.measures import Anatomy

Shapes = dict[str, tuple[int, ...]]  # GGML's order of dimensions: columns first

VECTOR_TYPES = ("F32", "F16", "BF16")
_OF_VECTORS = (".bias", "norm.weight", "sinks.weight", "inp_shexp.weight")


def is_vector(name: str) -> bool:
    """Whether a tensor is read as floats; the others are packed as matrices."""
    return name.endswith(_OF_VECTORS) or name.startswith("rope_")


def shapes(anatomy: Anatomy) -> Shapes:
    """Every tensor that must be there."""
    width, family = anatomy.width, anatomy.family
    whole: Shapes = {"token_embd.weight": (width, anatomy.vocab_size)}
    whole |= _norm(anatomy, "output_norm")
    if family.turns == "none":
        whole["position_embd.weight"] = (width, anatomy.train_context)
    if "output" in family.biases:
        whole["output.bias"] = (anatomy.vocab_size,)
    for layer in range(anatomy.layers):
        own = _attention(anatomy) | _feed_forward(anatomy, anatomy.has_experts(layer))
        whole |= _in_layer(layer, own)
    return whole


def extras(anatomy: Anatomy) -> Shapes:
    """Tensors that may be there."""
    family, pairs = anatomy.family, anatomy.pairs
    whole: Shapes = {} if family.is_tied else {"output.weight": (anatomy.width, anatomy.vocab_size)}
    if pairs:
        whole["rope_freqs.weight"] = (pairs,)
    if family.has_long_rope:
        whole |= {f"rope_factors_{name}.weight": (pairs,) for name in ("long", "short")}
    if "output" in family.may_bias:
        whole["output.bias"] = (anatomy.vocab_size,)
    layer: Shapes = {}
    if family.head_norms != "whole":  # a norm over all heads comes before a bias could be added
        if anatomy.has_fused_heads:
            layer["attn_qkv.bias"] = (anatomy.queries + 2 * anatomy.keys,)
        else:
            layer |= {"attn_q.bias": (anatomy.queries,)}
            layer |= {f"attn_{name}.bias": (anatomy.keys,) for name in "kv"}
    sizes = _bias_sizes(anatomy)
    layer |= {f"{name}.bias": (sizes[name],) for name in family.may_bias if name in sizes}
    for i in range(anatomy.layers):
        whole |= _in_layer(i, layer)
        if family.has_choice_bias and anatomy.has_experts(i):
            whole |= _in_layer(i, {"exp_probs_b.bias": (anatomy.experts,)})
    return whole


def _in_layer(layer: int, shapes: Shapes) -> Shapes:
    return {f"blk.{layer}.{name}": shape for name, shape in shapes.items()}


def _norm(anatomy: Anatomy, name: str) -> Shapes:
    if not name:
        return {}
    ends = ("weight", "bias") if anatomy.family.has_norm_bias else ("weight",)
    return {f"{name}.{end}": (anatomy.width,) for end in ends}


def _bias_sizes(anatomy: Anatomy) -> dict[str, int]:
    """Outputs of the products of a layer that may have a bias of their own."""
    width = anatomy.width
    sizes = {"attn_output": width}
    if not anatomy.experts:
        sizes |= {"ffn_gate": anatomy.hidden, "ffn_up": anatomy.hidden, "ffn_down": width}
    return sizes


def _attention(anatomy: Anatomy) -> Shapes:
    width, family, queries, keys = anatomy.width, anatomy.family, anatomy.queries, anatomy.keys
    layer = _norm(anatomy, family.norms[0])
    if anatomy.has_fused_heads:
        layer["attn_qkv.weight"] = (width, queries + 2 * keys)
    else:
        layer["attn_q.weight"] = (width, queries)
        layer |= {f"attn_{name}.weight": (width, keys) for name in "kv"}
    layer["attn_output.weight"] = (queries, width)
    size, counts = anatomy.head_size, {"q": anatomy.heads, "k": anatomy.key_heads}
    if family.head_norms == "each" or (
        family.head_norms == "each or none" and anatomy.has_head_norms
    ):
        layer |= {f"attn_{name}_norm.weight": (size,) for name in "qk"}
    elif family.head_norms == "whole":
        layer |= {f"attn_{name}_norm.weight": (size * n,) for name, n in counts.items()}
    elif family.head_norms == "own" and anatomy.has_head_norms:
        layer |= {f"attn_{name}_norm.weight": (size, n) for name, n in counts.items()}
    if family.has_sinks:
        layer["attn_sinks.weight"] = (anatomy.heads,)
    for name in filter(None, family.after):
        layer[f"{name}.weight"] = (width,)
    sizes = _bias_sizes(anatomy)
    layer |= {f"{name}.bias": (sizes[name],) for name in family.biases if name in sizes}
    return layer


def _feed_forward(anatomy: Anatomy, has_experts: bool) -> Shapes:
    width, hidden, family = anatomy.width, anatomy.hidden, anatomy.family
    layer = {} if anatomy.shares_norm else _norm(anatomy, family.norms[1])
    if has_experts:
        return layer | _experts(anatomy)
    up = 2 * hidden if family.is_gate_fused else hidden
    layer |= {"ffn_up.weight": (width, up), "ffn_down.weight": (hidden, width)}
    if family.is_gated and not family.is_gate_fused:
        layer["ffn_gate.weight"] = (width, hidden)
    return layer


def _experts(anatomy: Anatomy) -> Shapes:
    width, hidden, count = anatomy.width, anatomy.expert_hidden, anatomy.experts
    layer: Shapes = {"ffn_gate_inp.weight": (width, count)}
    layer |= {f"ffn_{name}_exps.weight": (width, hidden, count) for name in ("gate", "up")}
    layer["ffn_down_exps.weight"] = (hidden, width, count)
    if anatomy.family.activation == "clamped silu":  # the same models have these biases
        layer["ffn_gate_inp.bias"] = (count,)
        layer |= {f"ffn_{name}_exps.bias": (hidden, count) for name in ("gate", "up")}
        layer["ffn_down_exps.bias"] = (width, count)
    if shared := anatomy.shared_hidden:
        layer |= {f"ffn_{name}_shexp.weight": (width, shared) for name in ("gate", "up")}
        layer["ffn_down_shexp.weight"] = (shared, width)
    if anatomy.family.shared_expert == "gated":
        layer["ffn_gate_inp_shexp.weight"] = (width,)
    return layer


# --- reading ---


def computed(tensors: tuple[Tensor, ...], anatomy: Anatomy) -> tuple[Tensor, ...]:
    """The tensors without those of layers that are not computed."""
    ends = anatomy.layers, anatomy.layers + anatomy.next_layers
    passed = tuple(f"blk.{i}." for i in range(*ends))
    return tuple(tensor for tensor in tensors if not tensor.name.startswith(passed))


def matrices(tensors: tuple[Tensor, ...], anatomy: Anatomy) -> Iterator[Tensor]:
    """The tensors as two-dimensional matrices: one per expert (`expert_name`); a fused gate is split off its tensor."""
    for tensor in tensors:
        if is_vector(tensor.name):
            continue
        if len(tensor.shape) == 3:
            for i, piece in enumerate(_pieces(tensor, tensor.shape[2], tensor.shape[:2])):
                yield replace(piece, name=expert_name(tensor.name, i))
        elif anatomy.family.is_gate_fused and tensor.name.endswith(".ffn_up.weight"):
            gate, up = _pieces(tensor, 2, (tensor.shape[0], tensor.shape[1] // 2))
            yield replace(gate, name=tensor.name.replace("ffn_up", "ffn_gate"))
            yield up
        else:
            yield tensor


def expert_name(name: str, index: int) -> str:
    return f"{name}/{index}"


def _pieces(tensor: Tensor, count: int, shape: tuple[int, ...]) -> list[Tensor]:
    size = tensor.num_bytes // count
    return [
        replace(tensor, shape=shape, offset=tensor.offset + i * size, num_bytes=size)
        for i in range(count)
    ]


def vector(tensor: Tensor, data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """A tensor of one of VECTOR_TYPES as floats."""
    raw = data[tensor.offset : tensor.offset + tensor.num_bytes]
    if tensor.type == "F32":
        return raw.view(np.float32).copy()
    if tensor.type == "F16":
        return raw.view(np.float16).astype(np.float32)
    return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
