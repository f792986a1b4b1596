"""A model's layers one by one: heads, widths, windows and rotations, which a file may give layer by layer."""

from dataclasses import dataclass, replace

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.family import Family
from segue.runners.cpu.architectures.parts.latent import Latent, latent_of, together
from segue.runners.cpu.architectures.parts.limits import LIMITS, limits_of
from segue.runners.cpu.architectures.parts.passes import Ended, places
from segue.runners.cpu.architectures.parts.streams import LAUREL_RANK, first_without_keys
from segue.runners.cpu.architectures.states.recurrence import (
    RWKV,
    Recurrence,
    interval,
    recurrence_of,
)

ROTATED = "attention.rope_pattern"  # which layers have RoPE
GATE = "attn_gate.weight"
BY_LAYER = ("attention.head_count", "attention.head_count_kv", "feed_forward_length")


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


def layers_of(header: GgufHeader, family: Family, drafts: bool = False) -> tuple[Layer, ...]:
    """The layers that are computed, of a model whose measures are sound (settings.py). `drafts`: with the first one for
    further tokens, which comes last; it has attention, and positions turn in it.
    """
    count = header.count("block_count") - header.count("nextn_predict_layers") + drafts
    windows = windows_of(header, family, count)
    rotated = _rotated(header, family, windows)
    heads, key_heads = heads_of(header)
    hidden = hidden_sizes(header, family)
    keys_of = _keys_of(windows, first_without_keys(header, family, count))
    expert_limits, limits = (limits_of(header, key) for key in LIMITS)
    names = {tensor.name for tensor in header.tensors}
    gates = given_gates(header)
    attends, recurs = mixers(header, family, key_heads, hidden)
    if drafts:
        attends[count - 1], recurs[count - 1] = True, False
        rotated = (*rotated[:-1], True)
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


def rotated_dimensions(header: GgufHeader, family: Family, is_windowed: bool) -> int:
    """How many dimensions of a head RoPE rotates."""
    count = header.count("rope.dimension_count") or head_size(header)
    if is_windowed:
        return header.count("rope.dimension_count_swa") or count
    return count // 2 if family.turns_half else count


def has_told_sections(header: GgufHeader, family: Family) -> bool:
    """Whether positions turn by sections because the file says so."""
    sizes = header.listed("rope.dimension_sections")[:2]
    return family.sections == "side by side if told" and len(sizes) == 2 and 0 not in sizes


def windows_of(header: GgufHeader, family: Family, layers: int) -> tuple[int, ...]:
    whole = header.count("block_count") - header.count("nextn_predict_layers")
    if family.window is None or family.window.layers not in (0, whole):
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
        has += [False] * (layers - len(has))  # layers for drafts may be left out
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


def given_gates(header: GgufHeader) -> dict[int, int]:
    """Outputs of the matrices of gates, by layer."""
    gates = [tensor for tensor in header.tensors if tensor.name.endswith(f".{GATE}")]
    found = {tensor.name: (*tensor.shape, 1, 1)[1] for tensor in gates}  # a vector has one
    layers = range(header.count("block_count"))
    return {i: found[f"blk.{i}.{GATE}"] for i in layers if f"blk.{i}.{GATE}" in found}


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
