"""RWKV: the tensors of its layers, and which files make no sense."""

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.family import Family
from segue.runners.cpu.architectures.states.recurrence import (
    MIXTURES,
    RWKV,
    Recurrence,
    rwkv_key_heads,
    shifts_of,
)

Shapes = dict[str, tuple[int, ...]]  # GGML's order of dimensions: columns first

# What is read as floats, by the ends of names.
RWKV_VECTORS = (
    "_lerp_fused.weight",
    "_lerp_g.weight",
    "_lerp_k.weight",
    "_lerp_r.weight",
    "_lerp_v.weight",
    "_lerp_w.weight",
    "_lerp_x.weight",
    "_mix_a0.weight",
    "_mix_decay.weight",
    "_mix_first.weight",
    "_mix_k_a.weight",
    "_mix_k_k.weight",
    "_mix_ln.weight",
    "_mix_r_k.weight",
    "_mix_v0.weight",
    "_mix_w0.weight",
)
PAIRS = "wavg"  # of matrices, in the order of Ranks
MIXED = "wkvrg"  # what RWKV 6 mixes rows for, in a file's order
UNUSED = tuple(f"blk.0.time_mix_v{i}." for i in range(3))  # files have them, with any values


# --- which files make no sense ---


def wrong_rwkv(header: GgufHeader, family: Family) -> str | None:
    """Why no runner can compute what the file says, or None: llama.cpp ends the process."""
    if family.mixer not in RWKV:
        return None
    size, width = header.count("wkv.head_size"), header.count("embedding_length")
    if not size or width % size:
        return f"heads of {size} do not go evenly into {width} columns"
    # Rows that are kept are as many as the layers have mixes for.
    shifts, mixes = shifts_of(header), 1 + family.is_feed_forward_shifted
    if shifts != mixes:
        return f"layers keep {shifts} rows of the past, and mix {mixes}"
    return _wrong_wkv6(header, family) if family.mixer == "wkv6" else _wrong_lerps(header)


def _wrong_lerps(header: GgufHeader) -> str | None:
    names = {tensor.name for tensor in header.tensors}
    for tensor in header.tensors:
        start, lerps, _ = tensor.name.partition("lerp_fused")
        needed = 6 if {f"{start}g1.weight", f"{start}g2.weight"} <= names else 5
        if lerps and tensor.shape[3:] not in ((), (needed,)):
            return f"{tensor.name} has {tensor.shape[3]} mixtures of rows, not {needed}"
    return None


def _wrong_wkv6(header: GgufHeader, family: Family) -> str | None:
    heads = header.count("embedding_length") // header.count("wkv.head_size")
    is_shared = not family.is_feed_forward_shifted
    shared = {*rwkv_key_heads(header)}
    for count in sorted(shared):
        is_even = is_shared and count > 0 and not heads % count and len(shared) == 1
        if count not in (0, heads) and not is_even:
            return f"{heads} heads do not share {count} keys evenly"
    names = {tensor.name for tensor in header.tensors}
    for layer in range(header.count("block_count")):
        start = f"blk.{layer}.time_mix_"
        if is_shared and f"{start}first.weight" in names:
            return f"beside {start}first.weight there is no norm of heads"
        own = [f"{start}lerp_{which}.weight" for which in MIXED]
        if not is_shared and f"{start}lerp_fused.weight" not in names and not {*own} <= names:
            return f"the file has neither {start}lerp_fused.weight nor all five that it is made of"
    return None


# --- tensors ---


def pairs(layer: Recurrence) -> dict[str, int]:
    """The pairs of matrices that a layer of RWKV 7 has, and their ranks."""
    return {name: rank for name, rank in zip(PAIRS, layer.ranks, strict=True) if rank}


def time_mix_shapes(layer: Recurrence, is_adapted: bool) -> Shapes:
    """What a time mix must have. `is_adapted`: it was made from attention."""
    if layer.mixer == "wkv6":
        return _wkv6_shapes(layer, is_adapted)
    # Those that were made from models with RMS norms may lack it.
    return _wkv7_shapes(layer) | ({} if is_adapted else _norm_shapes(layer))


def time_mix_extras(layer: Recurrence, is_adapted: bool) -> Shapes:
    """What it may have."""
    if layer.mixer == "wkv7":
        return _norm_shapes(layer)
    kept = layer.key_heads * layer.size
    sizes = {"receptance": layer.taken, "key": kept, "value": kept} if is_adapted else {}
    return {f"time_mix_{name}.bias": (size,) for name, size in sizes.items()}


def _wkv7_shapes(layer: Recurrence) -> Shapes:
    width, found = layer.taken, pairs(layer)
    lerps = 6 if "g" in found else 5
    own: Shapes = {"time_mix_lerp_fused.weight": (width, 1, 1, lerps)}
    for name in ("receptance", "key", "value", "output"):
        own[f"time_mix_{name}.weight"] = (width, width)
    for name, rank in found.items():
        own[f"time_mix_{name}1.weight"] = (width, rank)
        own[f"time_mix_{name}2.weight"] = (rank, width)
    vectors = [*(f"{name}0" for name in found if name != "g"), "k_k", "k_a", "r_k"]
    return own | {f"time_mix_{name}.weight": (width,) for name in vectors}


def _wkv6_shapes(layer: Recurrence, is_adapted: bool) -> Shapes:
    width, kept, rank, decay = (
        layer.taken,
        layer.key_heads * layer.size,
        layer.rank,
        layer.ranks.decay,
    )
    own: Shapes = {"lerp_x": (width,), "decay": (width,)}
    if layer.is_fused or is_adapted:
        own["lerp_fused"] = (width, 1, 1, MIXTURES)
    else:  # as older files have them
        own |= {f"lerp_{which}": (width,) for which in MIXED}
    own |= {"w1": (width, MIXTURES * rank), "w2": (rank, width, MIXTURES)}
    own |= {"decay_w1": (width, decay), "decay_w2": (decay, width)}
    own |= dict.fromkeys(("receptance", "gate", "output"), (width, width))
    own |= dict.fromkeys(("key", "value"), (width, kept))
    if not is_adapted:
        own["first"] = (layer.size, layer.heads)
    made: Shapes = {f"time_mix_{name}.weight": shape for name, shape in own.items()}
    return made | ({} if is_adapted else _norm_shapes(layer))


def _norm_shapes(layer: Recurrence) -> Shapes:
    """Of the norm of what a time mix gives, head by head."""
    return {f"time_mix_ln.{end}": (layer.taken,) for end in ("weight", "bias")}


def channel_mix_shapes(width: int, hidden: int, is_output_gated: bool) -> Shapes:
    own: Shapes = {
        "channel_mix_lerp_k.weight": (width,),
        "channel_mix_key.weight": (width, hidden),
        "channel_mix_value.weight": (hidden, width),
    }
    if is_output_gated:
        own["channel_mix_lerp_r.weight"] = (width,)
        own["channel_mix_receptance.weight"] = (width, width)
    return own
