"""Layers that carry a state from token to token, instead of keys and values: which they are, and their dimensions."""

from dataclasses import dataclass
from typing import NamedTuple

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.family import Family, Mixer
from segue.runners.cpu.architectures.scaling import real
from segue.runners.cpu.step.board import MOST_PENDING
from segue.runners.cpu.step.recurrent.scratch import SELECTIVE_SIZE

INTERVAL = "full_attention_interval"
KDA_SIZE, KDA_LEAST, KDA_SAFE = "kda.head_dim", "kda.gate_lower_bound", "kda.safe_gate"
NORMED = "ssm.dt_b_c_rms"
WITHOUT_KEYS = (
    "conv",
    "mamba",
    "mamba1",
    "plamo",
    "kda",
)  # mixers of layers that a file gives no heads of keys
# All that say what such layers are like, but RWKV's.
STATES = (
    "embedding_length",
    "attention.head_count",
    INTERVAL,
    "shortconv.l_cache",
    "ssm.conv_kernel",
    "ssm.group_count",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
    KDA_SIZE,
    KDA_LEAST,
    KDA_SAFE,
)
_USUAL_INTERVAL = 4  # every fourth layer attends, if the file does not say
_FACTOR = 16  # floats that a head's change has for the factor by which the state fades

RWKV = ("wkv6", "wkv7")  # mixers of all layers of a model
# Rows of the past that a layer of RWKV keeps, of its time mix and of its channel mix.
SHIFTS = "token_shift_count"
_USUAL_SHIFTS = 2  # if the file does not say
# Mixtures of rows with those before them: what RWKV 6 takes for decays, keys, values, reads and gates.
MIXTURES = 5


class Ranks(NamedTuple):
    """Of RWKV: what pairs of matrices have between them; 0: there is no such pair."""

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
    # Numbers that all times are made of (Mamba 1, PLaMo), or each mixture of rows (RWKV 6).
    rank: int = 0
    is_normed: bool = False  # Mamba 1: these, and what states take and give, are normed
    ranks: Ranks = _NO_RANKS
    is_fused: bool = False  # RWKV: shares of mixtures of rows are one tensor
    # KDA: the least exponent of e by which a key fades, of which it takes a sigmoid's share; fading and gates are then
    # made by one matrix each. 0: there is none, and they are made by two.
    least: float = 0.0

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
    if family.mixer in RWKV:
        return (_wkv6 if family.mixer == "wkv6" else _wkv7)(header, layer)
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
    if family.mixer == "plamo":
        return _wrong_plamo(header)
    if family.mixer == "kda":
        return _wrong_kda(header)
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
    return None


def _wrong_plamo(header: GgufHeader) -> str | None:
    inner, heads = header.count("ssm.inner_size"), header.count("ssm.time_step_rank")
    states, groups = header.count("ssm.state_size"), header.count("ssm.group_count")
    if not min(inner, heads, states) or inner % heads or groups:
        return f"{heads} heads in {groups} groups are {inner} wide and have {states} states"
    taps = header.count("ssm.conv_kernel")
    return f"its convolutions see {taps} tokens" if taps < 2 else None


def _wrong_kda(header: GgufHeader) -> str | None:
    key, size = "attention.head_count", header.count(KDA_SIZE)
    heads = next(iter(header.listed(key)), header.count(key))
    if not heads or not size:
        return f"{heads} heads of states are {size} wide"
    if (taps := header.count("ssm.conv_kernel")) < 2:
        return f"its convolutions see {taps} tokens"
    told, safe = (
        header.metadata.get(f"{header.architecture}.{key}") for key in (KDA_LEAST, KDA_SAFE)
    )
    if (isinstance(told, int | float) and told >= 0) or safe is False:
        return "keys do not fade within a bound"
    names = {tensor.name for tensor in header.tensors}
    for name in sorted(names):
        if name.endswith(".attn_q_a_norm.weight") and told is None:
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


def interval(header: GgufHeader) -> int:
    """Every so-many-th layer has attention."""
    return header.count(INTERVAL) or _USUAL_INTERVAL


def shifts_of(header: GgufHeader) -> int:
    """Of RWKV: how many rows of the past a layer keeps. 0 is not as good as unsaid: llama.cpp keeps none then."""
    is_told = f"{header.architecture}.{SHIFTS}" in header.metadata
    return header.count(SHIFTS) if is_told else _USUAL_SHIFTS


def rwkv_key_heads(header: GgufHeader) -> tuple[int, ...]:
    """Of each layer, or one for all; 0: as many as there are heads. Where a file does not say, they are as many as it
    counts heads of queries, which there are none of.
    """
    key = "attention.head_count_kv"
    if f"{header.architecture}.{key}" not in {*header.metadata, *header.array_lengths}:
        key = "attention.head_count"
    listed = tuple(count for count in header.listed(key) if type(count) is int)
    return listed or (header.count(key),)


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
    whole, least = heads * size, real(header, KDA_LEAST)
    return Recurrence(
        mixer="kda",
        taps=header.count("ssm.conv_kernel"),
        channels=3 * whole,
        heads=heads,
        key_heads=heads,
        size=size,
        states=size,
        change_floats=3 * size + _FACTOR,
        outputs=5 * whole + (0 if least else 2 * size) + heads,
        taken=whole,
        least=least,
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


def _plamo(header: GgufHeader) -> Recurrence:
    """PLaMo 2: heads as in Mamba 2, which all share what states take and give; times are made as in Mamba 1."""
    inner, heads = header.count("ssm.inner_size"), header.count("ssm.time_step_rank")
    states, rank = header.count("ssm.state_size"), max(64, header.count("embedding_length") // 16)
    return Recurrence(
        mixer="plamo",
        taps=header.count("ssm.conv_kernel"),
        channels=inner,
        heads=heads,
        key_heads=1,
        size=inner // heads,
        states=states,
        change_floats=inner // heads + states + _FACTOR,
        outputs=4 * inner + 2 * states + rank + heads,
        taken=inner,
        rank=rank,
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
        channels=width * shifts_of(header),
        heads=width // size,
        key_heads=width // size,
        size=size,
        states=size,
        change_floats=5 * size,
        outputs=(3 + mixed) * width + sum(ranks),
        taken=width,
        ranks=ranks,
        is_fused=True,
    )


def _wkv6(header: GgufHeader, layer: int) -> Recurrence:
    """RWKV 6: as above, with one pair of a key and values. Heads may share keys and values."""
    size, width = header.count("wkv.head_size"), header.count("embedding_length")
    heads, rank = width // size, header.count("time_mix_extra_dim")
    decay, key_heads = header.count("time_decay_extra_dim"), rwkv_key_heads(header)[0] or heads
    fused = f"blk.{layer}.time_mix_lerp_fused.weight"
    return Recurrence(
        mixer="wkv6",
        taps=2,
        channels=width * shifts_of(header),
        heads=heads,
        key_heads=key_heads,
        size=size,
        states=size,
        change_floats=3 * size,
        outputs=MIXTURES * (rank + width) + 3 * width + 2 * key_heads * size + decay,
        taken=width,
        rank=rank,
        ranks=Ranks(decay),
        is_fused=any(tensor.name == fused for tensor in header.tensors),
    )


_MADE = {
    "delta": _delta,
    "kda": _kda,
    "mamba": _mamba,
    "mamba1": _mamba1,
    "plamo": _plamo,
    "conv": _convolution,
}
