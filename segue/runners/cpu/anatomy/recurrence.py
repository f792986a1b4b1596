"""Layers that carry a state from token to token, instead of keys and values: which they are, and their dimensions."""

from dataclasses import dataclass

from segue.models.gguf import GgufHeader
from segue.runners.cpu.anatomy.family import Family, Mixer

INTERVAL = "full_attention_interval"
_USUAL_INTERVAL = 4  # every fourth layer attends, if the file does not say
_PENDING = 16  # floats that a head has for the factor of its pending update


@dataclass(frozen=True)
class Recurrence:
    """The dimensions of a layer that mixes tokens by a state. A slot holds the state before its last token, and with it
    what that token will change: so a slot can give back its last token.
    """

    mixer: Mixer
    taps: int  # inputs that the convolution sees, the newest one included
    channels: int  # of the convolution
    heads: int  # each has a state of its own
    key_heads: int
    size: int  # of a head
    head_floats: int  # of a head's state
    outputs: int  # floats per row that the products before it give
    taken: int  # floats per row that the product after it takes

    @property
    def convolution_floats(self) -> int:
        """Of a slot: the last inputs, one more than is seen."""
        return self.taps * self.channels

    @property
    def floats(self) -> int:
        """Of a slot's state: those of the convolution, then those of the heads."""
        return self.convolution_floats + self.heads * self.head_floats


def recurrence_of(header: GgufHeader, family: Family, layer: int) -> Recurrence | None:
    """None: the layer has attention. The measures are sound (settings.py)."""
    if family.mixer == "attention" or (layer + 1) % interval(header) == 0:
        return None
    return _delta(header)


def wrong_recurrence(header: GgufHeader, family: Family) -> str | None:
    """Why no runner can compute what the file says of layers without attention, or None."""
    if family.mixer == "attention":
        return None
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
        head_floats=size * size + 2 * size + _PENDING,
        outputs=channels + heads * size + 2 * heads,
        taken=heads * size,
    )
