"""Which GGUF files the kernels can compute. Unknown settings or tensors are refused: they could change results."""

from collections.abc import Mapping

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.checks.kinds import SCALING_TYPE, wrong_kind
from segue.runners.cpu.architectures.checks.refusals import Check, first_wrong
from segue.runners.cpu.architectures.checks.tensor_names import GROUP, wrong_tensors
from segue.runners.cpu.architectures.checks.tensor_settings import RANKS
from segue.runners.cpu.architectures.checks.unread_settings import is_without_effect
from segue.runners.cpu.architectures.families import FAMILIES
from segue.runners.cpu.architectures.families.keys import EXPERTS, GROUPS
from segue.runners.cpu.architectures.family import Family
from segue.runners.cpu.architectures.hparams import (
    EPSILONS,
    SIGMOID,
    SOFTMAX,
    epsilon_key,
    norm_of,
)
from segue.runners.cpu.architectures.layers import (
    BY_LAYER,
    ROTATED,
    counts,
    head_size,
    heads_of,
    hidden_sizes,
    layers_of,
    windows_of,
)
from segue.runners.cpu.architectures.parts.latent import latent_of
from segue.runners.cpu.architectures.parts.limits import LIMITS, wrong_limits
from segue.runners.cpu.architectures.parts.streams import SPARSITY, wrong_streams
from segue.runners.cpu.architectures.parts.xielu import wrong_shapes
from segue.runners.cpu.architectures.positions import original_context, yarn_betas
from segue.runners.cpu.architectures.scaling import PLAIN_BASE, real, scaling
from segue.runners.cpu.architectures.settings import GATING, senseless
from segue.runners.cpu.architectures.states.recurrence import (
    RWKV,
    STATES,
    WITHOUT_KEYS,
    Recurrence,
    recurrence_of,
)

MEASURES = ("block_count", "embedding_length")
COMMON = {
    *MEASURES,
    *BY_LAYER,
    "attention.causal",
    "attention.key_length",
    *EPSILONS.values(),
    "attention.value_length",
    "context_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "tensor_data_layout",
    "vocab_size",
}
PATTERN, SECTIONS = "attention.sliding_window_pattern", "rope.dimension_sections"
ONLY_LISTS = (SECTIONS, ROTATED, SPARSITY)
MOST_GROUPS = 32  # of experts
MOST_TAPS = 16  # of convolutions
_LEAST_BETA, _MOST_BETA = 1e-3, 1e6
LANES = 16  # heads are a multiple of it wide


def supports(header: GgufHeader) -> str | None:
    """Why this model cannot run here, or None if it can."""
    architecture = header.architecture
    if architecture not in FAMILIES:
        return f"the architecture is {architecture}, which is none of those in docs/models.md"
    family = FAMILIES[architecture]
    return (
        wrong_kind(header, family)
        or _wrong_settings(header, family)
        or senseless(header)
        or first_wrong(header, family, _CHECKS)
        or wrong_tensors(header)
    )


def drafts_obstacle(header: GgufHeader) -> str | None:
    """Why the MTP layer of a model that can run here cannot be computed, or None if it can."""
    if not header.count("nextn_predict_layers"):
        return "the file has none"
    if FAMILIES[header.architecture].drafts_by == "none":
        return f"those of {header.architecture} are not computed here"
    return wrong_tensors(header, drafts=True)


