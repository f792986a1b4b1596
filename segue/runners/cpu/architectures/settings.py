"""Which settings of a file make sense. What makes none is computed by no runner: llama.cpp would end the process.

Each by itself (checks/kinds.py), then what they say of each other.
"""

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.checks.kinds import KINDS, SCALING_TYPE, wrong_kind
from segue.runners.cpu.architectures.checks.refusals import Check, first_wrong
from segue.runners.cpu.architectures.families import FAMILIES
from segue.runners.cpu.architectures.family import Family
from segue.runners.cpu.architectures.layers import (
    counts,
    head_size,
    heads_of,
    hidden_sizes,
    mixers,
    pairs_of,
    rotated_dimensions,
    windows_of,
)
from segue.runners.cpu.architectures.parts.latent import latent_of, wrong_latent
from segue.runners.cpu.architectures.parts.passes import (
    HIGH_CYCLES,
    LOOPS,
    LOW_CYCLES,
    STACK,
    wrong_passes,
)
from segue.runners.cpu.architectures.parts.streams import first_without_keys
from segue.runners.cpu.architectures.projections import wrong_gates, wrong_projection
from segue.runners.cpu.architectures.scaling import SCALED, latent_scale
from segue.runners.cpu.architectures.states.recurrence import (
    INTERVAL,
    RWKV,
    STATES,
    WITHOUT_KEYS,
    wrong_recurrence,
)
from segue.runners.cpu.architectures.states.rwkv import wrong_rwkv
from segue.runners.cpu.architectures.tensor_types import wrong_type

MOST_EXPERTS = 1024
GATING = "expert_gating_func"
_MOST_GATING = 4  # the last one that llama.cpp knows
WINDOWED = "attention.sliding_window_pattern"  # which layers have a window
_MOST_SCALE = 1e30  # of scores


def senseless(header: GgufHeader) -> str | None:
    """Why no runner can compute what the file says, or None. Of other architectures: as far as they are all alike."""
    family = FAMILIES.get(header.architecture)
    if family is None:
        return first_wrong(header, Family(), _OF_ALL)
    return wrong_kind(header, family) or first_wrong(header, family, (*_OF_ALL, *_OF_FAMILIES))


def _wrong_layers(header: GgufHeader, _: Family) -> str | None:
    key = f"{header.architecture}.block_count"
    layers, tensors = header.metadata.get(key), len(header.tensors)
    if type(layers) is int and not 0 < layers <= tensors:
        return f"{key} is {layers}, but the file has {tensors} tensors"
    return None


def _wrong_mixers(header: GgufHeader, family: Family) -> str | None:
    """Hybrids have layers of both kinds: llama.cpp keeps a cache for each, and ends the process if one is empty."""
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


def _wrong_next_layers(header: GgufHeader, _: Family) -> str | None:
    layers, more = (header.count(key) for key in ("block_count", "nextn_predict_layers"))
    return f"{more} of {layers} layers are for drafts" if layers <= more > 0 else None


def _wrong_experts(header: GgufHeader, family: Family) -> str | None:
    keys = [f"expert_{name}count" for name in ("", "used_")]
    if any(f"{header.architecture}.{key}" in header.array_lengths for key in keys):  # of each layer
        most, used = (max(counts(header, key), default=0) for key in keys)
        return f"{used} of {most} experts are used" if used > most else _wrong_routers(header)
    experts, used = header.count("expert_count"), header.count("expert_used_count")
    if experts <= 1 and family.experts == "none" and "expert_count" in family.settings:
        return None  # which llama.cpp takes for none
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


def _wrong_groups(header: GgufHeader, _: Family) -> str | None:
    """Of experts: some of several groups are used, and each has two experts or more."""
    if f"{header.architecture}.expert_count" in header.array_lengths:
        return None  # of each layer
    groups, experts = header.count("expert_group_count"), header.count("expert_count")
    used = header.count("expert_group_used_count")
    is_uneven = groups > 1 and (experts % groups > 0 or not 0 < used < groups)
    if is_uneven or groups >= max(experts, 1):
        return f"{experts} experts are chosen from {used} of {groups} groups"
    return None


