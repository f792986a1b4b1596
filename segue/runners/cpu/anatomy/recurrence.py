"""Layers that carry a state from token to token, instead of keys and values: which they are, and their dimensions; and
the tensors of RWKV's.
"""

from dataclasses import dataclass
from typing import NamedTuple

from segue.models.gguf import GgufHeader
from segue.runners.cpu.anatomy.family import Family, Mixer
from segue.runners.cpu.step.board import MOST_PENDING
from segue.runners.cpu.step.recurrent.scratch import SELECTIVE_SIZE

Shapes = dict[str, tuple[int, ...]]  # GGML's order of dimensions: columns first

INTERVAL = "full_attention_interval"
KDA_SIZE = "kda.head_dim"
NORMED = "ssm.dt_b_c_rms"
WITHOUT_KEYS = (
    "conv",
    "mamba",
    "mamba1",
    "kda",
)  # mixers of layers that a file gives no heads of keys
_USUAL_INTERVAL = 4  # every fourth layer attends, if the file does not say
_FACTOR = 16  # floats that a head's change has for the factor by which the state fades

# Of RWKV: rows of the past that a layer keeps, of its time mix and of its channel mix.
SHIFTS = "token_shift_count"
_USUAL_SHIFTS = 2  # if the file does not say


class Ranks(NamedTuple):
    """Of RWKV 7: what pairs of matrices have between them; 0: there is no such pair."""

    decay: int = 0
    rate: int = 0  # of what a row corrects in the state
    values: int = 0  # of the share that values have of those of the first layer
    gate: int = 0


_NO_RANKS = Ranks()


@dataclass(frozen=True)
class Recurrence:
    """The dimensions of a layer that mixes tokens by a state. A slot holds the state before its last tokens, and with
    it what each of them will change: so a slot can give these tokens back.
    """

    mixer: Mixer
    taps: int  # inputs that the convolution sees, the newest one included
    channels: int  # of the convolution
    heads: int  # each has a state of its own
    key_heads: int
    size: int  # of a head
    states: int  # of a head's columns
    change_floats: int  # of what a token changes in a head's state
    outputs: int  # floats per row that the products before it give
    taken: int  # floats per row that the product after it takes
    rank: int = 0  # Mamba 1: numbers that the times of all columns are made of
    is_normed: bool = False  # Mamba 1: these, and what states take and give, are normed
    ranks: Ranks = _NO_RANKS

    @property
    def convolution_floats(self) -> int:
        """Of a slot: the inputs before the one that a token brings, and those of tokens that can be given back."""
        return (self.taps - 1 + MOST_PENDING) * self.channels

    @property
    def head_floats(self) -> int:
        """Of a head: its state, and changes."""
        return self.size * self.states + MOST_PENDING * self.change_floats

    @property
    def floats(self) -> int:
        """Of a slot's state: those of the convolution, then those of the heads."""
        return self.convolution_floats + self.heads * self.head_floats


def recurrence_of(header: GgufHeader, family: Family, layer: int = 0) -> Recurrence:
    """What a layer of such a family has. The measures are sound (settings.py)."""
    if family.mixer == "wkv7":
        return _wkv7(header, layer)
    return _MADE[family.mixer](header)


def wrong_recurrence(header: GgufHeader, family: Family) -> str | None:
    """Why no runner can compute what the file says of layers without attention, or None."""
    if family.mixer == "conv":
        taps = header.count("shortconv.l_cache")
        return f"its convolutions see {taps} tokens" if taps < 2 else None
    if family.mixer == "mamba":
        return _wrong_mamba(header)
    if family.mixer == "mamba1":
        return _wrong_mamba1(header)
    if family.mixer == "kda":
        return _wrong_kda(header)
    if family.mixer == "wkv7":
        return _wrong_wkv(header, family)
    return _wrong_delta(header) if family.mixer == "delta" else None


def _wrong_mamba(header: GgufHeader) -> str | None:
    inner, heads = header.count("ssm.inner_size"), header.count("ssm.time_step_rank")
    groups, states = header.count("ssm.group_count"), header.count("ssm.state_size")
    if not min(inner, heads, groups, states):
        return f"{heads} heads in {groups} groups are {inner} wide and have {states} states"
    if inner % heads or heads % groups:
        return (
            f"{inner} columns, {heads} heads and {groups} groups do not go evenly into each other"
        )
    if (taps := header.count("ssm.conv_kernel")) < 2:
        return f"its convolutions see {taps} tokens"
    width = header.count("embedding_length")
    if header.architecture == "granitehybrid" and inner != 2 * width:
        return f"states are {inner} wide, not twice {width}"
    return None