def _wrong_settings(header: GgufHeader, family: Family) -> str | None:
    prefix = f"{header.architecture}."
    given = {key for key, value in header.metadata.items() if value} | {*header.array_lengths}
    own = {key.removeprefix(prefix) for key in given if key.startswith(prefix)}
    unknown = own - COMMON - {*family.settings}
    if unknown := {key for key in unknown if not is_without_effect(header, family, key)}:
        return f"the file has settings it does not know: {', '.join(sorted(unknown)[:4])}"
    # llama.cpp refuses a file without these two; what they say may be 0.
    epsilon = epsilon_key(family)
    if norm_of(header, family) != family.norm:  # told by the name of the other epsilon
        epsilon = EPSILONS["rms"]
    unsaid = {key for key in ("context_length", epsilon) if prefix + key not in header.metadata}
    if missing := (unsaid | {*family.needed}) - own:
        key = prefix + min(missing)
        told = header.metadata.get(key)
        return f"the file does not say {key}{'' if told is None else f': it is {told}'}"
    lists = {key.removeprefix(prefix) for key in header.array_lengths if key.startswith(prefix)}
    if lists := lists - {*ONLY_LISTS, PATTERN, *LIMITS, *BY_LAYER}:
        return f"{prefix}{min(lists)} is not one number"
    for key in (*MEASURES, *(["expert_count"] if family.experts == "all" else [])):
        if not header.count(key):
            return f"{prefix}{key} is not one number above 0"
    for key in ONLY_LISTS:
        if prefix + key in header.metadata:
            return f"{prefix}{key} is {header.metadata[prefix + key]}, not a list"
    return None


def _wrong_measures(header: GgufHeader, family: Family) -> str | None:
    layers = header.count("block_count")
    each = dict(zip(BY_LAYER[:2], heads_of(header), strict=True))
    each[BY_LAYER[2]] = hidden = counts(header, BY_LAYER[2])
    may_lack = {BY_LAYER[1]} if family.mixer in WITHOUT_KEYS else set()
    may_lack |= {BY_LAYER[0]} if family.mixer == "plamo" else set()
    may_lack |= {*BY_LAYER[:2]} if family.mixer in RWKV else set()
    may_lack |= {*BY_LAYER} if family.layers_are != "whole" else set()
    may_lack |= {BY_LAYER[2]} if family.experts == "all" and not any(hidden) else set()
    for key, found in each.items():
        if len(found) != layers or min(found) < (0 if key in may_lack else 1):
            return f"{header.architecture}.{key} is not a count for each of {layers} layers"
    return None


def _wrong_values(header: GgufHeader, _: Family) -> str | None:
    """Why a known setting has a value that the kernels cannot compute, or None."""
    prefix = f"{header.architecture}."
    if header.metadata.get(f"{prefix}attention.causal") is False:
        return "its attention is not causal"
    if header.architecture == "llama4":
        if header.metadata.get(f"{prefix}attention.sliding_window", 1) == 0:
            return "its attention has no chunks"
    elif header.architecture == "apertus":
        return wrong_shapes(header)
    return None


def _wrong_context(header: GgufHeader, _: Family) -> str | None:
    if scaling(header)[0] == "yarn" and not original_context(header):
        return "YaRN needs the context it was trained on, and the file names none"
    if real(header, "attention.temperature_scale") and not original_context(header):
        return "temperatures need the context it was trained on, and the file names none"
    return None


def _wrong_yarn(header: GgufHeader, family: Family) -> str | None:
    if not all(_LEAST_BETA <= beta <= _MOST_BETA for beta in yarn_betas(header)):
        return f"YaRN's betas are {yarn_betas(header)}"
    for key in {"rope.scaling.yarn_attn_factor", "rope.scaling.yarn_ext_factor"} & {
        *family.settings
    }:
        told = header.metadata.get(f"{header.architecture}.{key}")
        if told is not None and (told != 1.0 or scaling(header)[0] != "yarn"):
            return f"{key} is not 1, or without YaRN"
    return None


def _wrong_unscaled(header: GgufHeader, family: Family) -> str | None:
    """A factor by which positions are not scaled: llama.cpp scales those of layers with a window all the same."""
    kind, factor = scaling(header)
    has_any = any(windows_of(header, family, header.count("block_count")))
    is_plain = family.window is not None and family.window.is_plain
    if kind == "none" and factor != 1.0 and has_any and not is_plain:
        return f"positions of layers with a window would be scaled by {factor:g}, others not"
    return None


