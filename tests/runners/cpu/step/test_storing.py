"""Keys and values as they are stored, beside a plain definition."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from segue.runners.cpu.emit import Builder, Value
from segue.runners.cpu.kernel import INT, VOID, compiled, define
from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.step.attention import storing
from segue.runners.cpu.step.attention.kv_formats import head_bytes
from segue.runners.cpu.step.attention.scratch import BLOCK
from tests.runners.cpu.step.kept_numbers import WRITE_KEYS, WRITE_VALUES, decoded
from tests.runners.cpu.translation.built import built

Floats = NDArray[np.float32]


@define(VOID, *[INT] * 4)
def _key(b: Builder, *args: Value) -> None:
    storing._key_of_codes(b, *args)


@define(VOID, *[INT] * 4)
def _value(b: Builder, *args: Value) -> None:
    storing._value_of_codes(b, *args)


@compiled
def stored(x: Any, keys: Any, values: Any, place: Any, count: Any) -> Any:
    _key(x, keys, place, count)
    _value(x, values, place, count)
    return 0


@pytest.fixture(scope="module")
def kernel() -> Callable[..., int]:
    return built(stored, 5)


any_float = st.floats(width=32)
near = st.floats(-4, 4, width=32)
tiny = st.floats(-(2.0**-16), 2.0**-16, width=32)
rows = st.sampled_from([16, 32, 48, 64, 80]).flatmap(
    lambda size: st.sampled_from([any_float, near, tiny]).flatmap(
        lambda each: npst.arrays(np.float32, size, elements=each)
    )
)


@given(row=rows, token=st.integers(0, BLOCK - 1))
def test_codes_are_those_of_the_definition(
    kernel: Callable[..., int], row: Floats, token: int
) -> None:
    """Of any numbers, infinite ones and such as are none too. Other tokens' bytes stay as they are."""
    size = head_bytes("q8_0", len(row))
    found: NDArray[np.uint8] = zeros((2, size), np.uint8)
    found[:] = 85
    wanted = found.copy()
    kernel(address(row), address(found[0]), address(found[1]), token, len(row))
    own = slice(token, token + 1)
    WRITE_KEYS["q8_0"](wanted[0], own, row[None])
    WRITE_VALUES["q8_0"](wanted[1], own, row[None])
    np.testing.assert_array_equal(found, wanted)


@given(row=npst.arrays(np.float32, 64, elements=st.floats(-1000, 1000, width=32)))
@example(
    row=np.full(64, 2.4801588e-05, np.float32)
)  # its step, 3.28 of the smallest halves, is kept as 3
def test_what_is_kept_is_near(row: Floats) -> None:
    """Within half of a step of the group, whose 127 steps reach its greatest number but for the rounding of the step
    itself: at most 2^-25 where it is small, 127 times."""
    for group, kept in zip(row.reshape(-1, 32), decoded(row[None]).reshape(-1, 32), strict=True):
        step = np.abs(group).max() / 127
        np.testing.assert_allclose(kept, group, rtol=0, atol=0.57 * step + 127 * 2.0**-25)


def test_a_head_takes_34_bytes_for_each_32_numbers() -> None:
    assert head_bytes("f16", 64) == 64 * BLOCK * 2
    assert head_bytes("q8_0", 64) == 2 * 34 * BLOCK
    assert head_bytes("q8_0", 80) == (2 * 34 + 18) * BLOCK
