import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.runners.cpu.exact_math import cosines_and_sines, power


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_turns_are_those_of_the_library(angles: list[float]) -> None:
    cosines, sines = cosines_and_sines(np.array(angles))
    np.testing.assert_allclose(cosines, [math.cos(x) for x in angles], atol=1e-15, rtol=0)
    np.testing.assert_allclose(sines, [math.sin(x) for x in angles], atol=1e-15, rtol=0)


@pytest.mark.parametrize("base", [10000.0, 500000.0, 1e6, 3.5])
def test_powers_are_those_of_the_library(base: float) -> None:
    for i in range(64):
        assert power(base, -i / 64) == pytest.approx(base ** (-i / 64), rel=1e-15)


def test_bits_are_the_same_everywhere() -> None:
    """Written down once: another system must give these very numbers."""
    assert power(10000.0, -31 / 32).hex() == "0x1.17a8e301c4436p-13"
    cosines, sines = cosines_and_sines(np.array([1.0, 8191.0, 0.5e6]))
    assert [x.hex() for x in (*cosines.tolist(), *sines.tolist())] == [
        "0x1.14a280fb5068cp-1",
        "-0x1.4af3b1102ac8bp-1",
        "-0x1.f7d6d81d1c85dp-1",
        "0x1.aed548f090ceep-1",
        "-0x1.86a8d36dca1dcp-1",
        "0x1.6c32c3d5d59f2p-3",
    ]
