import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from segue.models.requantise import Weights, form_of, num_bytes, requantise

RANDOM = np.random.default_rng(0)
MATRIX = RANDOM.standard_normal((6, 256)).astype(np.float32)


def encoded(kind: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Rows as they lie in a GGUF."""
    return np.ascontiguousarray(gguf.quantize(MATRIX, Kind[kind])).view(np.uint8)


def decoded(weights: Weights, form: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    values = np.asarray(weights.values)
    if form == "i4":
        nibbles = np.stack([values & 15, values >> 4], -1).reshape(len(values), -1)
        values = ((nibbles ^ 8).astype(np.int8) - 8).astype(np.int8)
    if weights.scales is None:
        return values.astype(np.float32)
    groups = values.astype(np.float32).reshape(*weights.scales.shape, 32)
    return (groups * weights.scales.astype(np.float32)[..., None]).reshape(len(values), -1)


@pytest.mark.parametrize(
    ("kind", "form"), [("Q8_0", "i8"), ("Q4_0", "i4"), ("F16", "f16"), ("F32", "f32")]
)
def test_what_is_taken_as_it_is_keeps_its_exact_numbers(kind: str, form: str) -> None:
    assert form_of(kind, 256) == form
    weights = requantise(encoded(kind), kind, form_of(kind, 256))
    expected = gguf.dequantize(encoded(kind), Kind[kind]).reshape(MATRIX.shape)
    np.testing.assert_array_equal(decoded(weights, form), expected)


@pytest.mark.parametrize("kind", ["Q4_1", "Q5_0", "Q5_1", "BF16"])
def test_every_other_type_comes_within_half_a_step_of_q8(kind: str) -> None:
    assert form_of(kind, 256) == "i8"
    truth = gguf.dequantize(encoded(kind), Kind[kind]).reshape(MATRIX.shape)
    weights = requantise(encoded(kind), kind, "i8")
    assert weights.scales is not None
    error = np.abs(decoded(weights, "i8") - truth).reshape(*weights.scales.shape, 32)
    largest = np.abs(truth).reshape(error.shape).max(-1)
    # A scale is a half float, which adds its own rounding to the half step.
    assert (error.max(-1) <= largest * (0.5 / 127 + 2**-10)).all()


def test_k_quants_can_be_read() -> None:
    """Their writer is not in the gguf package, so any bytes must do: here zeros and their meaning."""
    for kind in ("Q4_K", "Q5_K", "Q6_K", "Q3_K", "Q2_K", "IQ4_NL"):
        size = gguf.GGML_QUANT_SIZES[Kind[kind]]
        rows = np.zeros((2, 256 // size[0] * size[1]), np.uint8)
        assert not decoded(requantise(rows, kind, "i8"), "i8").any()


def test_rows_that_are_not_whole_groups_stay_floats() -> None:
    assert form_of("BF16", 40) == "f32"
    rows = np.ascontiguousarray(gguf.quantize(MATRIX[:, :40], Kind.BF16)).view(np.uint8)
    weights = requantise(rows, "BF16", "f32")
    np.testing.assert_allclose(decoded(weights, "f32"), MATRIX[:, :40], rtol=2**-8)


def test_a_group_of_zeros_stays_zero() -> None:
    zeros = np.zeros((1, 64), np.float32)
    for kind in ("Q8_0", "Q4_0", "Q4_1"):
        form = form_of(kind, 64)
        rows = np.ascontiguousarray(gguf.quantize(zeros, Kind[kind])).view(np.uint8)
        assert not decoded(requantise(rows, kind, form), form).any()


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1", "F16", "F32"])
def test_the_size_is_known_before(kind: str) -> None:
    form = form_of(kind, 256)
    weights = requantise(encoded(kind), kind, form)
    scales = 0 if weights.scales is None else weights.scales.nbytes
    assert num_bytes(form, MATRIX.size) == weights.values.nbytes + scales
