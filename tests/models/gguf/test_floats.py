import numpy as np
import pytest
from gguf import GGMLQuantizationType, quantize

from segue.models.gguf.floats import as_floats

SCALE = np.array([0.5], np.float16).tobytes()


@pytest.mark.parametrize(
    ("kind", "codes", "block", "meanings"),
    [
        ("Q1_0", (0b0000_0001, 0b1000_0000), 128, {0: 0.5, 15: 0.5}),
        ("Q2_0", (0b11_10_01_00, 0b01_01_01_11), 64, {2: 0.5, 3: 1.0, 4: 1.0, 1: 0, 5: 0, 6: 0, 7: 0}),
    ],
)  # fmt: skip
def test_codes_are_side_by_side(
    kind: str, codes: tuple[int, int], block: int, meanings: dict[int, float]
) -> None:
    """The first column is in the lowest bits of the first byte; no bits mean -1."""
    own = SCALE + bytes(codes) + bytes(14)
    other = np.array([-3.0], np.float16).tobytes() + bytes(16)
    found = as_floats(kind, np.frombuffer(own + other, np.uint8).reshape(1, -1))
    assert found.shape == (1, 2 * block)
    assert found[0, :block].tolist() == [meanings.get(column, -0.5) for column in range(block)]
    assert (found[0, block:] == 3.0).all()


def test_other_types_are_read_by_the_package() -> None:
    values = np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64)
    rows = quantize(values, GGMLQuantizationType.Q8_0)
    np.testing.assert_allclose(as_floats("Q8_0", rows), values, atol=0.01)