def _wrong_scaling(header: GgufHeader, _: Family) -> str | None:
    kind = header.metadata.get(f"{header.architecture}.{SCALING_TYPE}", "none")
    return None if KINDS[SCALING_TYPE].takes(kind) else f"positions are scaled by {kind!r:.40}"


def _wrong_shares(header: GgufHeader, _: Family) -> str | None:
    for heads, key_heads in _attending(header):
        if heads % key_heads:
            return f"{heads} heads do not share {key_heads} keys evenly"
    return None


def _attending(header: GgufHeader) -> list[tuple[int, int]]:
    """Heads of queries and keys of layers that have both."""
    return [each for each in zip(*heads_of(header), strict=False) if min(each) > 0]


def _wrong_value_size(header: GgufHeader, family: Family) -> str | None:
    if not (by_layer := _attending(header)):
        return None  # not given, or no layer has attention
    told = header.count("attention.value_length")
    values = told or header.count("embedding_length") // by_layer[0][0]
    if family.mixer in WITHOUT_KEYS and not family.is_latent and values != head_size(header):
        return f"values are {values} wide, keys {head_size(header)}"
    return None


def _wrong_part(header: GgufHeader, family: Family) -> str | None:
    """Of a head, that positions turn."""
    if family.rotated == "none" or not _attending(header):
        return None
    for is_windowed in (False, True):
        size = head_size(header, is_windowed)
        turning = rotated_dimensions(header, family, is_windowed)
        if turning > size or turning % 2:
            return f"positions turn {turning} of a head's {size} dimensions"
    return None


def _wrong_turns(header: GgufHeader, family: Family) -> str | None:
    """Dimensions that positions turn, where a file says 0, which is another thing than nothing: llama.cpp then ends the
    process, or computes for ever (build 11549).
    """
    key = "rope.dimension_count"
    if family.has_plain_turns:
        return None  # what is told has no effect
    for name in (key, *({f"{key}_swa"} & {*family.settings})):
        told = f"{header.architecture}.{name}"
        if header.metadata.get(told) == 0 and pairs_of(header, family):
            return f"{told} is 0: no dimension would turn"
    return None


def _wrong_values(header: GgufHeader, family: Family) -> str | None:
    """Layers without a matrix for values take keys as values, so that these must be as wide."""
    if not family.norms_values:
        return None
    names = {tensor.name for tensor in header.tensors}
    for i, is_windowed in enumerate(header.listed("attention.sliding_window_pattern")):
        has_one = f"blk.{i}.attn_v.weight" in names or f"blk.{i}.attn_k.weight" not in names
        told = header.count(f"attention.value_length{'_swa' if is_windowed else ''}")
        size = head_size(header, bool(is_windowed))
        if not has_one and told not in (0, size):
            return f"layer {i} takes its keys, {size} wide, as values, {told} wide"
    return None


def _wrong_gating(header: GgufHeader, family: Family) -> str | None:
    """How scores of experts become shares: llama.cpp has no usual way for some architectures."""
    told = header.count(GATING)
    is_none = GATING in family.needed and not told
    if is_none or (GATING in family.settings and told > _MOST_GATING):
        return f"{GATING} is {told}"
    return None


def _wrong_sharing(header: GgufHeader, family: Family) -> str | None:
    """Layers without keys take those of the last two before them: with a window, and without."""
    key = "attention.shared_kv_layers"
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


def _wrong_latent(header: GgufHeader, family: Family) -> str | None:
    """A file counts one key head, or as many as queries have if the matrices of keys and values are one."""
    latent = latent_of(header, family)
    if latent is None:
        return None
    for heads, key_heads in zip(*heads_of(header), strict=False):
        if not key_heads and family.mixer in WITHOUT_KEYS:
            continue  # a layer without attention
        if key_heads != (heads if latent.is_joined else 1):
            return f"{heads} heads share {key_heads} keys, which are made from one row a token"
    return wrong_latent(header, latent, tells_values=family.mixer == "attention")


