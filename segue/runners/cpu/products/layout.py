"""How a GGUF type keeps weights: where a block of the file has its bits, and how they are packed here.

A weight is an integer code times the scale of its group of 32 columns (or of each 16), sometimes plus a minimum.
Codes are packed as planes of 8, 4, 2 or 1 bits. Four columns are one step. In the file they are four adjacent bytes,
read with one shift, or bits of one byte side by side (`is_spread`), or a row of a table (`Grid`).
"""

from dataclasses import dataclass
from typing import Literal

GROUP = 32  # columns that share one scale of the activations
STEP = 4  # columns of one dot product
SCALES = 4  # words per group of activations: see tiles/tile.py
MARKS_AT = 3  # the bit of a group's first small scale where its marks begin

Bits = tuple[int, int]  # byte of the block, shift to the right

# What the bytes of small scales hold, as packed.
Smalls = Literal[
    "signed",  # each a number
    "with minimum",  # a scale in the low half, a minimum in the high half
    "odd",  # n for 2n + 1, in the low half, or in three bits if marks are above them
    "odd halves",  # such an n in each half of the byte, for the halves of the group
    "float",  # four bits of an exponent and three bits behind the point
]


@dataclass(frozen=True)
class Small:
    """A number of a few bits: a low part, and a high part `above` its bits."""

    low: Bits
    mask: int
    high: Bits = (0, 0)
    high_mask: int = 0
    above: int = 4


@dataclass(frozen=True)
class Grid:
    """Codes that are rows of a table: a block has the numbers of the rows."""

    bits: int  # of a code
    columns: int  # of a row
    rows: tuple[Small, ...]
    signs: tuple[Small, ...] = ()  # of each 8 columns: 7 bits; an even number of the 8 is negative
    marks: tuple[Bits, ...] = ()  # for each group, or each 8 columns: one bit more of their codes


@dataclass(frozen=True)
class Format:
    name: str
    block: int  # columns of one block
    block_bytes: int
    planes: tuple[int, ...]  # bits per plane, the low bits first
    low: tuple[Bits, ...] = ()  # for each step of the block
    high: tuple[Bits, ...] = ()
    is_spread: bool = False  # a step's highest bits are in one byte, column after column
    is_ternary: bool = False  # bytes are fractions of 256: `low` says which digit in base 3
    grid: Grid | None = None  # instead of `low`
    doubling: int = 0  # how often codes are doubled as they are expanded
    zero: int = 0  # the code that means 0
    codebook: tuple[int, ...] = ()  # the number that each code stands for; (): the code itself
    scale_at: int | None = 0  # None: there is no scale but the small ones, and one for the matrix
    is_exponent: bool = False  # the scale is one byte, a power of two; else an f16
    quarters_at: tuple[int, ...] = ()  # bytes whose high halves make the f16, the lowest first
    factor: float = 1.0  # of the scale: a power of two
    min_at: int | None = None  # an f16: added as it is, or times -small minimum
    scales: tuple[Small, ...] = ()  # for each group, or each half of one
    scale_zero: int = 0
    mins: tuple[Small, ...] = ()
    smalls: Smalls = "signed"

    @property
    def groups(self) -> int:
        return self.block // GROUP

    @property
    def parts(self) -> int:
        """In how many parts a group is summed: each part has its own scale."""
        return 2 if self.smalls == "odd halves" else max(1, len(self.scales) // self.groups)

    @property
    def has_factor(self) -> bool:
        """Whether a matrix has one scale for all of its blocks."""
        return self.scale_at is None

    @property
    def marks(self) -> int:
        """Of each group."""
        return 0 if self.grid is None else len(self.grid.marks) // self.groups

    @property
    def is_signed(self) -> bool:
        """Whether codes (or their numbers in the codebook) are signed 8-bit numbers."""
        return min(self.codebook, default=0) < 0 or self.planes == (8,)

    @property
    def top(self) -> int:
        """The greatest magnitude of a code."""
        if self.codebook:
            return max(map(abs, self.codebook))
        return 128 if self.is_signed else (1 << sum(self.planes)) - 1 << self.doubling

    # --- as packed: for each block its scales, then its groups ---

    @property
    def scale_bytes(self) -> int:
        """For one output, of one block."""
        return 0 if self.scale_at is None else 1 if self.is_exponent else 2

    @property
    def head_bytes(self) -> int:
        """For one output, of one block."""
        return self.scale_bytes + (0 if self.min_at is None else 2)

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