def _wrong_turns(header: GgufHeader, family: Family) -> str | None:
    """Where positions turn in one way, whatever a file says, it must not say another."""
    base, factor = real(header, "rope.freq_base"), real(header, "rope.scaling.attn_factor")
    is_plain = base in (0.0, PLAIN_BASE) and factor in (0.0, 1.0) and scaling(header)[1] == 1.0
    if family.has_plain_turns and not is_plain:
        return f"its positions turn by another base than {PLAIN_BASE}, or are scaled"
    return None


def _wrong_lists(header: GgufHeader, family: Family) -> str | None:
    layers = header.count("block_count")
    drafts = header.count("nextn_predict_layers")
    for key in (PATTERN, ROTATED):
        told = len(header.listed(key))
        whole = told + drafts if key == PATTERN and not _is_listed(family) else told
        if f"{header.architecture}.{key}" in header.array_lengths and layers not in (told, whole):
            return f"{header.architecture}.{key} is told of {told} layers, not of {layers}"
    if _is_listed(family) and not header.listed(PATTERN):
        return f"{header.architecture}.{PATTERN} is not a list of layers"
    is_told = f"{header.architecture}.{SECTIONS}" in header.array_lengths
    if is_told and SECTIONS in family.settings and len(header.listed(SECTIONS)) != 4:
        return f"{header.architecture}.{SECTIONS} are not four counts"
    return None


def _is_listed(family: Family) -> bool:
    """Whether its layers with a window are those that the file lists."""
    return family.window is not None and family.window.is_listed


def _wrong_routing(header: GgufHeader, family: Family) -> str | None:
    if family.routing.startswith("sigmoid") and header.count("expert_gating_func") not in (
        0,
        SIGMOID,
    ):
        return "shares of experts are not by sigmoid"
    if family.routing.startswith("as told") and header.count("expert_gating_func") not in (
        0,
        SOFTMAX,
        SIGMOID,
    ):
        return "shares of experts are neither by softmax nor by sigmoid"
    if header.architecture != "llama4" and header.count("interleave_moe_layer_step") > 1:
        return "some layers between those with experts have none"
    return _wrong_groups(header)


def _wrong_groups(header: GgufHeader) -> str | None:
    groups, experts = header.count("expert_group_count"), header.count("expert_count")
    if groups <= 1:
        return None
    used, size = header.count("expert_group_used_count"), experts // groups
    if groups > MOST_GROUPS:
        return f"experts are in {groups} groups, more than {MOST_GROUPS}"
    if used * size < header.count("expert_used_count"):
        return f"{used} groups of {size} experts have fewer than a token uses"
    return None


def _wrong_widths(header: GgufHeader, family: Family) -> str | None:
    wide = [("rows", header.count("embedding_length"))]
    wide += [("embeddings of a layer", header.count("embedding_length_per_layer_input"))]
    latent, heads_each = latent_of(header, family), counts(header, BY_LAYER[0])
    if latent is not None:
        wide += [("rows that queries are made of", latent.query_rank), ("latents", latent.rank)]
        wide += [("heads that do not turn", latent.plain)]
        wide += [("all heads together", heads * latent.values) for heads in heads_each]
        if latent.turned % LANES:
            return f"positions turn {latent.turned} dimensions, not a multiple of {LANES}"
    for is_windowed, end in ((False, ""), (True, "_swa")) if latent is None else ():
        size, values = head_size(header, is_windowed), header.count(f"attention.value_length{end}")
        if values not in (0, size) and not (family.may_narrow_values and values <= size):
            return f"values are {values} wide, keys {size}"
        if size % LANES or not size:
            return f"heads are {size} wide, not a multiple of {LANES}"
        if values % LANES:
            return f"values are {values} wide, not a multiple of {LANES}"
        wide += [("all heads together", heads * (values or size)) for heads in heads_each]
    wide += [("the feed-forward", hidden) for hidden in hidden_sizes(header, family)]
    for what, count in wide:
        if count % GROUP:
            return f"{what} are {count} wide, not a multiple of {GROUP}"
    return None


