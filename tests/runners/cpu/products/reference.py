"""What the products must be: integers exactly, floats in the order that tile.py gives, in plain numpy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from segue import config
from segue.models.gguf import Tensor
from segue.models.gguf.floats import as_floats
from segue.runners.cpu.kept_code import KeptCode
from segue.runners.cpu.products.called import (
    Activations,
    activations,
    multiply,
    scales_of,
    take_row,
)
from segue.runners.cpu.products.formats import FORMATS
from segue.runners.cpu.products.layout import GROUP, Format, Small
from segue.runners.cpu.products.matrix import Matrix, pack
from segue.runners.cpu.products.processor import Target
from segue.runners.cpu.products.tiles.tile import SCALE, SUMS

KEPT = KeptCode(config.load({}).cache_dir)

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


def inputs_of(rng: np.random.Generator, rows: int, columns: int) -> Activations:
    given = activations(rng.standard_normal((rows, columns)).astype(np.float32))
    if given.a.size:
        given.a[0, :GROUP] = 127  # what saturates if anything does
        given.scales[:] = scales_of(given.a, given.scales[..., SCALE])
    return given


def first_rows(given: Activations, rows: int) -> Activations:
    return Activations(given.x[:rows], given.a[:rows], given.scales[:rows])


def packed(own: Tensor, data: Bytes, target: Target, threads: int = 1) -> Matrix:
    """With the machine code that earlier runs kept, as servers do."""
    (matrix,) = pack([own], [data], target, threads, KEPT)
    return matrix


def tensor(
    rng: np.random.Generator, kind: str, columns: int, outputs: int, extreme: bool = False
) -> tuple[Tensor, Bytes]:
    """A tensor of random bits, with scales that are numbers, behind a few other bytes."""
    data = _floats(rng, kind, columns * outputs) if kind not in FORMATS else None
    if data is None:
        data = _blocks(rng, FORMATS[kind], columns * outputs, extreme)
    start = 32
    whole = np.concatenate([np.full(start, 255, np.uint8), data])
    return Tensor("w", (columns, outputs), kind, start, data.size), whole


def _floats(rng: np.random.Generator, kind: str, count: int) -> Bytes:
    values = rng.standard_normal(count).astype(np.float32)
    if kind == "F32":
        return values.view(np.uint8)
    if kind == "F16":
        return values.astype(np.float16).view(np.uint8)
    return (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(np.uint8)


def _blocks(rng: np.random.Generator, form: Format, count: int, extreme: bool) -> Bytes:
    shape = (count // form.block, form.block_bytes)
    blocks = rng.integers(0, 256, shape, np.uint8) if not extreme else np.full(shape, 255, np.uint8)
    if form.is_exponent:
        blocks[:, form.scale_at] = rng.integers(110, 130, shape[0])
        if shape[0] > 2:
            blocks[:3, form.scale_at] = (0, 1, 2)
    elif form.scale_at is not None:
        scales = rng.uniform(-0.02, 0.02, shape[0]).astype(np.float16)
        scales[0] = np.float16(3e-7)  # subnormal
        put_scales(form, blocks, scales)
    if form.min_at is not None:
        minima = rng.uniform(-0.1, 0.1, shape[0]).astype(np.float16)
        blocks[:, form.min_at : form.min_at + 2] = minima[:, None].view(np.uint8)
    return blocks.reshape(-1)


def put_scales(form: Format, blocks: Bytes, scales: NDArray[np.float16]) -> None:
    """Write the scales of blocks."""
    for i, byte in enumerate(form.quarters_at):
        quarter = (scales.view(np.uint16) >> np.uint16(4 * i) & np.uint16(15)).astype(np.uint8)
        blocks[:, byte] = blocks[:, byte] & 15 | quarter << 4
    if not form.quarters_at and form.scale_at is not None:
        blocks[:, form.scale_at : form.scale_at + 2] = scales[:, None].view(np.uint8)


def dequantised(tensor: Tensor, data: Bytes) -> Floats:
    """By the gguf package, or by numpy alone: nothing that is shared with the code under test."""
    raw = data[tensor.offset :]
    width = tensor.num_bytes // tensor.shape[1]
    if tensor.type == "F32":
        values: Any = raw.view(np.float32)
    elif tensor.type == "F16":
        values = raw.view(np.float16).astype(np.float32)
    else:
        values = as_floats(tensor.type, raw.reshape(tensor.shape[1], width))
    whole: Floats = np.ascontiguousarray(values, np.float32).reshape(
        tensor.shape[1], tensor.shape[0]
    )
    return whole


def multiplied(
    matrix: Matrix, given: Activations, pieces: int = 1, spare: int = 3
) -> tuple[Floats, Floats]:
    """What the compiled product writes, and the cells beside the outputs, which it must leave alone."""
    rows = given.x.shape[0]
    ldo = matrix.outputs + spare
    out = np.full((rows, ldo), np.float32(7.5))
    for piece in range(pieces):
        first, last = (matrix.tiles * i // pieces for i in (piece, piece + 1))
        multiply(matrix, given, out, first, last)
    return out[:, : matrix.outputs], out[:, matrix.outputs :]


def row_of(matrix: Matrix, index: int) -> Floats:
    out = np.zeros(matrix.columns + 1, np.float32)
    take_row(matrix, index, out)
    assert out[-1] == 0
    return out[:-1]


# --- exactly ---


def fma(x: Any, y: Any, z: Any) -> Floats:
    """x * y + z in f32, rounded once: summed in f64 rounded to odd, which a second rounding cannot harm."""
    product = x.astype(np.float64) * y.astype(np.float64)
    z = z.astype(np.float64)
    total = product + z
    back = total - product
    error = (product - (total - back)) + (z - back)
    bits = np.ascontiguousarray(total).view(np.int64)
    towards = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where((error != 0) & (bits & 1 == 0), bits + towards, bits)
    rounded: Floats = odd.view(np.float64).astype(np.float32)
    return rounded


def expected(tensor: Tensor, data: Bytes, given: Activations) -> Floats:
    """The definition of tile.py, group by group."""
    if tensor.type not in FORMATS:
        return _expected_floats(dequantised(tensor, data), given.x)
    form, (columns, outputs) = FORMATS[tensor.type], tensor.shape
    blocks = data[tensor.offset :].reshape(outputs, columns // form.block, form.block_bytes)
    codes = _codes(form, blocks).reshape(outputs, columns // 16, 16)
    a = given.a.reshape(given.a.shape[0], columns // 16, 16).astype(np.int64)
    dots = np.einsum("ogc,mgc->gmo", codes, a)  # of each 16 columns
    acc = np.zeros((a.shape[0], outputs), np.float32)
    for group in range(columns // GROUP):
        block, inside = divmod(group, form.groups)
        own = blocks[:, block]
        sa = given.scales[:, group, SCALE, None]
        sums = given.scales[:, group, SUMS:].view(np.int32)
        acc = _group(form, own, inside, dots[2 * group : 2 * group + 2], sa, sums, acc)
    return acc


def _group(
    form: Format, own: Bytes, inside: int, dots: Any, sa: Floats, sums: Any, acc: Floats
) -> Floats:
    scale, least = _head(form, own)
    ones = np.ones_like(acc)
    smalls = [_smalls(form, own, table, inside) for table in (form.scales, form.mins)]
    whole = dots.sum(0).astype(np.float32)
    total = sums.sum(1)[:, None].astype(np.float32)
    if form.smalls == "float":
        first, second = (_shorts(smalls[0][:, part]) for part in range(2))
        low, high = (part.astype(np.float32) for part in dots)
        return fma(scale * sa, fma(ones * first, low, second * high), acc)
    if form.parts == 2:
        has_minima = form.smalls == "with minimum"
        low, high = (smalls[0] & 15, smalls[0] >> 4) if has_minima else (smalls[0], None)
        whole = (low.T[:, None, :] * dots).sum(0).astype(np.float32)
        acc = fma(scale * sa, whole, acc)
        if high is None or least is None:
            return acc
        exact = (high.T[:, None, :] * sums.T[:, :, None]).sum(0).astype(np.float32)
        return fma(-least * sa, exact, acc)
    if form.scales:
        scale = scale * smalls[0][:, 0].astype(np.float32)
        if least is not None:
            least = -least * smalls[1][:, 0].astype(np.float32)
    acc = fma(scale * sa, whole, acc)
    return acc if least is None else fma(ones * least, ones * (sa * total), acc)


def _codes(form: Format, blocks: Bytes) -> NDArray[np.int64]:
    """Meanings of the codes, by column."""
    is_spread = form.is_spread and not form.high
    if form.grid is not None or form.is_ternary or form.smalls == "float" or is_spread:
        return _codes_of_unit(form, blocks)
    columns = np.empty((*blocks.shape[:2], form.block), np.int64)
    for column in range(form.block):
        step, byte = divmod(column, 4)
        at, shift = form.low[step]
        code = blocks[..., at + byte].astype(np.int64) >> shift & (1 << form.planes[0]) - 1
        if form.high:
            at, shift = form.high[step]
            extra = (0, shift + byte) if form.is_spread else (byte, shift)
            high = blocks[..., at + extra[0]].astype(np.int64) >> extra[1]
            code |= (high & (1 << form.planes[1]) - 1) << form.planes[0]
        if form.codebook:
            code = np.array(form.codebook)[code]
        elif form.planes == (8,):
            code = code.astype(np.int8).astype(np.int64)
        columns[..., column] = code - form.zero
    return columns


def _codes_of_unit(form: Format, blocks: Bytes) -> NDArray[np.int64]:
    """What `dequantised` makes of blocks whose scale is 1, without their small scales."""
    unit = blocks.reshape(-1, form.block_bytes).copy()
    put_scales(form, unit, np.ones(len(unit), np.float16))
    values = as_floats(form.name, unit)
    parts = values.reshape(len(unit), form.groups, form.parts, -1).astype(np.float64)
    for group in range(form.groups if form.scales else 0):
        small = _smalls(form, unit, form.scales, group).astype(np.float64)
        if form.smalls == "float":
            small = _shorts(small.astype(np.int64)).astype(np.float64)
        parts[:, group] /= np.where(small == 0, 1, small)[..., None]
    codes = np.rint(parts / form.factor).astype(np.int64)
    np.testing.assert_array_equal(codes, parts / form.factor)
    return codes.reshape(*blocks.shape[:2], form.block)


def _shorts(bits: NDArray[np.int64]) -> Floats:
    """Floats of 4 and 3 bits, as if their exponent were that of an f16."""
    return (bits.astype(np.uint16) << np.uint16(7)).view(np.float16).astype(np.float32)


def _head(form: Format, own: Bytes) -> tuple[Floats, Floats | None]:
    def half(at: int) -> Floats:
        return np.ascontiguousarray(own[:, at : at + 2]).view(np.float16)[:, 0].astype(np.float32)

    least = None if form.min_at is None else half(form.min_at)
    if form.is_exponent:
        exponent = own[:, form.scale_at].astype(np.float64)
        return np.exp2(exponent - 128).astype(np.float32), least
    if form.scale_at is None:
        return np.full(len(own), form.factor, np.float32), least
    if form.quarters_at:
        bits = sum(
            own[:, byte].astype(np.uint16) >> 4 << 4 * i for i, byte in enumerate(form.quarters_at)
        )
        return np.asarray(bits, np.uint16).view(np.float16) * np.float32(form.factor), least
    return half(form.scale_at) * np.float32(form.factor), least


def _smalls(form: Format, own: Bytes, table: Any, inside: int) -> NDArray[np.int64]:
    """The small scales of a group, one for each part."""
    each = len(table) // form.groups
    found = np.empty((own.shape[0], each), np.int64)
    for part in range(each):
        value = _small(own, table[inside * each + part])
        if form.name == "Q6_K":
            value = value.astype(np.int8).astype(np.int64)
        found[:, part] = value - form.scale_zero
    if form.smalls == "odd":
        return 2 * found + 1
    if form.smalls == "odd halves":
        return 2 * np.concatenate([found & 15, found >> 4], axis=1) + 1
    if form.smalls == "float":
        return np.where(found == 127, 0, found & 127)
    return found


def _small(own: Bytes, small: Small) -> NDArray[np.int64]:
    word = own.astype(np.int64)
    word[:, :-1] |= own[:, 1:].astype(np.int64) << 8
    value = word[:, small.low[0]] >> small.low[1] & small.mask
    value |= (word[:, small.high[0]] >> small.high[1] & small.high_mask) << small.above
    return value


def _expected_floats(weights: Floats, x: Floats) -> Floats:
    acc = np.zeros((x.shape[0], weights.shape[0]), np.float32)
    ones = np.ones_like(acc)
    for column in range(x.shape[1]):
        acc = fma(ones * weights[:, column], ones * x[:, column, None], acc)
    return acc
