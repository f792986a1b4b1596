"""The tensors of a model: names and shapes that must or may be there, and how some are cut into matrices."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from segue.models.gguf import Tensor
from segue.runners.cpu.architectures.hparams import IN_ONE, ROUTER, Hparams
from segue.runners.cpu.architectures.layers import Layer
from segue.runners.cpu.architectures.parts.drafts import draft_extras, draft_shapes
from segue.runners.cpu.architectures.parts.latent import JOINED, latent_shapes
from segue.runners.cpu.architectures.parts.streams import layer_shapes, whole_shapes
from segue.runners.cpu.architectures.states.recurrence import RWKV, Recurrence
from segue.runners.cpu.architectures.states.rwkv import (
    MIXED,
    RWKV_VECTORS,
    UNUSED,
    channel_mix_shapes,
    time_mix_extras,
    time_mix_shapes,
)
from segue.runners.cpu.architectures.states.shapes import KDA_PARTS, RECURRENT, mamba_extras
from segue.runners.cpu.architectures.usual_names import usually_named

EXPERTS_NORM = "ffn_norm_exps"  # before experts that come first
# Norms with a feed-forward beside experts: before the experts, after the feed-forward, after the experts.
DENSE_NORMS = ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2")

Shapes = dict[str, tuple[int, ...]]  # GGML's order of dimensions: columns first

LAYER_SCALE = "layer_output_scale.weight"
FIRST_LOW = "hrm.z_l_init"  # what the first low stack takes besides embeddings

CONVOLUTIONS = (
    "conv1d.weight",
    *(f"conv1d_{part}.weight" for part in KDA_PARTS),
    "shortconv.conv.weight",
)
_LOG2_E = 1.4426950408889634
VECTOR_TYPES = ("F32", "F16", "BF16")
_OF_VECTORS = (
    ".bias",
    ".scale",
    "norm.weight",
    "norm_1.weight",
    "norm_2.weight",
    f"{EXPERTS_NORM}.weight",
    "sinks.weight",
    "inp_shexp.weight",
    "altup_router.weight",
    "altup_predict_coef.weight",
    "altup_correct_coef.weight",
    "altup_correct_scale.weight",
    "output_scale.weight",
    "ssm_a",
    "ssm_d",
    FIRST_LOW,
    *CONVOLUTIONS,
    *RWKV_VECTORS,
)


def is_vector(name: str) -> bool:
    """Whether a tensor is read as floats; the others are packed as matrices."""
    return name.endswith(_OF_VECTORS) or name.startswith("rope_")


def shapes(hparams: Hparams) -> Shapes:
    """Every tensor that must be there."""
    width, family = hparams.width, hparams.family
    whole: Shapes = {"token_embd.weight": (width, hparams.vocab_size)}
    whole |= _norm(hparams, "output_norm")
    if family.has_embedding_norm and not family.is_embedding_norm_plain:
        whole |= _norm(hparams, "token_embd_norm")
    if family.turns == "none":
        whole["position_embd.weight"] = (width, hparams.train_context)
    if family.is_untied:
        whole["output.weight"] = (width, hparams.vocab_size)
    if family.passes == "stacks":
        whole[FIRST_LOW] = (width,)
    if "output" in family.biases:
        whole["output.bias"] = (hparams.vocab_size,)
    if family.needs_factors:
        whole |= _factors(hparams, "rope_freqs")
    if family.has_streams:
        whole |= whole_shapes(width)
    if columns := hparams.layer_columns:
        whole["per_layer_token_embd.weight"] = (columns * hparams.layers, hparams.vocab_size)
        whole["per_layer_model_proj.weight"] = (width, columns * hparams.layers)
        whole["per_layer_proj_norm.weight"] = (columns,)
    for i, layer in enumerate(hparams.by_layer):
        own = _mixer(hparams, layer) | _feed_forward(hparams, layer, hparams.has_experts(i))
        own |= {LAYER_SCALE: (1,)} if family.adds_embeddings else {}
        own |= draft_shapes(width) if i == hparams.layers else {}
        whole |= _in_layer(layer.weights_of, own)
    return whole


def extras(hparams: Hparams) -> Shapes:
    """Tensors that may be there."""
    family = hparams.family
    whole: Shapes = {} if family.is_tied else {"output.weight": (hparams.width, hparams.vocab_size)}
    if family.may_have_factors:
        whole |= _factors(hparams, "rope_freqs")
    if family.has_long_rope:
        whole |= _factors(hparams, "rope_factors_long") | _factors(hparams, "rope_factors_short")
    if "output" in family.may_bias:
        whole["output.bias"] = (hparams.vocab_size,)
    if family.may_learn_positions:
        whole["position_embd.weight"] = (hparams.width, hparams.train_context)
    if family.may_have_norm_bias:
        whole["output_norm.bias"] = (hparams.width,)
    for i, layer in enumerate(hparams.by_layer):
        if i == hparams.layers:
            whole |= _in_layer(i, draft_extras(hparams.width, hparams.vocab_size))
        if family.may_have_norm_bias:
            whole |= _in_layer(i, _norm_biases(hparams, layer))
        if layer.latent is None:
            whole |= _in_layer(layer.weights_of, _biases(hparams, layer))
        if layer.recurrence is not None and layer.recurrence.mixer == "mamba":
            whole |= _in_layer(i, mamba_extras(layer.recurrence))
        if layer.recurrence is not None and layer.recurrence.mixer in RWKV:
            whole |= _in_layer(i, time_mix_extras(layer.recurrence, family.norm == "rms"))
        if family.may_have_sinks and layer.attends:
            whole |= _in_layer(i, {"attn_sinks.weight": (layer.heads,)})
        if family.has_layer_scales:
            whole |= _in_layer(i, {LAYER_SCALE: (1,)})
        if family.has_choice_bias and hparams.has_experts(i):
            whole |= _in_layer(i, {"exp_probs_b.bias": (hparams.experts,)})
        if family.shared_expert == "dense" and hparams.has_experts(i):
            whole |= _in_layer(i, {"ffn_down_exps.scale": (hparams.experts,)})
    return whole


def _factors(hparams: Hparams, name: str) -> Shapes:
    """Of RoPE: one for each pair of dimensions, of a layer that sees all tokens if some do. Where those turn half of
    the pairs, the file has more than they take.
    """
    has_half = hparams.family.turns_half
    layers = sorted(hparams.by_layer, key=lambda layer: (layer.window > 0) != has_half)
    pairs = next((layer.pairs for layer in layers if layer.pairs), 0)
    return {f"{name}.weight": (pairs,)} if pairs else {}


def _biases(hparams: Hparams, layer: Layer) -> Shapes:
    """Biases that a layer may have."""
    family, sizes = hparams.family, _bias_sizes(hparams, layer)
    own: Shapes = {f"{name}.bias": (sizes[name],) for name in family.may_bias if name in sizes}
    if layer.is_gate_joined or not layer.attends:
        return own
    if family.head_epsilon:
        heads = {"q": layer.heads, "k": layer.key_heads}
        own |= {f"attn_{part}_norm.bias": (layer.head_size, n) for part, n in heads.items()}
    if not family.has_head_biases:
        return own
    if hparams.has_fused_heads:
        return own | {"attn_qkv.bias": (layer.projected,)}
    if hparams.norms_all_heads or hparams.clamp:  # before biases of parts could be added
        return own
    own["attn_q.bias"] = (layer.queries,)
    return own | {f"attn_{name}.bias": (layer.keys,) for name in _parts(layer)[1:]}


def _norm_biases(hparams: Hparams, layer: Layer) -> Shapes:
    """Of norms that may have one."""
    own: Shapes = {f"{name}.bias": (hparams.width,) for name in hparams.family.norms}
    if hparams.norms_all_heads:
        own |= {"attn_q_norm.bias": (layer.queries,), "attn_k_norm.bias": (layer.keys,)}
    return own


def _in_layer(layer: int, shapes: Shapes) -> Shapes:
    return {f"blk.{layer}.{name}": shape for name, shape in shapes.items()}


def _norm(hparams: Hparams, name: str) -> Shapes:
    if not name or not hparams.family.has_norm_weights:
        return {}
    ends = ("weight", "bias") if hparams.family.has_norm_bias else ("weight",)
    return {f"{name}.{end}": (hparams.width,) for end in ends}


def _bias_sizes(hparams: Hparams, layer: Layer) -> dict[str, int]:
    """Outputs of the products of a layer that may have a bias of their own."""
    width = hparams.width
    sizes = {"attn_output": width} if layer.attends else {}
    if not hparams.experts and layer.hidden:
        sizes |= {"ffn_gate": layer.hidden, "ffn_up": layer.hidden, "ffn_down": width}
    return sizes


def _parts(layer: Layer) -> str:
    """What attention has matrices for."""
    if not layer.has_keys:
        return "q"
    return "qkv" if layer.has_values else "qk"


def _mixer(hparams: Hparams, layer: Layer) -> Shapes:
    if not layer.mixes and hparams.family.layers_are == "as counted":
        return {}
    own, found = _norm(hparams, hparams.family.norms[0]), layer.recurrence
    if layer.is_linear:
        own["attn_output.weight"] = (hparams.width, hparams.width)
    own |= {f"{name}.weight": (hparams.width,) for name in hparams.family.after if name}
    if found is not None and found.mixer in RWKV:
        return own | time_mix_shapes(found, is_adapted=hparams.family.norm == "rms")
    if found is not None:
        own |= RECURRENT[found.mixer](hparams, found)
    if layer.latent is not None:
        own |= {"attn_gate.weight": (hparams.width, layer.gate)} if layer.gate else {}
        return own | latent_shapes(layer.latent, layer.heads, hparams.width)
    return own | _attention(hparams, layer) if layer.attends else own


def _attention(hparams: Hparams, layer: Layer) -> Shapes:
    width, family = hparams.width, hparams.family
    own: Shapes = {}
    if hparams.has_fused_heads:
        own["attn_qkv.weight"] = (width, layer.projected)
    else:
        own["attn_q.weight"] = (width, layer.asked)
        counts = {"k": layer.keys, "v": layer.values}
        own |= {f"attn_{name}.weight": (width, counts[name]) for name in _parts(layer)[1:]}
    own["attn_output.weight"] = (layer.taken, width)
    if name := family.sub_norms[0]:
        own[f"{name}.weight"] = (layer.taken,)
    if layer.gate and not layer.is_gate_joined:
        own["attn_gate.weight"] = (width, layer.gate)
    size, counts = layer.head_size, {"q": layer.heads, "k": layer.key_heads}
    if family.head_norms == "each" or (
        family.head_norms == "each or none" and hparams.has_head_norms
    ):
        own |= {f"attn_{name}_norm.weight": (size,) for name in _parts(layer)[:2]}
    elif hparams.norms_all_heads:
        own |= {f"attn_{name}_norm.weight": (size * n,) for name, n in counts.items()}
    elif family.head_norms == "own" or (
        family.head_norms == "own or none" and hparams.has_head_norms
    ):
        own |= {f"attn_{name}_norm.weight": (size, n) for name, n in counts.items()}
    elif family.head_norms == "gains":
        own["attn_q_norm.weight"] = (1, layer.heads)
    if family.has_sinks:
        own["attn_sinks.weight"] = (layer.heads,)
    sizes = _bias_sizes(hparams, layer)
    own |= {f"{name}.bias": (sizes[name],) for name in family.biases if name in sizes}
    return own


def _feed_forward(hparams: Hparams, layer: Layer, has_experts: bool) -> Shapes:
    width, hidden, family = hparams.width, layer.hidden, hparams.family
    if family.layers_are == "a mixer" or (family.layers_are != "whole" and not hidden):
        return {}
    own = {} if hparams.shares_norm else _norm(hparams, family.norms[1])
    if family.has_streams:
        own |= layer_shapes(width)
    if columns := hparams.layer_columns:
        own |= {"inp_gate.weight": (width, columns), "proj.weight": (columns, width)}
        own["post_norm.weight"] = (width,)
    if family.is_feed_forward_shifted:
        return own | channel_mix_shapes(width, hidden, family.is_output_gated)
    if has_experts:
        own |= _experts(hparams)
        if family.layers_are == "experts first":
            own |= _norm(hparams, EXPERTS_NORM)
        elif family.shared_expert != "dense" and not hparams.is_fed_beside:
            return own
    up = 2 * hidden if family.is_gate_fused else hidden
    own |= {"ffn_up.weight": (width, up), "ffn_down.weight": (hidden, width)}
    if name := family.sub_norms[1]:
        own[f"{name}.weight"] = (hidden,)
    if family.is_gated and not family.is_gate_fused:
        own["ffn_gate.weight"] = (width, hidden)
    return own


def _experts(hparams: Hparams) -> Shapes:
    width, hidden, count = hparams.width, hparams.expert_hidden, hparams.experts
    layer: Shapes = {ROUTER: (width, count)}
    before = ("gate", "up") if hparams.family.is_gated else ("up",)
    if hparams.has_fused_experts:
        layer["ffn_gate_up_exps.weight"] = (width, 2 * hidden, count)
    else:
        layer |= {f"ffn_{name}_exps.weight": (width, hidden, count) for name in before}
    layer["ffn_down_exps.weight"] = (hidden, width, count)
    if hparams.family.activation == "clamped silu":  # the same models have these biases
        layer["ffn_gate_inp.bias"] = (count,)
        layer |= {f"ffn_{name}_exps.bias": (hidden, count) for name in ("gate", "up")}
        layer["ffn_down_exps.bias"] = (width, count)
    if shared := hparams.shared_hidden:
        layer |= {f"ffn_{name}_shexp.weight": (width, shared) for name in before}
        layer["ffn_down_shexp.weight"] = (shared, width)
    if hparams.family.shared_expert == "dense":
        layer |= {"ffn_gate_inp.scale": (width,)}
        layer |= {f"{name}.weight": (width,) for name in DENSE_NORMS}
    if hparams.family.shared_expert == "gated":
        layer["ffn_gate_inp_shexp.weight"] = (width,)
    return layer


# --- reading ---


def computed(tensors: tuple[Tensor, ...], hparams: Hparams) -> tuple[Tensor, ...]:
    """The tensors without those that have no effect: of layers for drafts, but for the first if it is computed; keys of
    layers that read another's, shares of values in RWKV's first layer, what pictures take, and scales for rounding
    inputs (tensor_scales.py).

    Their names are the usual ones.
    """
    count = len(hparams.by_layer)
    passed = [f"blk.{i}." for i in range(count, hparams.layers + hparams.next_layers)]
    shared = [i for i, layer in enumerate(hparams.by_layer) if layer.keys_of >= 0]
    passed += [f"blk.{i}.attn_{part}" for i in shared for part in ("k.", "k_norm.", "v.")]
    passed += UNUSED if hparams.family.mixer == "wkv7" else []
    passed += [f"blk.{i}.{start}" for i in range(count) for start in hparams.family.unread]
    return tuple(
        usually_named(tensor, hparams)
        for tensor in tensors
        if not tensor.name.startswith(tuple(passed)) and not tensor.name.endswith(".input_scale")
    )


def matrices(tensors: tuple[Tensor, ...], hparams: Hparams) -> Iterator[Tensor]:
    """The tensors as two-dimensional matrices: one per expert (`expert_name`); a fused gate is split off its tensor."""
    for tensor in tensors:
        is_parted = hparams.has_states_in_one and tensor.name.endswith(f".{IN_ONE}")
        if is_vector(tensor.name) or tensor.name.endswith(JOINED) or is_parted:
            continue
        if tensor.name.endswith("ffn_gate_up_exps.weight"):
            shape = (tensor.shape[0], tensor.shape[1] // 2)
            for i, piece in enumerate(_pieces(tensor, 2 * tensor.shape[2], shape)):
                own = tensor.name.replace("gate_up", ("gate", "up")[i % 2])
                yield replace(piece, name=expert_name(own, i // 2))
        elif len(tensor.shape) == 3:
            for i, piece in enumerate(_pieces(tensor, tensor.shape[2], tensor.shape[:2])):
                yield replace(piece, name=expert_name(tensor.name, i))
        elif hparams.family.is_gate_fused and tensor.name.endswith(".ffn_up.weight"):
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


def rates(columns: NDArray[np.float32]) -> NDArray[np.float32]:
    """How fast Mamba 1's states fade, for powers of two instead of e; and of each 16 columns side by side."""
    whole = columns * np.float32(_LOG2_E)
    return whole.reshape(-1, 16, columns.shape[1]).transpose(0, 2, 1).copy()


def prepare_vectors(vectors: dict[str, NDArray[np.float32]], name: str, layer: Recurrence) -> None:
    """Put those of a layer with a state in the order that kernels read. `name`: how the layer's names begin."""
    if layer.mixer == "mamba1":
        vectors[f"{name}ssm_a"] = rates(vectors[f"{name}ssm_a"].reshape(-1, layer.states))
    elif layer.mixer == "kda":  # three convolutions side by side are one
        parts = [vectors.pop(f"{name}ssm_conv1d_{part}.weight") for part in KDA_PARTS]
        vectors[f"{name}ssm_conv1d.weight"] = np.concatenate(parts, axis=1)
    elif layer.mixer == "wkv6":
        if not layer.is_fused:
            parts = [vectors.pop(f"{name}time_mix_lerp_{which}.weight") for which in MIXED]
            vectors[f"{name}time_mix_lerp_fused.weight"] = np.concatenate(parts)
        start = f"{name}channel_mix_lerp_"
        if f"{start}r.weight" in vectors:
            parts = [vectors.pop(f"{start}{which}.weight") for which in "kr"]
            vectors[f"{start}fused.weight"] = np.concatenate(parts)
