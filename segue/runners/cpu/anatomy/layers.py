"""A model's layers one by one: heads, widths, windows and rotations, which a file may give layer by layer."""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from segue.models.gguf import GgufHeader
from segue.runners.cpu.anatomy.family import Family
from segue.runners.cpu.anatomy.latent import Latent, latent_of, together
from segue.runners.cpu.anatomy.limits import LIMITS, limits_of
from segue.runners.cpu.anatomy.states.recurrence import RWKV, Recurrence, interval, recurrence_of
from segue.runners.cpu.anatomy.streams import LAUREL_RANK, first_without_keys

ROTATED = "attention.rope_pattern"  # which layers have RoPE
LOOPS, UNNORMED = "num_loops", "skip_loop_final_norm"
STACK, HIGH_CYCLES, LOW_CYCLES = (
    f"hrm.{key}" for key in ("layers_per_stack", "h_cycles", "l_cycles")
)
MOST_LAYERS = 512  # llama.cpp has no more
GATE = "attn_gate.weight"
BY_LAYER = ("attention.head_count", "attention.head_count_kv", "feed_forward_length")


Ended = Literal["", "loop", "low", "high"]


@dataclass(frozen=True)
class Layer:
    """The dimensions of one layer."""

    heads: int
    key_heads: int
    head_size: int
    hidden: int  # columns of the feed-forward
    window: int  # how many tokens it sees; 0: all; below 0: those of a chunk of that size
    pairs: int  # pairs of dimensions that RoPE rotates; 0: none
    keys_of: int  # the layer before it that has its keys and values; -1: itself
    has_values: bool  # whether values have a matrix; else keys are values too
    gate: int  # floats per row that gate attention's output; 0: none
    is_gate_joined: bool  # each head's gate follows its query, from one matrix
    attends: bool  # whether it has attention
    recurrence: Recurrence | None  # what it has instead of attention, or beside it
    latent: Latent | None  # what its keys and values are made of, which are one head then
    is_linear: bool = False  # it has one matrix instead of attention
    limit: float = 0.0  # of the feed-forward, and of a shared expert: see family.py; 0: none
    expert_limit: float = 0.0  # the same of other experts
    laurel: int = 0  # floats per row of a small product beside attention; 0: none
    value_size: int = 0  # numbers of a head's value, if it has fewer than a key; 0: as many
    weights_of: int = -1  # the number of the layer whose tensors it has
    ended: Ended = ""  # the pass over layers that ends before it, if one does

    @property
    def has_keys(self) -> bool:
        return self.keys_of < 0 and self.attends

    @property
    def mixes(self) -> bool:
        """Whether it has anything before a feed-forward."""
        return self.attends or self.is_linear or self.recurrence is not None

    @property
    def shared(self) -> int:
        """Query heads that are worked on together: those of a key head, or some of them if there is one for all."""
        if self.latent is not None:
            return together(self.heads)
        return self.heads // self.key_heads if self.key_heads else 0

    @property
    def queries(self) -> int:
        """Floats per row in all query heads together."""
        return self.heads * self.head_size

    @property
    def keys(self) -> int:
        return self.key_heads * self.head_size

    @property
    def mixed(self) -> int:
        """Numbers that attention gives for each query head."""
        return self.value_size or self.head_size

    @property
    def values(self) -> int:
        return self.key_heads * self.mixed

    @property
    def asked(self) -> int:
        """Floats per row in queries, and in gates that are joined with them."""
        return self.queries + (self.gate if self.is_gate_joined else 0)

    @property
    def projected(self) -> int:
        """Floats per row in those, and in keys and values of its own."""
        return self.asked + (self.keys + self.values if self.has_keys else 0)

    @property
    def outputs(self) -> int:
        """Floats per row in all that products give to attention."""
        if self.latent is not None:
            return self.latent.outputs(self.heads) + self.gate
        return self.projected + (0 if self.is_gate_joined else self.gate) + self.laurel

    @property
    def taken(self) -> int:
        """Floats per row that the product after attention takes."""
        return self.heads * (self.mixed if self.latent is None else self.latent.values)


