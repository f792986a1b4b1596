"""Which settings of a file make sense. What makes none is computed by no runner: llama.cpp would end the process.

Numbers: which are counts, which are real, and in what range. Then what settings say of each other.
"""

import math

from segue.models.gguf import GgufHeader
from segue.runners.cpu.anatomy.families import FAMILIES
from segue.runners.cpu.anatomy.layers import (
    counts,
    head_size,
    heads_of,
    hidden_sizes,
    mixers,
    pairs_of,
    rotated_dimensions,
    windows_of,
)
from segue.runners.cpu.anatomy.parts.latent import latent_of, wrong_latent
from segue.runners.cpu.anatomy.parts.passes import wrong_passes
from segue.runners.cpu.anatomy.parts.streams import first_without_keys
from segue.runners.cpu.anatomy.projections import wrong_gates, wrong_projection
from segue.runners.cpu.anatomy.scaling import SCALED, latent_scale
from segue.runners.cpu.anatomy.states.recurrence import RWKV, WITHOUT_KEYS, wrong_recurrence
from segue.runners.cpu.anatomy.states.rwkv import wrong_rwkv
from segue.runners.cpu.anatomy.tensor_types import wrong_type

_MOST = 2**32  # GGUF's counts have 32 bits
# Distances between tokens have a sign in llama.cpp, for which a wider window would be one of no tokens.
_WINDOW, _MOST_WINDOW = "attention.sliding_window", 2**31
_LEAST_REAL, _MOST_REAL = 1e-30, 1e30  # 32 bits hold products and quotients of a few of these

COUNTS = (
    "attention.decay_lora_rank",
    "attention.gate_lora_rank",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.iclr_lora_rank",
    "attention.key_length",
    "attention.key_length_mla",
    "attention.key_length_swa",
    "attention.kv_lora_rank",
    "attention.q_lora_rank",
    "attention.shared_kv_layers",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.temperature_length",
    "attention.value_length",
    "attention.value_length_mla",
    "attention.value_length_swa",
    "attention.value_residual_mix_lora_rank",
    "block_count",
    "context_length",
    "embedding_length",
    "embedding_length_per_layer_input",
    "expert_count",
    "expert_feed_forward_length",
    "expert_gating_func",
    "expert_group_count",
    "expert_group_used_count",
    "expert_shared_count",
    "expert_shared_feed_forward_length",
    "expert_used_count",
    "feed_forward_length",
    "full_attention_interval",
    "hrm.h_cycles",
    "hrm.l_cycles",
    "hrm.layers_per_stack",
    "interleave_moe_layer_step",
    "kda.head_dim",
    "leading_dense_block_count",
    "moe_every_n_layers",
    "n_deepstack_layers",
    "nextn_predict_layers",
    "num_loops",
    "rescale_every_n_layers",
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "rope.scaling.original_context_length",
    "shortconv.l_cache",
    "ssm.conv_kernel",
    "ssm.group_count",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
    "time_decay_extra_dim",
    "time_mix_extra_dim",
    "token_shift_count",
    "vocab_size",
    "wkv.head_size",
)
REALS = (
    "attention.clamp_kqv",
    "attention.output_scale",
    "attention.scale",
    "attention.temperature_scale",
    "attention.value_scale",
    "embedding_scale",
    "expert_weights_scale",
    "kda.gate_lower_bound",
    "logit_scale",
    "residual_scale",
    "router_logit_softcapping",
)
POSITIVE = (
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.max_alibi_bias",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.alpha",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.yarn_log_multiplier",
    "swiglu_clamp_exp",
    "swiglu_clamp_shexp",
)
FLAGS = (
    "attention.causal",
    "expert_weights_norm",
    "hrm.prefix_lm",
    "kda.safe_gate",
    "rope.scaling.finetuned",
    "skip_loop_final_norm",
    "ssm.dt_b_c_rms",
    "use_parallel_residual",
)
SCALINGS = ("none", "linear", "yarn", "longrope")  # llama.cpp knows no other either
MOST_EXPERTS = 1024
GATING = "expert_gating_func"
_MOST_GATING = 4  # the last one that llama.cpp knows
BASES = ("rope.freq_base", "rope.freq_base_swa")  # above 1; all real numbers may be 0: not given


def senseless(header: GgufHeader) -> str | None:
    """Why no runner can compute what the file says, or None. Of other architectures: as far as they are all alike."""
    wrong = (
        _wrong_layers(header)
        or _wrong_experts(header)
        or _wrong_groups(header)
        or _wrong_scaling(header)
    )
    if wrong or header.architecture not in FAMILIES:
        return wrong
    return (
        wrong_number(header)
        or _wrong_turns(header)
        or _wrong_heads(header)
        or _wrong_values(header)
        or _wrong_gating(header)
        or _wrong_next_layers(header)
        or _wrong_sharing(header)
        or _wrong_latent(header)
        or _wrong_temperature(header)
        or _wrong_sections(header)
        or wrong_passes(header, FAMILIES[header.architecture])
        or wrong_gates(header, FAMILIES[header.architecture])
        or wrong_recurrence(header, FAMILIES[header.architecture])
        or wrong_rwkv(header, FAMILIES[header.architecture])
        or _wrong_mixers(header)
        or wrong_projection(header, FAMILIES[header.architecture])
        or wrong_type(header)
    )


