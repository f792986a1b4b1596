"""GGUF's quantisation types as data, each with the place of its bits: those whose codes are in the file as they are.

grids.py has those whose codes are rows of a table.
"""

from collections.abc import Iterable, Mapping

from segue.runners.cpu.products.grids import GRIDS
from segue.runners.cpu.products.layout import STEP, Bits, FloatFormat, Format, Small

IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
# The numbers of MXFP4 and NVFP4, doubled and with 12 added: small unsigned integers.
MX4 = (12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0)


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


def _scattered(start: int, steps: int = 8) -> tuple[Bits, ...]:
    """Bits in column order."""
    return tuple((start + step // 2, 4 * (step % 2)) for step in range(steps))


def _digits() -> tuple[Bits, ...]:
    """The digits in base 3 of TQ1_0, five of a byte: of 32 bytes, then of 16; then four of 4 bytes each."""
    return (
        *(bits for digit in range(5) for bits in _run(0, 8, digit)),
        *(bits for digit in range(5) for bits in _run(32, 4, digit)),
        *(bits for digit in range(4) for bits in _run(48, 1, digit)),
    )


def _sixteens(start: int) -> tuple[Bits, ...]:
    """Four times 16 columns in 8 bytes each: the first half low."""
    return tuple(
        bits for each in range(4) for shift in (0, 4) for bits in _run(start + 8 * each, 2, shift)
    )


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
            "Q2_K", 256, 84, (2,), _k_pairs(16), scale_at=80, min_at=82, smalls="with minimum",
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
        Format("Q1_0", 128, 18, (1,), _scattered(2, 32), is_spread=True, doubling=1, zero=1),
        Format("Q2_0", 64, 18, (2,), tuple((2 + step, 0) for step in range(16)), is_spread=True, zero=1),
        Format("TQ1_0", 256, 54, (2,), _digits(), is_ternary=True, zero=1, scale_at=52),
        Format("TQ2_0", 256, 66, (2,), _k_pairs(0), zero=1, scale_at=64),
        Format(
            "NVFP4", 64, 36, (4,), _sixteens(4), codebook=MX4, zero=12, scale_at=None, factor=2.0**7,
            scales=tuple(Small((j, 0), 255) for j in range(4)), smalls="float",
        ),
        *GRIDS,
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


def packed_bytes(kind: str, num_bytes: int) -> int:
    """The memory of a tensor's weights of which the file has so many bytes. Its last tile may be filled up."""
    form = FORMATS.get(kind)
    return num_bytes if form is None else num_bytes // form.block_bytes * form.kept_bytes