def layers_of(header: GgufHeader, family: Family) -> tuple[Layer, ...]:
    """The layers that are computed, of a model whose measures are sound (settings.py)."""
    count = header.count("block_count") - header.count("nextn_predict_layers")
    windows = windows_of(header, family, count)
    rotated = _rotated(header, family, windows)
    heads, key_heads = heads_of(header)
    hidden = hidden_sizes(header, family)
    keys_of = _keys_of(windows, first_without_keys(header, family, count))
    expert_limits, limits = (limits_of(header, key) for key in LIMITS)
    names = {tensor.name for tensor in header.tensors}
    gates = _given_gates(header)
    attends, recurs = mixers(header, family, key_heads, hidden)
    latents = [latent_of(header, family) if has else None for has in attends]
    own = [
        Layer(
            heads=heads[i],
            key_heads=1 if latent else key_heads[i],
            head_size=latent.size if latent else head_size(header, windows[i] != 0),
            hidden=hidden[i],
            window=windows[i],
            pairs=pairs_of(header, family, windows[i] != 0) if rotated[i] else 0,
            keys_of=keys_of[i],
            has_values=family.has_streams
            or not family.norms_values
            or f"blk.{i}.attn_v.weight" in names,
            gate=_gate(family, heads[i], head_size(header, windows[i] != 0), gates.get(i, 0)),
            laurel=LAUREL_RANK if family.has_streams else 0,
            is_gate_joined=family.attention_gate == "joined",
            attends=attends[i],
            recurrence=recurrence_of(header, family, i) if recurs[i] else None,
            latent=latent,
            is_linear=family.layers_are == "as counted" and heads[i] > 0 and not attends[i],
            limit=limits[i],
            expert_limit=expert_limits[i],
            value_size=header.count("attention.value_length") if family.may_narrow_values else 0,
        )
        for i, latent in enumerate(latents[:count])
    ]
    return tuple(
        replace(own[i % count], weights_of=place.weights_of, ended=place.ended)
        for i, place in enumerate(places(header, family, count))
    )


def mixers(
    header: GgufHeader, family: Family, key_heads: tuple[int, ...], hidden: tuple[int, ...]
) -> tuple[list[bool], list[bool]]:
    """Of each layer: whether it has attention, and whether it has what the family's layers have instead."""
    layers = range(len(key_heads))
    if family.layers_are == "as counted":
        return [count > 0 for count in key_heads], [False] * len(layers)
    if family.mixer == "attention" or family.is_mixer_beside:
        return [True] * len(layers), [family.is_mixer_beside] * len(layers)
    if family.layers_are == "a mixer" or family.mixer in RWKV:
        return [False] * len(layers), [True] * len(layers)
    if family.mixer == "delta":
        attends = [(layer + 1) % interval(header) == 0 for layer in layers]
    else:
        attends = [key_heads[layer] > 0 for layer in layers]
    is_mixed = [family.layers_are == "whole" or not hidden[layer] for layer in layers]
    recurs = [is_mixed[layer] and not attends[layer] for layer in layers]
    return [is_mixed[layer] and attends[layer] for layer in layers], recurs


def counts(header: GgufHeader, key: str) -> tuple[int, ...]:
    """A count of each layer: as the file lists them, or one for all. Not positive where the file gives none."""
    listed = header.listed(key)
    if not listed:
        return (header.count(key),) * header.count("block_count")
    return tuple(value if type(value) is int else 0 for value in listed)


