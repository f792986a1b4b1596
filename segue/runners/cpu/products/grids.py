"""GGUF's types whose codes are rows of a table: IQ1, IQ2 and IQ3. The tables are those of the package gguf.

A code is a magnitude and its sign, or a digit and a mark. The codebook makes small unsigned numbers of them. A small
scale n means 2n + 1.
"""

from functools import cache

from segue.runners.cpu.products.layout import Bits, Format, Grid, Small

_RUNS = range(32)  # of 8 columns
_GROUPS = range(8)


def _signed(magnitudes: tuple[int, ...]) -> tuple[int, ...]:
    """The codebook of magnitudes and, above their bits, a sign: with the greatest of them added."""
    most, size = max(magnitudes), 4 if len(magnitudes) < 4 else 8
    spare = [0] * (size - len(magnitudes))
    sides = [[most + sign * each for each in magnitudes] + spare for sign in (1, -1)]
    return tuple((sides[0] + sides[1] + [0] * 16)[:16])


def _rows(start: int, high: list[Bits], mask: int) -> tuple[Small, ...]:
    """The numbers of rows: a byte each, and higher bits elsewhere."""
    return tuple(Small((start + i, 0), 255, at, mask, 8) for i, at in enumerate(high))


def _sevens(start: int, stride: int) -> tuple[Small, ...]:
    """For each group four times 7 bits, side by side."""
    return tuple(
        Small((start + stride * group + bit // 8, bit % 8), 127)
        for group in _GROUPS
        for bit in (0, 7, 14, 21)
    )


def _fours(start: int) -> tuple[Bits, ...]:
    """A bit for each column in order: four for a step."""
    return tuple((start + step // 2, 4 * (step % 2)) for step in range(64))


def _each(start: int, stride: int, shift: int, mask: int) -> tuple[Small, ...]:
    """One number for each group."""
    return tuple(Small((start + stride * group, shift), mask) for group in _GROUPS)


_IQ2 = _signed((8, 25, 43))
_IQ3_XXS = _signed((2, 6, 10, 14, 18, 22, 26, 31))  # half of each
_IQ3_S = _signed((1, 3, 5, 7, 9, 11, 13, 15))
# Digits of -1, 0 and 1, times 8, and 1 more, or 1 less where they are marked; with 9 added.
_IQ1 = (2, 10, 18, 0, 0, 8, 16, *[0] * 9)

GRIDS = (
    Format(
        "IQ2_XXS", 256, 66, (2, 1), codebook=_IQ2, zero=43, factor=1 / 8, smalls="odd",
        grid=Grid(2, 8, tuple(Small((2 + 8 * (i // 4) + i % 4, 0), 255) for i in _RUNS), _sevens(6, 8)),
        scales=_each(9, 8, 4, 15),
    ),
    Format(
        "IQ2_XS", 256, 74, (2, 1), codebook=_IQ2, zero=43, factor=1 / 8, smalls="odd halves",
        grid=Grid(
            2, 8, tuple(Small((2 + 2 * i, 0), 511) for i in _RUNS),
            tuple(Small((3 + 2 * i, 1), 127) for i in _RUNS),
        ),
        scales=_each(66, 1, 0, 255),
    ),
    Format(
        "IQ2_S", 256, 82, (2, 1), codebook=_IQ2, zero=43, factor=1 / 8, smalls="odd halves",
        grid=Grid(2, 8, _rows(2, [(66 + i // 4, 2 * (i % 4)) for i in _RUNS], 3)),
        high=_fours(34), is_spread=True, scales=_each(74, 1, 0, 255),
    ),
    Format(
        "IQ3_XXS", 256, 98, (4,), codebook=_IQ3_XXS, zero=31, factor=1 / 2, smalls="odd",
        grid=Grid(3, 4, tuple(Small((2 + i, 0), 255) for i in range(64)), _sevens(66, 4)),
        scales=_each(69, 4, 4, 15),
    ),
    Format(
        "IQ3_S", 256, 110, (4,), codebook=_IQ3_S, zero=15, smalls="odd",
        grid=Grid(3, 4, _rows(2, [(66 + i // 8, i % 8) for i in range(64)], 1)),
        high=_fours(74), is_spread=True,
        scales=tuple(Small((106 + i // 2, 4 * (i % 2)), 15) for i in _GROUPS),
    ),
    Format(
        "IQ1_S", 256, 50, (2,), codebook=_IQ1, zero=9, factor=1 / 8, smalls="odd",
        grid=Grid(
            2, 8, _rows(2, [(34 + 2 * (i // 4), 3 * (i % 4)) for i in _RUNS], 7),
            marks=tuple((35 + 2 * i, 7) for i in _GROUPS),
        ),
        scales=_each(35, 2, 4, 7),
    ),
    Format(
        "IQ1_M", 256, 56, (2,), codebook=_IQ1, zero=9, factor=1 / 8, smalls="odd",
        quarters_at=(49, 51, 53, 55),
        grid=Grid(
            2, 8, _rows(0, [(32 + i // 2, 4 * (i % 2)) for i in _RUNS], 7),
            marks=tuple((32 + i // 2, 3 + 4 * (i % 2)) for i in _RUNS),
        ),
        scales=tuple(Small((48 + 2 * (i // 4), 3 * (i % 4)), 7) for i in range(16)),
    ),
)  # fmt: skip


@cache
def table(name: str) -> bytes:
    """The table of a type: a byte for each code, row by row. Taken where code is compiled: the import is slow."""
    import numpy as np
    from gguf import quants

    known = getattr(quants, name)
    known.init_grid()
    codes = np.searchsorted(known.grid_map, known.grid.reshape(-1))
    return bytes(codes.astype(np.uint8))