def _wrong_mamba1(header: GgufHeader) -> str | None:
    inner, width = header.count("ssm.inner_size"), header.count("embedding_length")
    rank, states = header.count("ssm.time_step_rank"), header.count("ssm.state_size")
    if not min(inner, rank, states):
        return f"{inner} columns have {states} states and times of rank {rank}"
    if inner != 2 * width:
        return f"states are {inner} wide, not twice {width}"
    if (taps := header.count("ssm.conv_kernel")) < 2:
        return f"its convolutions see {taps} tokens"
    normed = header.metadata.get(f"{header.architecture}.{NORMED}", False)
    return None if type(normed) is bool else f"{NORMED} is {normed!r:.40}"


def _wrong_kda(header: GgufHeader) -> str | None:
    key, size = "attention.head_count", header.count(KDA_SIZE)
    heads = next(iter(header.listed(key)), header.count(key))
    if not heads or not size:
        return f"{heads} heads of states are {size} wide"
    if (taps := header.count("ssm.conv_kernel")) < 2:
        return f"its convolutions see {taps} tokens"
    names = {tensor.name for tensor in header.tensors}
    for name in sorted(names):
        if name.endswith(".attn_q_a_norm.weight"):
            return "queries have a rank of their own"
        if name.endswith(".attn_kv_b.weight") and header.count("attention.key_length_mla"):
            return "the matrices of keys and values are one tensor"
        shared = [name.replace("gate_inp", f"{part}_shexp") for part in ("gate", "up", "down")]
        if name.endswith(".ffn_gate_inp.weight") and not {*shared} <= names:
            return f"beside {name} there is no shared expert"
    return None


def _wrong_delta(header: GgufHeader) -> str | None:
    if header.metadata.get(f"{header.architecture}.{INTERVAL}") == 0:
        return f"{header.architecture}.{INTERVAL} is 0"
    heads, key_heads = header.count("ssm.time_step_rank"), header.count("ssm.group_count")
    size, whole = header.count("ssm.state_size"), header.count("ssm.inner_size")
    if not key_heads or not heads or heads % key_heads:
        return f"{heads} heads of values do not share {key_heads} keys evenly"
    if size * heads != whole:
        return f"{heads} heads of {size} are not {whole} wide"
    return None


def _wrong_wkv(header: GgufHeader, family: Family) -> str | None:
    """llama.cpp ends the process where the rows that are kept are not as many as the layers have mixes for."""
    size, width = header.count("wkv.head_size"), header.count("embedding_length")
    if not size or width % size:
        return f"heads of {size} do not go evenly into {width} columns"
    shifts, mixes = header.count(SHIFTS) or _USUAL_SHIFTS, 1 + family.is_feed_forward_shifted
    if shifts != mixes:
        return f"layers keep {shifts} rows of the past, and mix {mixes}"
    names = {tensor.name for tensor in header.tensors}
    for tensor in header.tensors:
        start, lerps, _ = tensor.name.partition("lerp_fused")
        needed = 6 if {f"{start}g1.weight", f"{start}g2.weight"} <= names else 5
        if lerps and tensor.shape[3:] not in ((), (needed,)):
            return f"{tensor.name} has {tensor.shape[3]} mixtures of rows, not {needed}"
    return None


def interval(header: GgufHeader) -> int:
    """Every so-many-th layer has attention."""
    return header.count(INTERVAL) or _USUAL_INTERVAL


def _delta(header: GgufHeader) -> Recurrence:
    """A gated delta net: a head's state is a matrix of `size` keys by `size` values."""
    size, heads = header.count("ssm.state_size"), header.count("ssm.time_step_rank")
    key_heads = header.count("ssm.group_count")
    channels = (2 * key_heads + heads) * size
    return Recurrence(
        mixer="delta",
        taps=header.count("ssm.conv_kernel"),
        channels=channels,
        heads=heads,
        key_heads=key_heads,
        size=size,
        states=size,
        change_floats=2 * size + _FACTOR,
        outputs=channels + heads * size + 2 * heads,
        taken=heads * size,
    )


def _kda(header: GgufHeader) -> Recurrence:
    """Kimi's delta net: a key fades at a speed of its own, so a change has that of all keys."""
    size, heads = header.count(KDA_SIZE), header.count("attention.head_count")
    whole = heads * size
    return Recurrence(
        mixer="kda",
        taps=header.count("ssm.conv_kernel"),
        channels=3 * whole,
        heads=heads,
        key_heads=heads,
        size=size,
        states=size,
        change_floats=3 * size + _FACTOR,
        outputs=5 * whole + 2 * size + heads,
        taken=whole,
    )


