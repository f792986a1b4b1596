"""A tensor of the file as packed weights that compiled code reads through a descriptor."""

import ctypes
import mmap
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from segue.errors import ModelUnavailable
from segue.models.gguf import Tensor
from segue.runners.cpu.memory import pages
from segue.runners.cpu.products import kernels as field
from segue.runners.cpu.products.kernels import Kernels, form_of, kernels
from segue.runners.cpu.products.layout import FloatFormat, Format
from segue.runners.cpu.products.machine_code import Kept, nothing_kept
from segue.runners.cpu.products.processor import Target

_ALIGNMENT = 64
_HUGE_PAGE = 2 << 20
_PIECE = 4 << 20  # bytes that a thread packs at a time
NO_FACTORS: Mapping[str, float] = {}
_PACK = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 7)


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """`outputs` rows of `columns` weights each, in tiles."""

    name: str
    type: str
    columns: int
    outputs: int
    tiles: int
    num_bytes: int
    descriptor: NDArray[np.int64]
    memory: mmap.mmap  # shared by all matrices that were packed together


@dataclass(frozen=True, kw_only=True)
class _Plan:
    tensor: Tensor
    form: Format | FloatFormat
    made: Kernels
    columns: int
    outputs: int
    blocks: int  # blocks per row
    row_bytes: int
    tiles: int
    tile_bytes: int
    start: int  # offset in the memory


def pack(
    tensors: Sequence[Tensor],
    files: Sequence[NDArray[np.uint8]],
    target: Target,
    threads: int = 1,
    kept: Kept = nothing_kept,
    done: Callable[[Tensor], None] = lambda tensor: None,
    *,
    factors: Mapping[str, float] = NO_FACTORS,
) -> list[Matrix]:
    """One matrix per tensor, all in one allocation. `files`: each whole; `kept` is the cache of machine code.

    `done` is called with each tensor once it has been read for the last time. `factors`: what the outputs of some
    matrices are multiplied by, by name; their formats have no scale but that (`Format.has_factor`).
    Raises ModelUnavailable if a tensor is not a matrix of a known type, does not lie within its file, or has weights
    that are no numbers.
    """
    plans, total = _planned(tensors, files, target, kept)
    memory = pages(-(-max(1, total) // _HUGE_PAGE) * _HUGE_PAGE, huge=True)
    base, sources = _address(np.frombuffer(memory, np.uint8)), [*map(_address, files)]
    with ThreadPoolExecutor(max(1, threads)) as team:
        begun = [
            (plan, [team.submit(piece) for piece in _pieces(plan, sources[plan.tensor.file], base)])
            for plan in plans
        ]
        for plan, pieces in begun:
            check_sound(plan.tensor.name, sum(piece.result() for piece in pieces))
            done(plan.tensor)
    return [_matrix(plan, base, memory, factors.get(plan.tensor.name, 1.0)) for plan in plans]


def _planned(
    tensors: Iterable[Tensor], files: Sequence[NDArray[np.uint8]], target: Target, kept: Kept
) -> tuple[list[_Plan], int]:
    plans: list[_Plan] = []
    total = 0
    for tensor in tensors:
        form = checked(tensor, files[tensor.file].size)
        columns, outputs = tensor.shape[0], tensor.shape[1]
        width = target.flavour.width
        if isinstance(form, Format):
            blocks, item = columns // form.block, form.kept_bytes
            row_bytes = blocks * form.block_bytes
        else:
            blocks, item, row_bytes = columns, form.bytes, columns * form.bytes
        tiles = -(-outputs // width)
        tile_bytes = blocks * item * width
        plans.append(
            _Plan(
                tensor=tensor,
                form=form,
                made=kernels(form, target, kept),
                columns=columns,
                outputs=outputs,
                blocks=blocks,
                row_bytes=row_bytes,
                tiles=tiles,
                tile_bytes=tile_bytes,
                start=total,
            )
        )
        total += -(-tiles * tile_bytes // _ALIGNMENT) * _ALIGNMENT
    return plans, total


def checked(tensor: Tensor, file_size: int) -> Format | FloatFormat:
    """The tensor's format. Raises if its shape or size is wrong: compiled code relies on them and checks no bounds."""
    form = form_of(tensor.type)
    if form is None:
        raise ModelUnavailable(
            f"tensor {tensor.name} has the type {tensor.type}, which is not known here"
        )
    if len(tensor.shape) != 2 or min(tensor.shape) < 1:
        raise ModelUnavailable(
            f"tensor {tensor.name} has the shape {tensor.shape}; a matrix was expected"
        )
    columns, outputs = tensor.shape
    block, block_bytes = (
        (form.block, form.block_bytes) if isinstance(form, Format) else (1, form.bytes)
    )
    if columns % block:
        raise ModelUnavailable(
            f"tensor {tensor.name} has {columns} columns, which {tensor.type} cannot have"
        )
    num_bytes = columns // block * block_bytes * outputs
    if tensor.num_bytes != num_bytes:
        raise ModelUnavailable(
            f"tensor {tensor.name} has {tensor.num_bytes} bytes; its shape needs {num_bytes}"
        )
    if tensor.offset < 0 or tensor.offset + num_bytes > file_size:
        raise ModelUnavailable(
            f"tensor {tensor.name} does not lie within the file; it may be cut off"
        )
    return form


def check_sound(name: str, num_unsound: int) -> None:
    """Raise if some numbers of a tensor are not finite: answers would be wrong, and seldom show it."""
    if num_unsound:
        raise ModelUnavailable(
            f"tensor {name} has weights that are infinite or not numbers ({num_unsound} found); fetch the file "
            "again, or convert it again"
        )


def _pieces(plan: _Plan, source: int, base: int) -> Iterable[Callable[[], int]]:
    """Calls that pack a few tiles each, and return how many numbers are unsound. They release the GIL."""
    call = _PACK(plan.made.pack)
    each = max(1, _PIECE // max(1, plan.tile_bytes))
    for first in range(0, plan.tiles, each):
        numbers = (
            source + plan.tensor.offset, plan.row_bytes, plan.blocks, plan.outputs, base + plan.start,
            first, min(first + each, plan.tiles),
        )  # fmt: skip
        yield lambda numbers=numbers: call(*numbers)  # type: ignore[misc]


def _matrix(plan: _Plan, base: int, memory: mmap.mmap, factor: float) -> Matrix:
    descriptor = np.zeros(field.FIELDS, np.int64)
    descriptor[field.PRODUCT] = plan.made.product
    descriptor[field.TAKE_ROW] = plan.made.take_row
    descriptor[field.WEIGHTS] = base + plan.start
    descriptor[field.COLUMNS] = plan.columns
    descriptor[field.OUTPUTS] = plan.outputs
    descriptor[field.TILES] = plan.tiles
    descriptor[field.TILE_BYTES] = plan.tile_bytes
    descriptor[field.BLOCKS] = plan.blocks
    if isinstance(plan.form, Format) and plan.form.has_factor:
        with np.errstate(over="ignore"):
            scale = np.array(factor * plan.form.factor, np.float32)
        check_sound(plan.tensor.name, int(not np.isfinite(scale)))
        descriptor[field.FACTOR] = scale.view(np.int32)
    return Matrix(
        name=plan.tensor.name,
        type=plan.tensor.type,
        columns=plan.columns,
        outputs=plan.outputs,
        tiles=plan.tiles,
        num_bytes=plan.tiles * plan.tile_bytes,
        descriptor=descriptor,
        memory=memory,
    )


def _address(array: NDArray[np.uint8]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