def _wrong_layers(header: GgufHeader) -> str | None:
    key = f"{header.architecture}.block_count"
    layers, tensors = header.metadata.get(key), len(header.tensors)
    if type(layers) is int and not 0 < layers <= tensors:
        return f"{key} is {layers}, but the file has {tensors} tensors"
    return None


def _wrong_mixers(header: GgufHeader) -> str | None:
    """Hybrids have layers of both kinds: llama.cpp keeps a cache for each, and ends the process if one is empty."""
    family = FAMILIES[header.architecture]
    if family.mixer in ("attention", *RWKV) or family.is_mixer_beside:
        return None
    if family.layers_are == "a mixer":
        return None
    layers = header.count("block_count") - header.count("nextn_predict_layers")
    keys, hidden = heads_of(header)[1][:layers], hidden_sizes(header, family)
    if len(keys) < layers or len(hidden) < layers:
        return None  # not told of each layer
    attends, recurs = mixers(header, family, keys, hidden)
    if any(attends) and any(recurs):
        return None
    return f"of {layers} layers {sum(attends)} have attention and {sum(recurs)} a state"


def _wrong_next_layers(header: GgufHeader) -> str | None:
    layers, more = (header.count(key) for key in ("block_count", "nextn_predict_layers"))
    return f"{more} of {layers} layers are for drafts" if layers <= more > 0 else None


def _wrong_experts(header: GgufHeader) -> str | None:
    keys = [f"expert_{name}count" for name in ("", "used_")]
    if any(f"{header.architecture}.{key}" in header.array_lengths for key in keys):  # of each layer
        most, used = (max(counts(header, key), default=0) for key in keys)
        return f"{used} of {most} experts are used" if used > most else _wrong_routers(header)
    experts, used = header.count("expert_count"), header.count("expert_used_count")
    if not min(experts, 1) <= used <= experts <= MOST_EXPERTS:
        return f"{used} of {experts} experts are used"
    return None


def _wrong_routers(header: GgufHeader) -> str | None:
    """Of a file that says of each layer how many experts are used: layers that choose none."""
    names = {tensor.name for tensor in header.tensors}
    layers = header.count("block_count") - header.count("nextn_predict_layers")
    for layer, used in enumerate(counts(header, "expert_used_count")[: max(0, layers)]):
        if not used and f"blk.{layer}.ffn_gate_inp.weight" in names:
            return f"{header.architecture}.expert_used_count is 0 in layer {layer}, which has some"
    return None


def _wrong_groups(header: GgufHeader) -> str | None:
    """Of experts: some of several groups are used, and each has two experts or more."""
    if f"{header.architecture}.expert_count" in header.array_lengths:
        return None  # of each layer
    groups, experts = header.count("expert_group_count"), header.count("expert_count")
    used = header.count("expert_group_used_count")
    is_uneven = groups > 1 and (experts % groups > 0 or not 0 < used < groups)
    if is_uneven or groups >= max(experts, 1):
        return f"{experts} experts are chosen from {used} of {groups} groups"
    return None


def _wrong_scaling(header: GgufHeader) -> str | None:
    kind = header.metadata.get(f"{header.architecture}.rope.scaling.type", "none")
    return None if kind in SCALINGS else f"positions are scaled by {kind!r:.40}"


def _wrong_heads(header: GgufHeader) -> str | None:
    by_layer = [each for each in zip(*heads_of(header), strict=False) if min(each) > 0]
    if not by_layer:
        return None  # not given, or no layer has attention
    for heads, key_heads in by_layer:
        if heads % key_heads:
            return f"{heads} heads do not share {key_heads} keys evenly"
    family, told = FAMILIES[header.architecture], header.count("attention.value_length")
    values = told or header.count("embedding_length") // by_layer[0][0]
    if family.mixer in WITHOUT_KEYS and not family.is_latent and values != head_size(header):
        return f"values are {values} wide, keys {head_size(header)}"
    if family.rotated == "none":
        return None
    for is_windowed in (False, True):
        size = head_size(header, is_windowed)
        turning = rotated_dimensions(header, family, is_windowed)
        if turning > size or turning % 2:
            return f"positions turn {turning} of a head's {size} dimensions"
    return None


def _wrong_turns(header: GgufHeader) -> str | None:
    """Dimensions that positions turn, where a file says 0, which is another thing than nothing: llama.cpp then ends the
    process, or computes for ever (build 11549).
    """
    family, key = FAMILIES[header.architecture], "rope.dimension_count"
    if family.has_plain_turns:
        return None  # what is told has no effect
    for name in (key, *({f"{key}_swa"} & {*family.settings})):
        told = f"{header.architecture}.{name}"
        if header.metadata.get(told) == 0 and pairs_of(header, family):
            return f"{told} is 0: no dimension would turn"
    return None


