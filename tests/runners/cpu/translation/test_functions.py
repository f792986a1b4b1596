"""Kernels compute what Python computes with the same function, and what they could not is refused."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.runners.cpu.kernel import FLOAT, INT, compiled, define
from segue.runners.cpu.memory import address
from segue.runners.cpu.step.atomics import put_real, real
from tests.runners.cpu.translation.built import built, module

FACTOR, IS_ON = 3, False
EIGHT = np.int64(8)
NOT_A_NUMBER = float("nan")
INTEGERS = st.integers(-(2**40), 2**40)
SMALL = st.integers(-9, 9)


def plain(written: Any) -> Callable[..., int]:
    function: Callable[..., int] = written.function
    return function


@compiled
def arithmetic(x: Any, y: Any) -> Any:
    x, y = y + 1, x - FACTOR * 2
    x += y
    return max(x, -y, 7) - min(y, x) + (x & 255) + (x // 8) * (y % 32) - x % 7 + (y // -5)


@compiled
def division(x: Any, y: Any) -> Any:
    return x // y * 1000 + x % y


@compiled
def conditions(x: Any, y: Any) -> Any:
    found = 1 if x < y else 2
    if x == y or (x > 2 and not y):
        found += 10
    elif IS_ON:
        found += no_such_name  # type: ignore[name-defined]  # noqa: F821
    elif x != 3 and y <= x:
        return -found
    is_large = x + y >= 5
    if is_large:
        found += 100
    else:
        found -= int(x > 0)
    return found


@compiled
def loops(x: Any, y: Any) -> Any:
    total, i = 0, 0
    for j in range(x, y):
        if j % 3 == 0:
            continue
        for k in range(0, j, 4):
            total += k
            k = 100
        total += j
        y -= 1
    while True:
        i += 1
        if i % 2:
            continue
        if i > y:
            return total * 10 + i
        total += 1


ON_TWO_NUMBERS = [(arithmetic, INTEGERS), (conditions, SMALL), (loops, SMALL)]


@pytest.mark.parametrize(
    ("written", "numbers"), ON_TWO_NUMBERS, ids=["arithmetic", "conditions", "loops"]
)
def test_integers_are_python_s(written: Any, numbers: st.SearchStrategy[int]) -> None:
    made = built(written, 2)

    @given(numbers, numbers)
    def same(x: int, y: int) -> None:
        assert made(x, y) == plain(written)(x, y)

    same()


def test_quotients_are_rounded_down() -> None:
    made = built(division, 2)
    for x in range(-7, 8):
        for y in (-4, -3, -1, 1, 2, 3):
            assert made(x, y) == plain(division)(x, y)


@compiled
def of_floats(x: Any, y: Any, out: Any) -> None:
    left, right = real(x), real(y)
    put_real(out, np.float32(1) / (left + right * left) - np.float32(FACTOR))
    put_real(out + 4, np.float32(math.sqrt(left * left)))
    put_real(out + 8, left if left != left or left > 0.5 else -right)
    put_real(out + 12, max(left, right))
    put_real(out + 16, np.float32(int(left == right) + 16777217))
    if right:
        left = np.float32(NOT_A_NUMBER)
    put_real(out + 20, left)


@given(st.lists(st.floats(width=32), min_size=2, max_size=2))
def test_floats_are_of_32_bits(pair: list[float]) -> None:
    left, right = values = np.array(pair, np.float32)
    out = np.zeros(6, np.float32)
    built(of_floats, 3)(address(values[:1]), address(values[1:]), address(out))
    with np.errstate(all="ignore"):
        wanted = [
            np.float32(1) / (left + right * left) - np.float32(3),
            np.sqrt(left * left),
            left if left != left or left > np.float32(0.5) else -right,
            max(left, right),
            np.float32(16777218 if left == right else 16777217),
            np.float32("nan") if right else left,
        ]
    np.testing.assert_array_equal(out, np.array(wanted, np.float32))


@compiled
def count(place: Any, result: Any) -> Any:
    put_real(place, real(place) + np.float32(1))
    return result


@compiled
def junctions(place: Any, x: Any) -> Any:
    if (count(place, x) and count(place, x - 1)) or not (count(place, 1) or count(place, 2)):
        return 1
    return 0


def test_what_follows_the_part_that_decides_is_not_computed() -> None:
    made, counted = built(junctions, 2), np.zeros(1, np.float32)
    found = []
    for x in (0, 1, 2):
        counted[:] = 0
        found.append((made(address(counted), x), int(counted[0])))
    assert found == [(0, 2), (0, 3), (1, 2)]


@compiled
def twice(x: Any) -> Any:
    return arithmetic(x, 1) + arithmetic(2, x > 3) + arithmetic(2, 3)


def test_a_kernel_is_translated_once_whatever_it_is_given() -> None:
    defined = [each for each in module(twice, 1).functions if not each.is_declaration]
    assert sorted(each.name for each in defined) == ["arithmetic", "twice"]


@define(FLOAT, INT)
def broken_promise(b: Any, x: Any) -> Any:
    return x


@define(INT, INT)
def nothing_found(b: Any, x: Any) -> Any:
    return None


@compiled
def mixes(x: Any) -> Any:
    return x + real(x)


@compiled
def rounds(x: Any) -> Any:
    x = real(x)
    return 0


@compiled
def halves(x: Any) -> Any:
    return x / 2


@compiled
def chained(x: Any) -> Any:
    return int(0 < x < 3)


@compiled
def truth_or_number(x: Any) -> Any:
    return x > 3 if x else 2


@compiled
def truth_then_number(x: Any) -> Any:
    found = x > 3
    found = 2
    return found


@compiled
def one_or_the_other(x: Any) -> Any:
    return x or 3


@compiled
def too_large(x: Any) -> Any:
    return x + 18446744073709551617


@compiled
def by_zero(x: Any) -> Any:
    return x % (FACTOR - 3)


@compiled
def of_numpy(x: Any) -> Any:
    found = EIGHT
    return x if found else 0


@compiled
def nothing(x: Any) -> Any:
    return put_real(x, 1.0)


@compiled
def promises_nothing(x: Any) -> Any:
    return nothing_found(x)


@compiled
def by_halves(x: Any) -> None:
    for _ in range(0, x, 1.5):  # type: ignore[call-overload]
        x += 1


@compiled
def of_four(x: Any) -> None:
    for _ in range(0, x, 1, 1):  # type: ignore[call-overload]
        x += 1


@compiled
def downwards(x: Any) -> None:
    for _ in range(x, 0, -1):
        pass


@compiled
def of_a_list(x: Any) -> None:
    for _ in (1, 2):
        x += 1


@compiled
def stops(x: Any) -> None:
    while x:
        break


@compiled
def ends(x: Any) -> None:
    while x:
        x -= 1
    else:
        x = 3


@compiled
def by_name(x: Any) -> Any:
    return arithmetic(x, y=3)


@compiled
def too_many(x: Any) -> Any:
    return arithmetic(x, 3, 4)  # type: ignore[call-arg]


@compiled
def promised(x: Any) -> None:
    broken_promise(x)


@compiled
def differs(x: Any) -> None:
    arithmetic(x, 1)
    arithmetic(x, 1.0)


NUMBERS = [mixes, rounds, halves, truth_or_number, truth_then_number, one_or_the_other]
NUMBERS += [too_large, by_zero, of_numpy, chained]
LOOPS = [downwards, by_halves, of_four, of_a_list, stops, ends]
CALLS = [by_name, too_many, nothing, promised, promises_nothing, differs]


@pytest.mark.parametrize(
    "written", [*NUMBERS, *LOOPS, *CALLS], ids=lambda each: each.function.__name__
)
def test_what_kernels_are_not_written_in_is_refused(written: Any) -> None:
    with pytest.raises((TypeError, ValueError, ArithmeticError)) as refusal:
        module(written, 1)
    assert f"in {written.function.__qualname__}: " in refusal.value.__notes__[0]


@compiled
def any_number(x: Any, *more: Any) -> Any:
    return x


def test_kernels_take_plain_numbers_only() -> None:
    with pytest.raises(TypeError, match="takes more than plain numbers"):
        module(any_number, 1)


def around(factor: int, inner: Any) -> Any:
    FACTOR = factor

    @compiled
    def inside(x: Any) -> Any:
        return inner(x) * FACTOR if IS_ON or factor > 2 else x

    return inside


@pytest.mark.parametrize("x", [-3, 0, 4])
def test_kernels_may_be_made_by_a_function(x: int) -> None:
    """Its names come before those of the module. Kernels of one text that it makes are not taken for each other."""
    twice, often = around(2, around), around(5, around(7, grows))
    assert built(twice, 1)(x) == x
    assert built(often, 1)(x) == 35 * plain(grows)(x)


@compiled
def grows(x: Any) -> Any:
    total = 0
    for i in range(x):
        square = i * i
        total += square if i > 1 and square & 1 else 0
    return total


def test_variables_of_a_loop_take_no_more_room_with_each_round() -> None:
    """They are allocated where the function begins."""
    [function] = module(grows, 1).functions
    first, *others = (
        sum(each.opname == "alloca" for each in block.instructions) for block in function.blocks
    )
    assert first >= 4
    assert not any(others)
