from typing import Any

import numpy as np
from numpy.typing import NDArray

from segue.runners.cpu.emit import Builder, Value, load, store
from segue.runners.cpu.kernel import INT, VOID, compiled, define
from segue.runners.cpu.memory import address
from segue.runners.cpu.step.vectors.functions import powers_of_2
from tests.runners.cpu.translation.built import built


@define(VOID, INT)
def raised(b: Builder, x: Value) -> None:
    store(b, powers_of_2(b, [load(b, x)])[0], x)


@compiled
def raise_all(x: Any, count: Any) -> Any:
    """In place: powers of 2 of `count` vectors."""
    for i in range(count):
        raised(x + 64 * i)
    return 0


def powers(of: NDArray[np.float64]) -> NDArray[np.float32]:
    values = of.astype(np.float32)
    built(raise_all, 2)(address(values), len(values) // 16)
    return values


def test_powers_of_2_of_whole_numbers_are_exact() -> None:
    whole = np.arange(-126.0, 130.0)
    whole[-3:] = 0.0
    np.testing.assert_array_equal(powers(whole), np.exp2(whole))


def test_other_powers_of_2_are_off_by_no_more_than_two_units_of_the_last_place() -> None:
    of = np.random.default_rng(1).uniform(-126, 126, 160_000).astype(np.float32).astype(np.float64)
    of[:64] = np.linspace(-0.5, 0.5, 64, dtype=np.float32)
    np.testing.assert_allclose(powers(of), np.exp2(of), rtol=2 * 2.0**-23)


def test_powers_below_all_normal_numbers_are_the_least_of_those() -> None:
    least = powers(np.array([-126.5, -127, -1000, -1e30, -np.inf, np.nan, -126, -126] * 2))
    np.testing.assert_array_equal(least, 2.0**-126)