def heads_of(header: GgufHeader) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Heads of queries, and of keys, of each layer."""
    heads, key = counts(header, BY_LAYER[0]), BY_LAYER[1]
    return heads, counts(header, key) if header.listed(key) or header.count(key) else heads


def hidden_sizes(header: GgufHeader, family: Family) -> tuple[int, ...]:
    """Columns of the feed-forward of each layer."""
    told = counts(header, BY_LAYER[2])
    if family.layers_are == "experts first":  # what is told is of experts
        return (header.count("embedding_length"),) * len(told)
    return tuple(count // 2 for count in told) if family.halves_hidden else told


def head_size(header: GgufHeader, is_windowed: bool = False) -> int:
    """Of a layer that sees all tokens, or one with a window."""
    heads = next(iter(counts(header, BY_LAYER[0])), 0)
    by_width = header.count("embedding_length") // max(1, heads)
    size = header.count("attention.key_length") or by_width
    return header.count("attention.key_length_swa") or size if is_windowed else size


def wrong_projection(header: GgufHeader, family: Family) -> str | None:
    """Which matrix of heads is not as wide as those heads together, or None.

    llama.cpp takes queries, of some models keys too, to be as wide as the residual: it loads such a file, and ends the
    process where it cuts them into heads.
    """
    if family.is_latent or family.mixer in RWKV or family.layers_are == "a mixer":
        return None  # whose matrices are others
    counted = heads_of(header)
    if not any(counted[0]):
        return "no layer has a head"
    is_listed = family.window is not None and family.window.is_listed
    if not counted[0][0] or (is_listed and not header.listed("attention.sliding_window_pattern")):
        return (
            None  # sizes are told by the heads of the first layer, and by which ones have a window
        )
    widths = {tensor.name: math.prod(tensor.shape[1:]) for tensor in header.tensors}
    windows = windows_of(header, family, header.count("block_count"))
    has_fused = family.mixer == "attention" or family.is_mixer_beside
    may_lack_keys = family.mixer != "attention" or family.layers_are == "as counted"
    for layer, (heads, key_heads, window) in enumerate(zip(*counted, windows, strict=False)):
        if heads <= 0 or key_heads < 0 or (may_lack_keys and not key_heads):
            continue
        size = head_size(header, window != 0)
        queries = heads * size * (2 if family.attention_gate == "joined" else 1)
        keys, values = key_heads * size, key_heads * _value_size(header, window != 0)
        wanted = {"q": queries, "k": keys, "v": values}
        if has_fused:
            wanted["qkv"] = queries + keys + values
        for part, width in wanted.items():
            found = widths.get(f"blk.{layer}.attn_{part}.weight", width)
            if found != width:
                shared = "" if part == "q" else f" with {key_heads} keys"
                given = f"{found} wide (blk.{layer}.attn_{part})"
                return f"{heads} heads of {size}{shared} are not {given}"
    return None


def _value_size(header: GgufHeader, is_windowed: bool) -> int:
    heads = next(iter(counts(header, BY_LAYER[0])), 0)
    size = header.count("attention.value_length")
    size = size or header.count("embedding_length") // max(1, heads)
    return header.count("attention.value_length_swa") or size if is_windowed else size


def pairs_of(header: GgufHeader, family: Family, is_windowed: bool = False) -> int:
    is_off = header.metadata.get(f"{header.architecture}.rope.scaling.finetuned") is False
    is_other = family.turned_depth != header.count("block_count")
    if "none" in (family.turns, family.rotated) or (family.rotated == "by setting" and is_off):
        return 0
    if family.rotated == "by depth" and is_other:
        return 0
    if family.has_plain_turns:
        return head_size(header) // 2
    return rotated_dimensions(header, family, is_windowed) // 2


def rotated_dimensions(header: GgufHeader, family: Family, is_windowed: bool = False) -> int:
    """How many dimensions of a head RoPE rotates."""
    count = header.count("rope.dimension_count") or head_size(header)
    if is_windowed:
        return header.count("rope.dimension_count_swa") or count
    return count // 2 if family.turns_half else count


def windows_of(header: GgufHeader, family: Family, layers: int) -> tuple[int, ...]:
    if family.window is None or family.window.layers not in (0, layers):
        return (0,) * layers
    key = "attention.sliding_window"
    size = _whole(header, key, family.window.size)
    if family.window.is_chunked:
        size = -family.window.size
    elif family.window.is_fixed:
        size = family.window.size if _whole(header, key, 0) > 0 else 0
    period = _whole(header, f"{key}_pattern", family.window.period)
    full = 0 if family.window.is_full_first else period - 1
    has = [period == 0 or layer % period != full for layer in range(layers)]
    if told := header.listed(f"{key}_pattern"):
        has = [bool(windowed) for windowed in told[:layers]]
    return tuple(size if windowed else 0 for windowed in has)


def _keys_of(windows: tuple[int, ...], first: int) -> list[int]:
    """-1 for layers with keys. From `first` on they have none: they take those of the two layers before it, of which
    one has a window and one sees all tokens.
    """
    of = [first - (2 if window else 1) for window in windows]
    return [-1] * first + of[first:]


def _whole(header: GgufHeader, key: str, default: int) -> int:
    value = header.metadata.get(f"{header.architecture}.{key}", default)
    return int(value) if isinstance(value, int | float) else default


def _gate(family: Family, heads: int, size: int, given: int) -> int:
    """Floats per row. `given`: as the tensor has it; 0: there is none."""
    if family.attention_gate == "none":
        return 0
    if family.attention_gate == "own or heads":
        return heads if given == heads else heads * size
    return heads if family.attention_gate == "heads" else heads * size


def _given_gates(header: GgufHeader) -> dict[int, int]:
    """Outputs of the matrices of gates, by layer."""
    gates = [tensor for tensor in header.tensors if tensor.name.endswith(f".{GATE}")]
    found = {tensor.name: (*tensor.shape, 1, 1)[1] for tensor in gates}  # a vector has one
    layers = range(header.count("block_count"))
    return {i: found[f"blk.{i}.{GATE}"] for i in layers if f"blk.{i}.{GATE}" in found}


def wrong_gates(header: GgufHeader, family: Family) -> str | None:
    """Gates that are neither of heads nor of their dimensions: llama.cpp would end the process."""
    if family.attention_gate != "own or heads":
        return None
    heads, size = heads_of(header)[0], head_size(header)
    for layer, outputs in _given_gates(header).items():
        if layer < len(heads) and outputs not in (heads[layer], heads[layer] * size):
            return f"layer {layer} has {outputs} gates for {heads[layer]} heads of {size}"
    return None


def _rotated(header: GgufHeader, family: Family, windows: tuple[int, ...]) -> tuple[bool, ...]:
    if family.rotated == "windowed or dense":
        dense = header.count("leading_dense_block_count")
        return tuple(size != 0 or layer < dense for layer, size in enumerate(windows))
    if family.rotated == "only windowed" or (family.rotated == "windowed" and any(windows)):
        return tuple(size != 0 for size in windows)
    if family.rotated == "as listed" and (told := header.listed(ROTATED)):
        return tuple(bool(each) for each in told[: len(windows)])
    still = {"three of four": 3, "last three of four": 0}.get(family.rotated, -1)
    # llama.cpp takes a model of four layers, with windows, to turn in all.
    is_every = family.rotated == "last three of four" and (not any(windows) or len(windows) == 4)
    return tuple(is_every or layer % 4 != still for layer in range(len(windows)))


# --- layers that are passed several times ---
# "loops": all layers, so many times. "stacks": a low stack so many times, then a high one, and all that so many times;
# the file counts the layers of all passes then.


class Place(NamedTuple):
    """Where a layer of a pass stands."""

    weights_of: int  # the layer whose tensors it has
    ended: Ended  # the pass that ends before it, if one does


def places(header: GgufHeader, family: Family, layers: int) -> list[Place]:
    """Of all layers that are computed, of a file whose `layers` are sound."""
    if family.passes == "loops":
        ended: Ended = "" if header.metadata.get(f"{header.architecture}.{UNNORMED}") else "loop"
        return [
            Place(layer, ended if loop and not layer else "")
            for loop in range(loops(header))
            for layer in range(layers)
        ]
    if family.passes == "none":
        return [Place(layer, "") for layer in range(layers)]
    stack, low = header.count(STACK), header.count(LOW_CYCLES)
    return [_in_stack(layer, stack, low) for layer in range(layers)]


def _in_stack(layer: int, stack: int, low: int) -> Place:
    cycle, place = divmod(layer, stack)
    is_high, was_high = cycle % (low + 1) == low, cycle % (low + 1) == 0
    ended: Ended = "" if place or not cycle else "high" if was_high else "low"
    return Place(place + stack * is_high, ended)


def loops(header: GgufHeader) -> int:
    return int(header.metadata.get(f"{header.architecture}.{LOOPS}", 1))


def wrong_passes(header: GgufHeader, family: Family) -> str | None:
    """Why passes make no sense: llama.cpp would end the process."""
    layers = header.count("block_count")
    if family.passes == "loops":
        if not 0 < layers * loops(header) <= MOST_LAYERS:
            return f"{layers} layers are passed {loops(header)} times"
    elif family.passes == "stacks":
        stack, high, low = (header.count(key) for key in (STACK, HIGH_CYCLES, LOW_CYCLES))
        if not min(stack, high, low) or stack * high * (low + 1) != layers:
            return (
                f"{high} times {low} low stacks and a high one of {stack} are not {layers} layers"
            )
    return None