def _mamba(header: GgufHeader) -> Recurrence:
    """Mamba 2: each column of a head has `states` numbers. Heads of a group share what these are multiplied by."""
    inner, heads = header.count("ssm.inner_size"), header.count("ssm.time_step_rank")
    groups, states = header.count("ssm.group_count"), header.count("ssm.state_size")
    size, channels = inner // heads, inner + 2 * groups * states
    return Recurrence(
        mixer="mamba",
        taps=header.count("ssm.conv_kernel"),
        channels=channels,
        heads=heads,
        key_heads=groups,
        size=size,
        states=states,
        change_floats=size + states + _FACTOR,
        outputs=inner + channels + heads,
        taken=inner,
    )


def _mamba1(header: GgufHeader) -> Recurrence:
    """Mamba 1: each column has `states` numbers and times of its own. A head is what is worked on together."""
    inner, rank = header.count("ssm.inner_size"), header.count("ssm.time_step_rank")
    states, size = header.count("ssm.state_size"), SELECTIVE_SIZE
    return Recurrence(
        mixer="mamba1",
        taps=header.count("ssm.conv_kernel"),
        channels=inner,
        heads=inner // size,
        key_heads=1,
        size=size,
        states=states,
        change_floats=2 * size + states,
        outputs=3 * inner + rank + 2 * states,
        taken=inner,
        rank=rank,
        is_normed=bool(header.metadata.get(f"{header.architecture}.{NORMED}", False)),
    )


def _convolution(header: GgufHeader) -> Recurrence:
    """A short convolution, whose inputs and outputs are gated."""
    width = header.count("embedding_length")
    return Recurrence(
        mixer="conv",
        taps=header.count("shortconv.l_cache"),
        channels=width,
        heads=0,
        key_heads=0,
        size=0,
        states=0,
        change_floats=0,
        outputs=3 * width,
        taken=width,
    )


def _wkv7(header: GgufHeader, layer: int) -> Recurrence:
    """RWKV 7: a head's state is a matrix of `size` keys by `size` values. What a token changes in it: how each key
    fades, two pairs of keys and values. The rows before it that it is mixed with are kept as inputs of a convolution.
    """
    size, width = header.count("wkv.head_size"), header.count("embedding_length")
    names = ("decay", "iclr", "value_residual_mix", "gate")
    ranks = Ranks(*(header.count(f"attention.{name}_lora_rank") for name in names))
    if layer == 0:
        ranks = ranks._replace(values=0)  # there is no layer before it
    mixed = sum(rank > 0 for rank in ranks)
    return Recurrence(
        mixer="wkv7",
        taps=2,
        channels=width * (header.count(SHIFTS) or _USUAL_SHIFTS),
        heads=width // size,
        key_heads=width // size,
        size=size,
        states=size,
        change_floats=5 * size,
        outputs=(3 + mixed) * width + sum(ranks),
        taken=width,
        ranks=ranks,
    )


_MADE = {
    "delta": _delta,
    "kda": _kda,
    "mamba": _mamba,
    "mamba1": _mamba1,
    "conv": _convolution,
}

# --- the tensors of RWKV's layers ---

# What is read as floats, by the ends of names.
RWKV_VECTORS = (
    "_lerp_fused.weight",
    "_lerp_k.weight",
    "_mix_a0.weight",
    "_mix_k_a.weight",
    "_mix_k_k.weight",
    "_mix_ln.weight",
    "_mix_r_k.weight",
    "_mix_v0.weight",
    "_mix_w0.weight",
)
PAIRS = "wavg"  # of matrices, in the order of Ranks
UNUSED = tuple(f"blk.0.time_mix_v{i}." for i in range(3))  # files have them, with any values


def pairs(layer: Recurrence) -> dict[str, int]:
    """The pairs of matrices that a layer has, and their ranks."""
    return {name: rank for name, rank in zip(PAIRS, layer.ranks, strict=True) if rank}


def wkv7_shapes(layer: Recurrence) -> Shapes:
    """What a time mix must have."""
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


def norm_shapes(layer: Recurrence) -> Shapes:
    """Of the norm of what a time mix gives, head by head."""
    return {f"time_mix_ln.{end}": (layer.taken,) for end in ("weight", "bias")}


def channel_mix_shapes(width: int, hidden: int) -> Shapes:
    return {
        "channel_mix_lerp_k.weight": (width,),
        "channel_mix_key.weight": (width, hidden),
        "channel_mix_value.weight": (hidden, width),
    }
