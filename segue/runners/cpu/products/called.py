"""The compiled products, called from Python: for tests and measurements. Calls release the GIL."""

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.products.kernels import PRODUCT, TAKE_ROW
from segue.runners.cpu.products.layout import GROUP, SCALES
from segue.runners.cpu.products.matrix import Matrix
from segue.runners.cpu.products.tiles.tile import ADDED, PARTS, SCALE, SUMS

Floats = NDArray[np.float32]

_PRODUCT = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 9)
_TAKE_ROW = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)


@dataclass(frozen=True)
class Activations:
    """Rows in the layout that the products take: see the docstring of the package."""

    x: Floats
    a: NDArray[np.int8]
    scales: Floats  # [rows][group][SCALES]: the last two are integers


def activations(x: Floats) -> Activations:
    rows, columns = x.shape
    if columns % GROUP:  # only matrices of floats can have such columns
        return Activations(x, np.zeros(0, np.int8), np.zeros(0, np.float32))
    groups = x.reshape(rows, -1, GROUP)
    sa = (np.abs(groups).max(-1) / np.float32(127)).astype(np.float32)
    codes = np.rint(groups / np.where(sa == 0, np.float32(1), sa)[..., None])
    a = codes.clip(-127, 127).astype(np.int8).reshape(rows, columns)
    return Activations(x, a, scales_of(a, sa))


def scales_of(a: NDArray[np.int8], scale: Floats) -> Floats:
    """The four numbers of each group that tile.py reads."""
    rows, groups = scale.shape
    sums = a.reshape(rows, groups, PARTS, -1).sum(-1, dtype=np.int32)
    found = np.empty((rows, groups, SCALES), np.float32)
    found[..., SCALE] = scale
    found[..., ADDED] = scale * sums.sum(-1).astype(np.float32)
    found[..., SUMS:] = sums.view(np.float32)
    return found


def multiply(
    matrix: Matrix, given: Activations, out: Floats, first: int = 0, last: int | None = None
) -> None:
    """Compute tiles first … last - 1 of all rows into `out`. The rows of `out` may be longer than the outputs."""
    call = _PRODUCT(int(matrix.descriptor[PRODUCT]))
    call(
        matrix.descriptor.ctypes.data, len(given.x), given.a.ctypes.data, given.scales.ctypes.data,
        given.x.ctypes.data, out.ctypes.data, out.strides[0] // 4,
        first, matrix.tiles if last is None else last,
    )  # fmt: skip


def take_row(matrix: Matrix, index: int, out: Floats) -> None:
    call = _TAKE_ROW(int(matrix.descriptor[TAKE_ROW]))
    call(matrix.descriptor.ctypes.data, index, out.ctypes.data)
