"""Every format on every flavour this machine can execute: the same bits, and the right ones."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.runners.cpu.products import kernels, machine_code, processor
from segue.runners.cpu.products.formats import FLOATS, FORMATS
from segue.runners.cpu.products.matrix import pack
from tests.runners.cpu.products import emulated
from tests.runners.cpu.products.reference import (
    KEPT,
    dequantised,
    expected,
    first_rows,
    inputs_of,
    multiplied,
    packed,
    row_of,
    tensor,
)

TYPES = [*FORMATS, *FLOATS]


@cache
def targets() -> list[processor.Target]:
    """As this processor does, whose code other tests use too, and as those with other flavours would."""
    own = processor.this_target({})
    others = [flavour for flavour in processor.possible() if flavour != own.flavour]
    return [own, *map(processor.target_of, others)]


def foreign() -> list[processor.Flavour]:
    """Flavours whose instructions this machine lacks."""
    return [flavour for flavour in processor.FLAVOURS if flavour not in processor.possible()]


def columns_of(kind: str, blocks: int) -> int:
    return blocks * FORMATS[kind].block if kind in FORMATS else 13 * blocks


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("extreme", [False, True])
def test_bits_are_those_of_the_definition(kind: str, extreme: bool) -> None:
    rng = np.random.default_rng(1)
    own, data = tensor(rng, kind, columns_of(kind, 3), 41, extreme)
    inputs = inputs_of(rng, 15, own.shape[0])
    right = expected(own, data, inputs)
    for target in targets():
        matrix = packed(own, data, target, threads=2)
        for rows in (15, *target.flavour.rows):
            got, beside = multiplied(matrix, first_rows(inputs, rows))
            np.testing.assert_array_equal(got, right[:rows], err_msg=target.flavour.name)
            assert (beside == 7.5).all()


@pytest.mark.parametrize("kind", TYPES)
def test_products_are_near_those_of_the_weights(kind: str) -> None:
    rng = np.random.default_rng(2)
    own, data = tensor(rng, kind, columns_of(kind, 2), 40)
    inputs = inputs_of(rng, 3, own.shape[0])
    taken = inputs.x.astype(np.float64)
    if kind in FORMATS:
        taken = inputs.a.astype(np.float64) * np.repeat(inputs.scales[..., 0], 32, axis=1)
    weights = dequantised(own, data).astype(np.float64)
    got, _ = multiplied(packed(own, data, targets()[0]), inputs)
    np.testing.assert_allclose(
        got, taken @ weights.T, atol=1e-5 * float(np.abs(taken @ weights.T).max())
    )


@pytest.mark.parametrize("kind", TYPES)
def test_rows_are_those_of_the_gguf_package(kind: str) -> None:
    rng = np.random.default_rng(3)
    own, data = tensor(rng, kind, columns_of(kind, 2), 37)
    weights = dequantised(own, data)
    for target in targets():
        matrix = packed(own, data, target)
        for index in (0, 15, 16, 31, 36):
            np.testing.assert_array_equal(row_of(matrix, index), weights[index])


def test_a_scale_of_the_whole_matrix_scales_products_and_rows() -> None:
    rng = np.random.default_rng(5)
    own, data = tensor(rng, "NVFP4", 192, 41)
    inputs, weights = inputs_of(rng, 9, 192), dequantised(own, data)
    right = expected(own, data, inputs)
    found = []
    for target in targets():
        for factor, exact in ((0.25, True), (-0.3, False)):
            (matrix,) = pack([own], [data], target, 1, KEPT, factors={"w": factor})
            got, _ = multiplied(matrix, inputs)
            found.append(got) if not exact else np.testing.assert_array_equal(got, factor * right)
            np.testing.assert_allclose(row_of(matrix, 40), factor * weights[40], rtol=2e-7)
    np.testing.assert_allclose(found[0], -0.3 * right, rtol=1e-4, atol=1e-4)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@settings(max_examples=20, deadline=None)
@given(
    kind=st.sampled_from(TYPES),
    rows=st.integers(1, 40),
    outputs=st.integers(1, 90),
    blocks=st.integers(1, 3),
    pieces=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_company_and_shares_change_nothing(
    kind: str, rows: int, outputs: int, blocks: int, pieces: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    own, data = tensor(rng, kind, columns_of(kind, blocks), outputs)
    inputs = inputs_of(rng, rows, own.shape[0])
    right = expected(own, data, inputs)
    for target in targets()[-2:]:
        matrix = packed(own, data, target)
        got, beside = multiplied(matrix, inputs, pieces)
        np.testing.assert_array_equal(got, right)
        assert (beside == 7.5).all()


# Types that differ in what they ask of an instruction: a zero, signed bytes, a codebook, halves with own scales, large
# numbers in it, marks, scales that are floats, codes that are doubled.
ASKING = ["Q4_0", "Q8_0", "IQ4_NL", "MXFP4", "Q5_K", "Q6_K", "IQ2_XS", "IQ1_M", "NVFP4", "Q1_0"]


@pytest.mark.parametrize("flavour", foreign(), ids=lambda flavour: flavour.name)
@pytest.mark.parametrize("kind", ASKING)
def test_flavours_of_other_processors_give_the_same_bits(
    kind: str, flavour: processor.Flavour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their code, with the instructions that are not to be had here spelled out."""
    monkeypatch.setattr(kernels, "module", emulated.module)
    monkeypatch.setattr(machine_code, "compile_text", emulated.compiled)
    rng = np.random.default_rng(4)
    own, data = tensor(rng, kind, columns_of(kind, 2), 41)
    inputs = inputs_of(rng, 2 * flavour.rows[0] - 1, own.shape[0])
    right = expected(own, data, inputs)
    (matrix,) = pack([own], [data], emulated.target_of(flavour))
    for rows in (len(right), *flavour.rows):
        got, _ = multiplied(matrix, first_rows(inputs, rows))
        np.testing.assert_array_equal(got, right[:rows])
    np.testing.assert_array_equal(row_of(matrix, 40), dequantised(own, data)[40])
