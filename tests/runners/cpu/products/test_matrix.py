import ctypes
import itertools
import mmap
import sys
from dataclasses import replace

import numpy as np
import pytest

from segue.errors import ModelUnavailable
from segue.models.gguf import Tensor
from segue.runners.cpu.products.formats import FLOATS, FORMATS, packed_bytes
from segue.runners.cpu.products.layout import Format
from segue.runners.cpu.products.matrix import checked, pack
from segue.runners.cpu.products.processor import this_target
from tests.runners.cpu.products.reference import (
    KEPT,
    inputs_of,
    multiplied,
    packed,
    put_scales,
    tensor,
)

TARGET = this_target({})
SOUND, DATA = tensor(np.random.default_rng(0), "Q4_K", 512, 40)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"type": "Q8_1"}, "not known"),
        ({"type": "Q5_0"}, "bytes"),
        ({"shape": (512,)}, "a matrix was expected"),
        ({"shape": (512, 40, 1)}, "a matrix was expected"),
        ({"shape": (512, 0)}, "a matrix was expected"),
        ({"shape": (512, -40)}, "a matrix was expected"),
        ({"shape": (544, 40)}, "columns"),
        ({"type": "IQ2_XS", "shape": (544, 40)}, "columns"),
        ({"type": "IQ2_XS"}, "its shape needs 5920"),
        ({"type": "NVFP4", "shape": (32, 40)}, "columns"),
        ({"type": "Q1_0", "shape": (576, 40)}, "columns"),
        ({"type": "Q1_0", "shape": (640, 40)}, "its shape needs 3600"),
        ({"type": "Q2_0", "shape": (544, 40)}, "columns"),
        ({"shape": (512, 41)}, "its shape needs"),
        ({"shape": (2**40, 2**40)}, "its shape needs"),
        ({"offset": -1}, "within the file"),
        ({"offset": 33}, "within the file"),
        ({"offset": 2**63 - 1}, "within the file"),
        ({"num_bytes": 1}, "its shape needs"),
    ],
)
def test_a_damaged_tensor_is_refused_before_it_is_read(
    damage: dict[str, object], message: str
) -> None:
    with pytest.raises(ModelUnavailable, match=message):
        pack([replace(SOUND, **damage)], [DATA], TARGET)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [*FORMATS, *FLOATS])
def test_a_file_cut_short_is_refused(kind: str) -> None:
    own, data = tensor(np.random.default_rng(0), kind, 256, 3)
    with pytest.raises(ModelUnavailable, match="cut off"):
        pack([own], [data[:-1]], TARGET)


@pytest.mark.skipif(sys.platform != "linux", reason="asks the system to protect a page")
@pytest.mark.parametrize("kind", FORMATS)
def test_nothing_is_read_behind_the_file(kind: str) -> None:
    """The file ends where its memory does: what lies behind it cannot be read."""
    own, data = tensor(np.random.default_rng(0), kind, 256, 3)
    size = -(-data.size // mmap.PAGESIZE) * mmap.PAGESIZE
    held = mmap.mmap(-1, size + mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole = np.frombuffer(held, np.uint8)
    whole[size - data.size : size] = data
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    start = whole.ctypes.data + size
    assert protect(ctypes.c_void_p(start), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    matrix = packed(own, whole[size - data.size : size], TARGET)
    assert matrix.num_bytes


UNSOUND = {
    **dict.fromkeys(FORMATS, (b"\x00\x7c", b"\x00\xfc", b"\x01\x7e")),  # f16: infinite twice, NaN
    "MXFP4": (b"\xff",),
    "F16": (b"\x00\x7c", b"\x01\xfe"),
    "BF16": (b"\x80\x7f", b"\xc0\xff"),
    "F32": (b"\x00\x00\x80\x7f", b"\x01\x00\x80\xff"),
}
del UNSOUND["NVFP4"]  # all its bits mean numbers


@pytest.mark.parametrize("kind", UNSOUND)
def test_weights_that_are_no_numbers_are_refused(kind: str) -> None:
    """Rounded to 8 bits they would become zeros, and answers wrong with no sign of it."""
    own, data = tensor(np.random.default_rng(4), kind, 512, 40)
    form = checked(own, data.size)
    size, places = FLOATS[kind].bytes if kind in FLOATS else 0, [0]
    if isinstance(form, Format):
        size, places = form.block_bytes, [form.scale_at or 0]
        places += [] if form.min_at is None else [form.min_at]
    last = own.offset + own.num_bytes - size
    for bits, place in itertools.product(UNSOUND[kind], places):
        damaged = data.copy()
        for start in (own.offset, last):
            if isinstance(form, Format) and form.quarters_at:
                block = damaged[start : start + size].reshape(1, size)
                put_scales(form, block, np.frombuffer(bits, np.float16))
            else:
                damaged[start + place : start + place + len(bits)] = np.frombuffer(bits, np.uint8)
        with pytest.raises(ModelUnavailable, match=r"tensor w has .* not numbers \(2 found\)"):
            packed(own, damaged, TARGET, 2)


def test_types_in_one_allocation_and_unaligned_offsets() -> None:
    rng = np.random.default_rng(1)
    made = [tensor(rng, kind, 256, 33) for kind in [*FORMATS, *FLOATS]]
    parts: list[np.ndarray] = [np.zeros(1, np.uint8)]
    tensors: list[Tensor] = []
    for own, data in made:
        tensors.append(replace(own, offset=sum(part.size for part in parts) + own.offset))
        parts.append(data)
    together = pack(tensors, [np.concatenate(parts)], TARGET, 2, KEPT)
    inputs = inputs_of(rng, 2, 256)
    for matrix, (own, data) in zip(together, made, strict=True):
        alone = packed(own, data, TARGET)
        np.testing.assert_array_equal(multiplied(matrix, inputs)[0], multiplied(alone, inputs)[0])


# What rows of tables, and digits in base 3, take when they are written out; docs/models.md tells it.
LARGER = {
    "TQ1_0": 1.23, "IQ2_XXS": 1.61, "IQ2_XS": 1.44, "IQ2_S": 1.3, "IQ3_XXS": 1.41, "IQ3_S": 1.26,
    "IQ1_S": 1.48, "IQ1_M": 1.47,
}  # fmt: skip


@pytest.mark.parametrize("kind", [*FORMATS, *FLOATS])
def test_memory_stays_that_of_the_file(kind: str) -> None:
    own, data = tensor(np.random.default_rng(2), kind, 512, 64)
    matrix = packed(own, data, TARGET)
    assert matrix.num_bytes <= LARGER.get(kind, 1.04) * own.num_bytes
    assert matrix.num_bytes == packed_bytes(kind, own.num_bytes)


def test_every_type_in_common_use_is_known() -> None:
    names = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4"
    names += " IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S TQ1_0 TQ2_0 NVFP4 Q1_0 Q2_0"
    for name in names.split():
        own, data = tensor(np.random.default_rng(3), name, 256, 1)
        assert checked(own, data.size).name == name