def _wrong_states(header: GgufHeader, family: Family) -> str | None:
    """Of layers without attention."""
    if family.mixer == "attention":
        return None
    found = recurrence_of(header, family)
    if not 2 <= found.taps <= MOST_TAPS:
        return f"its convolutions see {found.taps} tokens, not 2 to {MOST_TAPS}"
    if found.mixer in ("mamba", "mamba1", "plamo"):
        wrong = _wrong_mamba(found) if found.mixer != "mamba1" else None
        return wrong or _wrong_times(found, header.count("embedding_length"))
    if found.mixer == "kda" and not found.heads:
        return f"{header.architecture}.{BY_LAYER[0]} is not one number"
    if found.size > header.count("embedding_length"):  # see program/recurrent.py: rows of an input
        return f"heads of states are {found.size} wide, more than the residual"
    if found.size % GROUP:
        return f"heads of states are {found.size} wide, not a multiple of {GROUP}"
    own = recurrence_of(header, family, layer=1)
    for rank in (own.rank, *own.ranks):
        if rank % GROUP:
            return f"pairs of matrices have ranks of {rank}, not a multiple of {GROUP}"
    return None


def _wrong_attention(header: GgufHeader, family: Family) -> str | None:
    """Layers for which a file may count no heads are those without attention."""
    layers = layers_of(header, family)
    if not any(layer.attends or layer.recurrence for layer in layers):
        return "no layer has attention"
    for i, layer in enumerate(layers):
        if family.layers_are == "as counted" and layer.mixes and not layer.hidden:
            return f"layer {i} has heads, and no feed-forward"  # llama.cpp leaves them out
        if layer.attends and not min(layer.heads, layer.key_heads):
            return f"layer {i} has attention, with {layer.heads} heads and {layer.key_heads} keys"
    return None


def _wrong_mamba(found: Recurrence) -> str | None:
    multiples = {
        "heads of states": (found.size, LANES),
        "states": (found.states, LANES),
        "all heads of states together": (found.taken, GROUP),
        "groups of them": (found.taken // found.key_heads, LANES),
    }
    return _uneven(multiples)


def _wrong_times(found: Recurrence, width: int) -> str | None:
    if found.rank > width:  # they are rows of an input, as the residual is
        return f"times are made of {found.rank} numbers, more than {width}"
    multiples = {
        "columns of states": (found.taken, found.size),
        "states": (found.states, LANES),
        "what times are made of": (found.rank, LANES),
    }
    return _uneven(multiples)


def _uneven(multiples: Mapping[str, tuple[int, int]]) -> str | None:
    for what, (count, unit) in multiples.items():
        if count % unit:
            return f"{what} are {count} wide, not a multiple of {unit}"
    return None


_HEADS = ("attention.head_count", "attention.head_count_kv")
_SIZES = (
    "embedding_length",
    "attention.head_count",
    "attention.key_length",
    "attention.key_length_swa",
    "attention.value_length",
    "attention.value_length_swa",
)
_LATENT = (
    "attention.kv_lora_rank",
    "attention.q_lora_rank",
    "attention.key_length_mla",
    "attention.value_length_mla",
    "rope.dimension_count",
)
_SCALINGS = (
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.factor",
    "rope.scaling.attn_factor",
)
_CHECKS = (
    Check(_wrong_measures, ("block_count",)),
    Check(_wrong_values, ("block_count", "attention.causal", "attention.sliding_window")),
    Check(_wrong_context, ("context_length", SCALING_TYPE, "attention.temperature_scale")),
    Check(_wrong_yarn, ("rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow")),
    Check(_wrong_unscaled, (SCALING_TYPE, *_SCALINGS)),
    Check(_wrong_turns, _SCALINGS),
    Check(_wrong_lists, ("block_count",)),
    Check(wrong_limits, ("block_count",)),
    Check(wrong_streams, ("block_count",)),
    Check(_wrong_routing, (GATING, "interleave_moe_layer_step", *GROUPS, *EXPERTS)),
    Check(
        _wrong_widths,
        (*_SIZES, *_LATENT, "feed_forward_length", "embedding_length_per_layer_input"),
    ),
    Check(_wrong_states, (*STATES, *RANKS)),
    Check(_wrong_attention, (*_HEADS, "feed_forward_length")),
)