def _wrong_values(header: GgufHeader) -> str | None:
    """Layers without a matrix for values take keys as values, so that these must be as wide."""
    if not FAMILIES[header.architecture].norms_values:
        return None
    names = {tensor.name for tensor in header.tensors}
    for i, is_windowed in enumerate(header.listed("attention.sliding_window_pattern")):
        has_one = f"blk.{i}.attn_v.weight" in names or f"blk.{i}.attn_k.weight" not in names
        told = header.count(f"attention.value_length{'_swa' if is_windowed else ''}")
        size = head_size(header, bool(is_windowed))
        if not has_one and told not in (0, size):
            return f"layer {i} takes its keys, {size} wide, as values, {told} wide"
    return None


def _wrong_gating(header: GgufHeader) -> str | None:
    """How scores of experts become shares: llama.cpp has no usual way for some architectures."""
    family, told = FAMILIES[header.architecture], header.count(GATING)
    is_none = GATING in family.needed and not told
    if is_none or (GATING in family.settings and told > _MOST_GATING):
        return f"{GATING} is {told}"
    return None


def _wrong_sharing(header: GgufHeader) -> str | None:
    """Layers without keys take those of the last two before them: with a window, and without."""
    family, key = FAMILIES[header.architecture], "attention.shared_kv_layers"
    if key not in family.settings:
        return None
    layers = header.count("block_count")
    first = first_without_keys(header, family, layers)
    if first < min(2, layers):
        return f"{layers - first} of {layers} layers have no keys"
    kinds = [bool(each) for each in header.listed("attention.sliding_window_pattern")]
    if family.window is not None and not family.window.is_listed:
        kinds = [bool(each) for each in windows_of(header, family, layers)]
    keys = heads_of(header)[1]
    if not len(kinds) == len(keys) == layers:
        return None  # not given of each layer
    for layer in range(first, layers):
        source = first - (2 if kinds[layer] else 1)
        if kinds[source] != kinds[layer]:
            return "layers with and without a window would share keys"
        if keys[source] != keys[layer]:
            return (
                f"a layer of {keys[layer]} key heads would share those of one with {keys[source]}"
            )
    return None


def _wrong_latent(header: GgufHeader) -> str | None:
    """A file counts one key head, or as many as queries have if the matrices of keys and values are one."""
    family = FAMILIES[header.architecture]
    latent = latent_of(header, family)
    if latent is None:
        return None
    for heads, key_heads in zip(*heads_of(header), strict=False):
        if not key_heads and family.mixer in WITHOUT_KEYS:
            continue  # a layer without attention
        if key_heads != (heads if latent.is_joined else 1):
            return f"{heads} heads share {key_heads} keys, which are made from one row a token"
    if wrong := wrong_latent(header, latent, tells_values=family.mixer == "attention"):
        return wrong
    scale = latent_scale(header, latent.query, SCALED in family.settings)
    return f"scores are multiplied by {scale}" if scale > _MOST_REAL else None


def _wrong_temperature(header: GgufHeader) -> str | None:
    keys = [f"attention.temperature_{end}" for end in ("scale", "length")]
    if keys[1] not in FAMILIES[header.architecture].settings or header.count(keys[1]):
        return None
    scale = header.metadata.get(f"{header.architecture}.{keys[0]}", 0)
    return "temperatures have no length" if scale else None


def _wrong_sections(header: GgufHeader) -> str | None:
    """Of four, the first three are those that texts have too."""
    key = f"{header.architecture}.rope.dimension_sections"
    sizes, is_one = header.listed("rope.dimension_sections"), key in header.metadata
    has_sections = FAMILIES[header.architecture].sections in ("side by side", "interleaved")
    return (
        "no pair of dimensions turns" if has_sections and not (is_one or any(sizes[:3])) else None
    )


def wrong_number(header: GgufHeader) -> str | None:
    """Which setting is not a number, or a yes or no, as it should be, or None. Arrays are another matter."""
    for key in FLAGS:
        name = f"{header.architecture}.{key}"
        if type(value := header.metadata.get(name, False)) is not bool:
            return f"{name} is {value!r:.40}, neither yes nor no"
    for key in (*COUNTS, *REALS, *POSITIVE):
        name = f"{header.architecture}.{key}"
        value = header.metadata.get(name, 0)
        if key in COUNTS:
            most = _MOST_WINDOW if key == _WINDOW else _MOST
            if type(value) is not int or not 0 <= value < most:
                return f"{name} is {value!r:.40}, not a count"
        elif type(value) not in (int, float) or not _is_sound(key, float(value)):
            return f"{name} is {value!r:.40}"
    return None


def _is_sound(key: str, value: float) -> bool:
    if value == 0:
        return True
    if not math.isfinite(value) or not _LEAST_REAL <= abs(value) <= _MOST_REAL:
        return False
    return key in REALS or value > (1 if key in BASES else 0)
