"""GGUF's quantisation types as data: where a block has its weights and scales, and how they are packed here.

A weight is an integer code times the scale of its group of 32 columns (or of each 16), sometimes plus a minimum.
Codes are packed as planes of 8, 4, 2 or 1 bits, so that they take no more memory than in the file. Four columns are one
step. In every type they are four adjacent bytes, read with one shift, or four adjacent bits (`is_spread`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

GROUP = 32  # columns that share one scale of the activations
STEP = 4  # columns of one dot product
SCALES = 4  # words per group of activations: see tile.py

IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
# The numbers of MXFP4, doubled and with 12 added: small unsigned integers.
MX4 = (12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0)

Bits = tuple[int, int]  # byte of the block, shift to the right


@dataclass(frozen=True)
class Small:
    """A scale or minimum of a few bits: a low part, and a high part above its 4 bits."""

    low: Bits
    mask: int
    high: Bits = (0, 0)
    high_mask: int = 0


@dataclass(frozen=True)
class Format:
    name: str
    block: int  # columns of one block
    block_bytes: int
    planes: tuple[int, ...]  # bits per plane, the low bits first
    low: tuple[Bits, ...]  # for each step of the block
    high: tuple[Bits, ...] = ()
    is_spread: bool = False  # a step's high bits are four adjacent bits
    zero: int = 0  # the code that means 0
    codebook: tuple[int, ...] = ()  # the number that each code stands for; (): the code itself
    scale_at: int = 0
    is_exponent: bool = False  # the scale is one byte, a power of two; else an f16
    min_at: int | None = None  # an f16: added as it is, or times -small minimum
    scales: tuple[Small, ...] = ()  # for each group, or each half of one
    scale_zero: int = 0
    mins: tuple[Small, ...] = ()
    are_nibbles: bool = False  # a small scale's byte has the minimum in its high half

    @property
    def groups(self) -> int:
        return self.block // GROUP

    @property
    def parts(self) -> int:
        """In how many parts a group is summed: each part has its own scale."""
        return max(1, len(self.scales) // self.groups)

    @property
    def is_signed(self) -> bool:
        """Whether codes (or their numbers in the codebook) are signed 8-bit numbers."""
        return min(self.codebook, default=0) < 0 or self.planes == (8,)

    @property
    def top(self) -> int:
        """The greatest magnitude of a code."""
        if self.codebook:
            return max(map(abs, self.codebook))
        return 128 if self.is_signed else (1 << sum(self.planes)) - 1

    # --- as packed: for each block its scales, then its groups ---

    @property
    def head_bytes(self) -> int:
        """For one output, of one block."""
        return (1 if self.is_exponent else 2) + (0 if self.min_at is None else 2)

    @property
    def plane_bytes(self) -> int:
        """For one output, of one group."""
        return sum(self.planes) * GROUP // 8

    @property
    def group_bytes(self) -> int:
        return self.plane_bytes + (len(self.scales) + len(self.mins)) // self.groups

    @property
    def kept_bytes(self) -> int:
        """For one output, of one block."""
        return self.head_bytes + self.groups * self.group_bytes


@dataclass(frozen=True)
class FloatFormat:
    name: str
    bytes: int
    exponent: int  # its bits: all are set if a number is infinite or none


def _run(start: int, steps: int, shift: int = 0) -> Iterable[Bits]:
    return [(start + STEP * step, shift) for step in range(steps)]


def _nibbles(start: int) -> tuple[Bits, ...]:
    """A group of 32 in 16 bytes: the first half low."""
    return (*_run(start, 4), *_run(start, 4, 4))


def _k_nibbles(start: int) -> tuple[Bits, ...]:
    """Pairs of groups in 32 bytes: the first one low."""
    return tuple(
        bits for pair in range(4) for shift in (0, 4) for bits in _run(start + 32 * pair, 8, shift)
    )


def _k_pairs(start: int) -> tuple[Bits, ...]:
    """Four groups in 32 bytes, two bits each."""
    return tuple(
        bits
        for half in range(2)
        for shift in (0, 2, 4, 6)
        for bits in _run(start + 32 * half, 8, shift)
    )


def _k_single(start: int) -> tuple[Bits, ...]:
    """Eight groups in 32 bytes, one bit each."""
    return tuple(bits for shift in range(8) for bits in _run(start, 8, shift))


def _scattered(start: int) -> tuple[Bits, ...]:
    """32 bits in column order."""
    return tuple((start + step // 2, 4 * (step % 2)) for step in range(8))


def _six_bits(start: int, which: int) -> tuple[Small, ...]:
    """The eight scales (0) or minima (1) in the 12 bytes of Q4_K and Q5_K."""
    first = [Small((start + 4 * which + j, 0), 63) for j in range(4)]
    last = [Small((start + 8 + j, 4 * which), 15, (start + 4 * which + j, 6), 3) for j in range(4)]
    return (*first, *last)


_Q6_LOW = tuple(
    bits
    for half in (0, 64)
    for shift in (0, 4)
    for start in (0, 32)
    for bits in _run(half + start, 8, shift)
)
_Q3_SCALES = tuple(
    Small((96 + j % 8, 4 * (j // 8)), 15, (104 + j % 4, 2 * (j // 4)), 3) for j in range(16)
)
_IQ4_XS_SCALES = tuple(
    Small((4 + j // 2, 4 * (j % 2)), 15, (2 + j // 4, 2 * (j % 4)), 3) for j in range(8)
)

FORMATS: Mapping[str, Format] = {
    known.name: known
    for known in (
        Format("Q4_0", 32, 18, (4,), _nibbles(2), zero=8),
        Format("Q4_1", 32, 20, (4,), _nibbles(4), min_at=2),
        Format("Q5_0", 32, 22, (4, 1), _nibbles(6), _scattered(2), is_spread=True, zero=16),
        Format("Q5_1", 32, 24, (4, 1), _nibbles(8), _scattered(4), is_spread=True, min_at=2),
        Format("Q8_0", 32, 34, (8,), tuple(_run(2, 8))),
        Format("IQ4_NL", 32, 18, (4,), _nibbles(2), codebook=IQ4),
        Format("MXFP4", 32, 17, (4,), _nibbles(1), codebook=MX4, zero=12, is_exponent=True),
        Format(
            "Q2_K", 256, 84, (2,), _k_pairs(16), scale_at=80, min_at=82, are_nibbles=True,
            scales=tuple(Small((j, 0), 255) for j in range(16)),
        ),
        Format(
            "Q3_K", 256, 110, (2, 1), _k_pairs(32), _k_single(0), zero=4, scale_at=108,
            scales=_Q3_SCALES, scale_zero=32,
        ),
        Format(
            "Q4_K", 256, 144, (4,), _k_nibbles(16), min_at=2,
            scales=_six_bits(4, 0), mins=_six_bits(4, 1),
        ),
        Format(
            "Q5_K", 256, 176, (4, 1), _k_nibbles(48), _k_single(16), min_at=2,
            scales=_six_bits(4, 0), mins=_six_bits(4, 1),
        ),
        Format(
            "Q6_K", 256, 210, (4, 2), _Q6_LOW, _k_pairs(128), zero=32, scale_at=208,
            scales=tuple(Small((192 + j, 0), 255) for j in range(16)),
        ),
        Format(
            "IQ4_XS", 256, 136, (4,), tuple(b for j in range(8) for b in _nibbles(8 + 16 * j)),
            codebook=IQ4, scales=_IQ4_XS_SCALES, scale_zero=32,
        ),
    )
}  # fmt: skip

FLOATS: Mapping[str, FloatFormat] = {
    known.name: known
    for known in (
        FloatFormat("F32", 4, 0x7F80_0000),
        FloatFormat("F16", 2, 0x7C00),
        FloatFormat("BF16", 2, 0x7F80),
    )
}