def _wrong_latent_scale(header: GgufHeader, family: Family) -> str | None:
    latent = latent_of(header, family)
    if latent is None:
        return None
    scale = latent_scale(header, latent.query, SCALED in family.settings)
    return f"scores are multiplied by {scale:g}" if scale > _MOST_SCALE else None


def _wrong_temperature(header: GgufHeader, family: Family) -> str | None:
    keys = [f"attention.temperature_{end}" for end in ("scale", "length")]
    if keys[1] not in family.settings or header.count(keys[1]):
        return None
    scale = header.metadata.get(f"{header.architecture}.{keys[0]}", 0)
    return "temperatures have no length" if scale else None


def _wrong_sections(header: GgufHeader, family: Family) -> str | None:
    """Of four, the first three are those that texts have too."""
    key = f"{header.architecture}.rope.dimension_sections"
    sizes, is_one = header.listed("rope.dimension_sections"), key in header.metadata
    has_sections = family.sections in ("side by side", "interleaved")
    return (
        "no pair of dimensions turns" if has_sections and not (is_one or any(sizes[:3])) else None
    )


_HEADS = ("attention.head_count", "attention.head_count_kv")
_SIZES = ("embedding_length", "attention.head_count", "attention.key_length")
_LATENT = (
    "attention.kv_lora_rank",
    "attention.key_length",
    "attention.key_length_mla",
    "attention.value_length",
    "attention.value_length_mla",
    "rope.dimension_count",
)
_OF_ALL = (
    Check(_wrong_layers, ()),
    Check(_wrong_experts, ("expert_count", "expert_used_count")),
    Check(_wrong_groups, ("expert_count", "expert_group_count", "expert_group_used_count")),
    Check(_wrong_scaling, (SCALING_TYPE,)),
)
_OF_FAMILIES = (
    Check(_wrong_turns, ()),
    Check(_wrong_shares, _HEADS),
    Check(_wrong_value_size, (*_SIZES, "attention.value_length")),
    Check(
        _wrong_part,
        (*_SIZES, "rope.dimension_count", "attention.key_length_swa", "rope.dimension_count_swa"),
    ),
    Check(
        _wrong_values,
        (
            *_SIZES,
            "attention.key_length_swa",
            "attention.value_length",
            "attention.value_length_swa",
        ),
    ),
    Check(_wrong_gating, ()),
    Check(_wrong_next_layers, ("block_count", "nextn_predict_layers")),
    Check(_wrong_sharing, ("attention.shared_kv_layers", WINDOWED, "attention.head_count_kv")),
    Check(_wrong_latent, ("embedding_length", *_HEADS, *_LATENT)),
    Check(_wrong_latent_scale, ("rope.scaling.factor", "rope.scaling.attn_factor", SCALED)),
    Check(_wrong_temperature, ("attention.temperature_scale", "attention.temperature_length")),
    Check(_wrong_sections, ("rope.dimension_sections",)),
    Check(wrong_passes, ("block_count", LOOPS, STACK, HIGH_CYCLES, LOW_CYCLES)),
    Check(wrong_gates, (*_SIZES, "attention.key_length_swa")),
    Check(wrong_recurrence, STATES),
    Check(wrong_rwkv, ("embedding_length", "wkv.head_size", "token_shift_count", *_HEADS)),
    Check(_wrong_mixers, ("block_count", *_HEADS, "feed_forward_length", INTERVAL)),
    Check(
        wrong_projection,
        (
            *_SIZES,
            "attention.head_count_kv",
            "attention.key_length_swa",
            "attention.value_length",
            "attention.value_length_swa",
            WINDOWED,
        ),
    ),
    Check(lambda header, _: wrong_type(header), ()),
)
